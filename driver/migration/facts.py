"""What of a cluster's objects says how far a node has moved: read from the API's JSON, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.model.rivals import DRA_DRIVER, RIVAL_TAINT
from driver.objects.consumers import GROUP_KIND, is_pod, is_pod_group
from driver.rivals.resources import resource_rule

__all__ = [
    "ClusterObjects",
    "DaemonSetFacts",
    "Holder",
    "NodeFacts",
    "Resource",
    "node_facts",
]

Json: TypeAlias = Mapping[str, Any]

_DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
"""The kubelet's folder that device plugins mount (k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1, constants.go)."""

_DRIVERS_OF_DEVICES: Final = frozenset({"gpu.nvidia.com", "gpu.amd.com", "dra.net"})
"""DRA drivers of the same devices, where no plugin of Rootport has compared them yet."""

_MOST_HOLDERS: Final = 1000
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_OUR_NAMESPACE: Final = "rootport-system"
_COMPONENT: Final = "app.kubernetes.io/component"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """The objects, as the API server stores them; None where they could not be read.

    Attributes:
        node: The Node.
        pods: The pods on it.
        claims: All ResourceClaims.
        slices: The ResourceSlices of the node, of all drivers.
        daemon_sets: All DaemonSets.
        inventory: The node's NodeInventory; empty where there is none.
        problems: Why something could not be read, for a person.
    """

    node: Json
    pods: Sequence[Json] | None = None
    claims: Sequence[Json] | None = None
    slices: Sequence[Json] | None = None
    daemon_sets: Sequence[Json] | None = None
    inventory: Json | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An extended resource of the Node by which another system gives out devices."""

    name: str
    capacity: int
    allocatable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A pod, or a claim that no pod uses, that holds devices of the node.

    Attributes:
        name: ``pod NAMESPACE/NAME`` or ``claim NAMESPACE/NAME``.
        what: What it holds, such as ``nvidia.com/gpu: 1``.
        is_daemon: Whether it is a pod of a DaemonSet, which a drain leaves.
    """

    name: str
    what: str
    is_daemon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSetFacts:
    """A DaemonSet of a device plugin, or Rootport's own.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        node_selector: The node selector of its pods.
        has_affinity: Whether its pods have a required node affinity.
        on_node: Whether a pod of it is on the node.
        is_ready: Whether that pod is ready.
    """

    namespace: str
    name: str
    node_selector: Mapping[str, str] = field(default_factory=dict)
    has_affinity: bool = False
    on_node: bool = False
    is_ready: bool = False

    @property
    def key(self) -> str:
        """``NAMESPACE/NAME``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The facts about one node. What could not be read is None.

    Attributes:
        name: The node's name.
        is_cordoned: Whether it takes no new pods.
        labels: Its labels.
        resources: The extended resources by which other systems give out devices; those that are 0 too.
        old_holders: Who holds devices by another system.
        our_holders: Who holds Rootport's devices.
        plugins: The DaemonSets of device plugins, on the node or not.
        ours: Rootport's DaemonSet; None also where there is none.
        conditions: Type to status, reason and message of the NodeInventory's conditions; None where there is none.
        rivals: Names to messages of the rivals that Rootport's plugin reports.
        drivers: The other DRA drivers of the same devices that have ResourceSlices of the node.
        our_devices: How many devices Rootport publishes.
        tainted: How many of these have the taint of a rival.
        problems: Why something is not known, for a person.
    """

    name: str
    is_cordoned: bool
    labels: Mapping[str, str]
    resources: tuple[Resource, ...] = ()
    old_holders: tuple[Holder, ...] | None = None
    our_holders: tuple[Holder, ...] | None = None
    plugins: tuple[DaemonSetFacts, ...] | None = None
    ours: DaemonSetFacts | None = None
    conditions: Mapping[str, tuple[str, str, str]] | None = None
    rivals: Mapping[str, str] = field(default_factory=dict)
    drivers: tuple[str, ...] | None = None
    our_devices: int | None = None
    tainted: int = 0
    problems: tuple[str, ...] = ()

    @property
    def offered(self) -> tuple[Resource, ...]:
        """The resources that the node has any of."""
        return tuple(item for item in self.resources if item.capacity)


def node_facts(objects: ClusterObjects) -> NodeFacts:
    """Return the facts. A field that has not the type of the API counts as absent."""
    metadata, spec, status = (_map(objects.node, name) for name in ("metadata", "spec", "status"))
    name = str(metadata.get("name", ""))
    reported = _map(objects.inventory or {}, "status")
    rivals = {str(item.get("name")): item for item in _list(reported.get("rivals"))}
    drivers = {name for name, item in rivals.items() if item.get("kind") == DRA_DRIVER} | _DRIVERS_OF_DEVICES
    resources = tuple(_resources(status, rivals))
    names = {item.name for item in resources} | set(rivals)
    pods = None if objects.pods is None else [pod for pod in objects.pods if not _has_ended(pod)]
    sets = None if objects.daemon_sets is None or pods is None else list(_daemon_sets(objects.daemon_sets, pods))
    claims = None if objects.claims is None else list(_claims(objects.claims, name))
    others = None if claims is None else [held for driver, held in claims if driver in drivers]
    ours = None if claims is None else [held for driver, held in claims if driver == DRIVER_NAME]
    slices = None if objects.slices is None else list(_slices(objects.slices))
    devices = [device for driver, found in slices or () if driver == DRIVER_NAME for device in found]
    return NodeFacts(
        name=name,
        is_cordoned=spec.get("unschedulable") is True,
        labels={str(key): str(value) for key, value in _map(metadata, "labels").items()},
        resources=resources,
        old_holders=None if pods is None or others is None else (*_by_resources(pods, names), *others)[:_MOST_HOLDERS],
        our_holders=None if ours is None else tuple(ours[:_MOST_HOLDERS]),
        plugins=None if sets is None else tuple(item for is_ours, item in sets if not is_ours),
        ours=next((item for is_ours, item in sets or () if is_ours), None),
        conditions=_conditions(reported) if objects.inventory else None,
        rivals={key: str(item.get("message", "")) for key, item in rivals.items()},
        drivers=None if slices is None else tuple(sorted({driver for driver, _ in slices} & drivers)),
        our_devices=None if slices is None else len(devices),
        tainted=sum(any(taint.get("key") == RIVAL_TAINT for taint in _list(item.get("taints"))) for item in devices),
        problems=objects.problems,
    )


def _resources(status: Json, rivals: Mapping[str, Json]) -> Iterator[Resource]:
    capacity, allocatable = _map(status, "capacity"), _map(status, "allocatable")
    for name in sorted(capacity):
        rule = resource_rule(name)
        # Of a name that may be anything, Rootport's plugin knows more.
        if name in rivals or (rule is not None and rule.is_certain):
            yield Resource(name=name, capacity=_count(capacity[name]), allocatable=_count(allocatable.get(name, 0)))


def _by_resources(pods: Sequence[Json], names: set[str]) -> Iterator[Holder]:
    for pod in pods:
        spec = _map(pod, "spec")
        # Those of a DeviceClass with extendedResourceName: the pod has them by a claim (KEP-5004).
        mapped = _list(_map(_map(pod, "status"), "extendedResourceClaimStatus").get("requestMappings"))
        by_claim = {str(item.get("resourceName")) for item in mapped}
        wanted: dict[str, str] = {}
        for container in (*_list(spec.get("containers")), *_list(spec.get("initContainers"))):
            limits = _map(_map(container, "resources"), "limits")
            for name, amount in limits.items():
                rule = resource_rule(str(name))
                if name not in by_claim and (name in names or (rule is not None and rule.is_certain)):
                    wanted[str(name)] = str(amount)
        if wanted:
            what = ", ".join(f"{name}: {amount}" for name, amount in sorted(wanted.items()))
            yield Holder(name=f"pod {_key(pod)}", what=what, is_daemon=_owner(pod)[0] == "DaemonSet")


def _claims(claims: Iterable[Json], node: str) -> Iterator[tuple[str, Holder]]:
    for claim in claims:
        status = _map(claim, "status")
        results = _list(_map(_map(status, "allocation"), "devices").get("results"))
        held = [item for item in results if item.get("pool") == node and not item.get("adminAccess")]
        namespace = str(_map(claim, "metadata").get("namespace", ""))
        users = [user for item in _list(status.get("reservedFor")) if (user := _user(item, namespace))]
        for driver in sorted({str(item.get("driver")) for item in held}):
            count = sum(item.get("driver") == driver for item in held)
            what = f"{count} of {driver} by claim {_key(claim)}"
            for holder in users or [f"claim {_key(claim)}"]:
                yield driver, Holder(name=holder, what=what)


def _user(reference: Json, namespace: str) -> str:
    """Write a pod or a PodGroup that a claim is reserved for; empty for anything else."""
    kind = "pod" if is_pod(reference) else GROUP_KIND if is_pod_group(reference) else ""
    return f"{kind} {namespace}/{reference.get('name')}" if kind else ""


def _daemon_sets(sets: Sequence[Json], pods: Sequence[Json]) -> Iterator[tuple[bool, DaemonSetFacts]]:
    """Yield Rootport's DaemonSet and those of device plugins, and which is Rootport's."""
    here: dict[tuple[str, str], bool] = {}
    for pod in pods:
        kind, owner = _owner(pod)
        if kind == "DaemonSet":
            key = (str(_map(pod, "metadata").get("namespace", "")), owner)
            here[key] = here.get(key, False) or _is_ready(pod)
    for item in sets:
        metadata, template = _map(item, "metadata"), _map(_map(_map(item, "spec"), "template"), "spec")
        namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
        is_ours = namespace == _OUR_NAMESPACE and _map(metadata, "labels").get(_COMPONENT) == "kubelet-plugin"
        if not is_ours and not _mounts_device_plugins(template):
            continue
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        yield (
            is_ours,
            DaemonSetFacts(
                namespace=namespace,
                name=name,
                node_selector={str(key): str(value) for key, value in _map(template, "nodeSelector").items()},
                has_affinity=bool(_map(_map(template, "affinity"), "nodeAffinity").get(required)),
                on_node=(namespace, name) in here,
                is_ready=here.get((namespace, name), False),
            ),
        )


def _mounts_device_plugins(template: Json) -> bool:
    paths = (str(_map(volume, "hostPath").get("path", "")) for volume in _list(template.get("volumes")))
    return any(path.rstrip("/") == _DEVICE_PLUGINS for path in paths)


def _slices(slices: Iterable[Json]) -> Iterator[tuple[str, list[Json]]]:
    for item in slices:
        spec = _map(item, "spec")
        yield str(spec.get("driver", "")), _list(spec.get("devices"))


def _conditions(status: Json) -> dict[str, tuple[str, str, str]]:
    return {
        str(item.get("type")): (str(item.get("status")), str(item.get("reason", "")), str(item.get("message", "")))
        for item in _list(status.get("conditions"))
    }


def _has_ended(pod: Json) -> bool:
    return str(_map(pod, "status").get("phase")) in _ENDED


def _is_ready(pod: Json) -> bool:
    conditions = _list(_map(pod, "status").get("conditions"))
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _owner(pod: Json) -> tuple[str, str]:
    owners = _list(_map(pod, "metadata").get("ownerReferences"))
    found = next((item for item in owners if item.get("controller") is True), {})
    return str(found.get("kind", "")), str(found.get("name", ""))


def _key(stored: Json) -> str:
    metadata = _map(stored, "metadata")
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _count(amount: object) -> int:
    try:
        return max(Quantity(str(amount)).ceil(), 0)
    except ValueError:
        return 1  # something is there


def _map(wire: Json, name: str) -> Json:
    found = wire.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []
