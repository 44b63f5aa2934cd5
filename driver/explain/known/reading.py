"""From the API's JSON to what explain keeps of it.

Nothing that an object holds makes more than that object unreadable: what cannot be read raises :class:`UnreadableError`
with the field, and the reader of the explanation is told. Of claims even that becomes an answer, see
:attr:`ClaimState.unreadable`.

Fields of claims' specs that this version does not know make a claim unreadable, since its meaning is not known
then. In all other objects they are passed over, as Kubernetes' own clients do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from driver.allocator.identity import DeviceId
from driver.allocator.ledger import Holding
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    DeviceClass,
    DeviceTaint,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
)
from driver.api.validation.defaults import with_defaults
from driver.api.validation.wording import first_error
from driver.explain.known.cluster import (
    EXTENDED_CLAIM,
    ClaimState,
    ContainerRequests,
    InventoryWord,
    NodeState,
    NodeTaint,
    PodClaim,
    PodState,
    PodToleration,
    PrepareFailure,
    TaintRule,
)
from driver.objects.extended_resources import MAX_POD_RESOURCES, extended_amounts, is_extended
from driver.objects.health import node_health

__all__ = [
    "DEFAULT_NAMESPACE",
    "MAX_POD_CLAIMS",
    "UnreadableError",
    "may_hold_devices",
    "object_key",
    "read_claim_state",
    "read_class",
    "read_inventory",
    "read_node",
    "read_pod",
    "read_prepare_failure",
    "read_taint_rule",
    "reading",
]

DEFAULT_NAMESPACE: Final = "default"
"""Of an object in a file that names no namespace, as kubectl applies it."""

MAX_POD_CLAIMS: Final = 256
"""How many claims of a pod are looked at. The API server takes tens of thousands; each is remembered by its name."""

_MOST_RESERVED: Final = 256  # ResourceClaimReservedForMaxSize, k8s.io/api v0.36.3, resource/v1/types.go
_MOST_ASKED: Final = 2**31
"""More of an extended resource than any node has."""
_PUBLISHED: Final = "Published"
_SUMMARIES: Final = (_PUBLISHED, "Ready")
"""The conditions of a NodeInventory that sum up: the controller's, and the plugin's."""

_PREPARE_FAILED: Final = "FailedPrepareDynamicResources"
_PREPARE_FAILED_TEXT: Final = "Failed to prepare dynamic resources: "

Json = Mapping[str, Any]
_Read = TypeVar("_Read")
_Model = TypeVar("_Model", bound=BaseModel)


class UnreadableError(Exception):
    """An object is not what the API server would store; the message names the field."""


def reading(read: Callable[[Json], _Read], wire: Json) -> _Read:
    """What ``read`` makes of ``wire``.

    Raises:
        UnreadableError: It is not what it should be, whatever that made ``read`` stumble.
    """
    try:
        return read(wire)
    except ValidationError as error:
        raise UnreadableError(first_error(error)) from error
    except Exception as error:  # an OverflowError of a number, an error of decimal
        raise UnreadableError(_told(error)) from error


def _told(error: Exception) -> str:
    """In words of the API: what Python says of a wrong type names Python's."""
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    if isinstance(error, AttributeError | IndexError | RecursionError):
        return "a field is not of the type that the API has"
    return str(error)


def object_key(wire: Json) -> str:
    """``namespace/name``, or ``name`` where there is no namespace.

    Raises:
        UnreadableError: It has no name.
    """
    metadata = wire.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        raise UnreadableError("metadata.name: it has none")
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


def may_hold_devices(wire: Json) -> bool:
    """Whether a ResourceClaim that cannot be read may have devices: not where it has no allocation."""
    status = wire.get("status")
    return not (status is None or (isinstance(status, Mapping) and status.get("allocation") is None))


def read_class(wire: Json) -> DeviceClass:
    """A DeviceClass."""
    metadata = {key: wire["metadata"].get(key) for key in ("name", "creationTimestamp")}
    return _model(DeviceClass, {"metadata": metadata, "spec": wire.get("spec") or {}})


def read_claim_state(wire: Json) -> ClaimState:
    """A ResourceClaim; what is wrong with its spec is in the result."""
    metadata = wire["metadata"]
    namespace, name, uid = _text(metadata.get("namespace")), _text(metadata["name"]), _text(metadata.get("uid"))
    status = wire.get("status") or {}
    allocation = status.get("allocation")
    claim, unreadable = None, ""
    if allocation is None:
        try:
            claim = reading(lambda wire: _pending_claim(wire, namespace, name, uid), wire)
        except UnreadableError as error:
            unreadable = str(error)
    reserved = status.get("reservedFor") or ()
    selector = (allocation or {}).get("nodeSelector")
    return ClaimState(
        namespace=namespace,
        name=name,
        uid=uid,
        claim=claim,
        unreadable=unreadable,
        allocated=allocation is not None,
        holds=_holdings(allocation or {}),
        available_on=None if selector is None else _selector(selector),
        pods=tuple(
            (_text(item["name"]), _text(item.get("uid")))
            for item in reserved
            if item.get("resource") == "pods" and not item.get("apiGroup")
        ),
        owner_pod=_owner(metadata),
        reserved_full=len(reserved) >= _MOST_RESERVED,
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _pending_claim(wire: Json, namespace: str, name: str, uid: str) -> ResourceClaim:
    version = wire.get("apiVersion") or "resource.k8s.io/v1"
    # Claims of v1beta2 have the very fields of v1 (k8s.io/api v0.36.3, resource/v1beta2/types.go).
    if version not in {"resource.k8s.io/v1", "resource.k8s.io/v1beta2"}:
        raise UnreadableError(f"apiVersion: {version} is not resource.k8s.io/v1, in which kubectl can show it")
    claim = ResourceClaim(
        # No annotations: what the controller writes there is no change to what is asked for.
        metadata=ObjectMeta(namespace=namespace, name=name, uid=uid),
        spec=ResourceClaimSpec.model_validate(wire.get("spec") or {}),
    )
    # A dump may hold what no API server would store. That two requests have one name is what would mislead the rest.
    requests = claim.spec.devices.requests
    for names in (
        [request.name for request in requests],
        *([part.name for part in r.first_available] for r in requests),
    ):
        if len(set(names)) != len(names):
            raise UnreadableError("spec.devices.requests: two of them have one name")
    return with_defaults(claim)


def _holdings(allocation: Json) -> tuple[Holding, ...]:
    """As :func:`driver.allocator.ledger.holdings`, without making models of what is only counted."""
    return tuple(
        _holding(item)
        for item in (allocation.get("devices") or {}).get("results") or ()
        if item.get("adminAccess") is not True
    )


def _holding(wire: Json) -> Holding:
    device = DeviceId(_name(wire["driver"]), _name(wire["pool"]), _name(wire["device"]))
    consumed = wire.get("consumedCapacity")
    if not consumed:
        return Holding(device, wire.get("shareID"))
    amounts = {_name(key): Quantity(str(amount)).nano for key, amount in consumed.items()}
    return Holding(device, wire.get("shareID"), amounts)


def _selector(wire: Json) -> NodeSelector:
    """A node selector; those of the claims of one node are one object."""
    name = _only_node(wire)
    if name:
        return _of_node(name)
    return _model(NodeSelector, wire)


def _only_node(wire: Json) -> str:
    """The node that the selector names and nothing else; empty where it says more."""
    terms: Sequence[Json] = wire.get("nodeSelectorTerms") or ()
    if len(terms) != 1 or terms[0].keys() != {"matchFields"}:
        return ""
    fields: Sequence[Json] = terms[0]["matchFields"]
    values: Sequence[str] = (fields[0].get("values") or ()) if fields else ()
    only = [{"key": "metadata.name", "operator": "In", "values": values}]
    return _text(values[0]) if fields == only and len(values) == 1 else ""


@lru_cache(maxsize=8192)
def _of_node(name: str) -> NodeSelector:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))


def _owner(metadata: Json) -> tuple[str, str] | None:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1" and owner.get("controller") is True:
            return _text(owner["name"]), _text(owner.get("uid"))
    return None


def read_pod(wire: Json) -> PodState:
    """A Pod."""
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    scheduled: Json = next((item for item in status.get("conditions") or () if item.get("type") == "PodScheduled"), {})
    entries = spec.get("resourceClaims") or ()
    made = {_text(item["name"]): item for item in status.get("resourceClaimStatuses") or ()}
    containers, has_more_resources = _containers(spec)
    return PodState(
        namespace=_text(metadata.get("namespace")),
        name=_text(metadata["name"]),
        uid=_text(metadata.get("uid")),
        claims=(*(_pod_claim(item, made) for item in entries[:MAX_POD_CLAIMS]), *_extended_claim(status)),
        has_more_claims=len(entries) > MAX_POD_CLAIMS,
        node=_text(spec.get("nodeName")),
        node_selector={_text(key): _text(value) for key, value in sorted((spec.get("nodeSelector") or {}).items())},
        affinity=None if required is None else _model(NodeSelector, required),
        tolerations=tuple(
            PodToleration(
                key=_text(item.get("key")),
                operator=_text(item.get("operator")) or "Equal",
                value=_text(item.get("value")),
                effect=_text(item.get("effect")),
            )
            for item in spec.get("tolerations") or ()
        ),
        gates=tuple(_text(item["name"]) for item in spec.get("schedulingGates") or ()),
        scheduler=_text(spec.get("schedulerName")) or "default-scheduler",
        phase=_text(status.get("phase")),
        deleting=bool(metadata.get("deletionTimestamp")),
        scheduler_message=_text(scheduled.get("message")) if scheduled.get("status") == "False" else "",
        waiting=_waiting(status),
        containers=containers,
        has_more_resources=has_more_resources,
    )


def _extended_claim(status: Json) -> tuple[PodClaim, ...]:
    """The claim that kube-scheduler has made of the pod's extended resources, once it has."""
    name = _text((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return (PodClaim(name=EXTENDED_CLAIM, claim=name),) if name else ()


def _containers(spec: Json) -> tuple[tuple[ContainerRequests, ...], bool]:
    """The containers that ask for extended resources; none, and True, where these are more than are looked at."""
    before = spec.get("initContainers") or ()
    found: list[ContainerRequests] = []
    left = MAX_POD_RESOURCES
    for place, container in enumerate((*before, *(spec.get("containers") or ()))):
        resources = container.get("resources") or {}
        # What is limited and not requested is requested as well: so the API server stores it.
        lists: tuple[Json, ...] = (resources.get("limits") or {}, resources.get("requests") or {})
        if max(map(len, lists)) > MAX_POD_RESOURCES:
            return (), True
        requests = {**lists[0], **lists[1]}
        asked = {
            _text(name): (index, min(amount, _MOST_ASKED))
            for index, name in enumerate(sorted(requests))
            if is_extended(name) and (amount := Quantity(str(requests[name])).ceil()) > 0
        }
        left -= len(asked)
        if left < 0:
            return (), True
        if asked:
            is_first = place < len(before) and container.get("restartPolicy") != "Always"
            found.append(ContainerRequests(place=place, is_first=is_first, asked=asked))
    return tuple(found), False


def _pod_claim(wire: Json, made: Mapping[str, Json]) -> PodClaim:
    name = _text(wire["name"])
    if wire.get("resourceClaimTemplateName") is None:
        return PodClaim(name=name, claim=_text(wire.get("resourceClaimName")))
    status = made.get(name)
    # Set without a name: "no ResourceClaim was needed" (k8s.io/api v0.36.3, core/v1, PodResourceClaimStatus).
    claim = _text(status.get("resourceClaimName")) if status is not None else ""
    return PodClaim(
        name=name,
        claim=claim,
        template=_text(wire["resourceClaimTemplateName"]),
        needs_none=status is not None and not claim,
    )


def _waiting(status: Json) -> str:
    """``main: ContainerCreating; side: ErrImagePull: …``."""
    texts = []
    for item in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (item.get("state") or {}).get("waiting")
        if waiting:
            parts = (item.get("name"), waiting.get("reason"), waiting.get("message"))
            texts.append(": ".join(_text(part) for part in parts if part))
    return "; ".join(texts)


def read_prepare_failure(wire: Json) -> PrepareFailure | None:
    """An Event in which a kubelet says that it cannot prepare a pod's claims; None for all others.

    Source of the reason and its text: k8s.io/kubernetes v1.36.3, pkg/kubelet/kuberuntime/kuberuntime_manager.go.
    """
    if wire.get("reason") != _PREPARE_FAILED:
        return None
    times = (wire.get("lastTimestamp"), (wire.get("series") or {}).get("lastObservedTime"), wire.get("eventTime"))
    return PrepareFailure(
        pod_uid=_text((wire.get("involvedObject") or {}).get("uid")),
        when=max(_text(time) for time in times),
        message=_text(wire.get("message")).removeprefix(_PREPARE_FAILED_TEXT),
    )


def read_node(wire: Json) -> NodeState:
    """A Node. Its Ready condition counts where it has one: a node that kubelet has not written yet is unknown."""
    metadata, spec = wire["metadata"], wire.get("spec") or {}
    conditions = (wire.get("status") or {}).get("conditions") or ()
    ready = next((item for item in conditions if item.get("type") == "Ready"), None)
    allocatable = (wire.get("status") or {}).get("allocatable")
    labels = {_name(key): _name(value) for key, value in (metadata.get("labels") or {}).items()}
    return NodeState(
        node=Node(metadata=ObjectMeta(name=_text(metadata["name"]), labels=labels)),
        unschedulable=spec.get("unschedulable") is True,
        taints=tuple(
            NodeTaint(key=_text(item["key"]), value=_text(item.get("value")), effect=_text(item.get("effect")))
            for item in spec.get("taints") or ()
        ),
        not_ready="" if ready is None or ready.get("status") == "True" else _condition(ready),
        extended=None
        if allocatable is None
        else {_name(key): Quantity(str(amount)).ceil() for key, amount in extended_amounts(allocatable).items()},
    )


def read_taint_rule(wire: Json) -> TaintRule:
    """A DeviceTaintRule of v1, v1beta2 or v1alpha3: what matters here is the same in all."""
    spec = wire["spec"]
    selector = spec.get("deviceSelector") or {}
    return TaintRule(
        name=_text(wire["metadata"]["name"]),
        driver=_text(selector.get("driver")),
        pool=_text(selector.get("pool")),
        device=_text(selector.get("device")),
        taint=_model(DeviceTaint, spec["taint"]),
    )


def read_inventory(wire: Json) -> InventoryWord:
    """What the status of a NodeInventory says."""
    status = wire.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    bad = [conditions[name] for name in _SUMMARIES if name in conditions and conditions[name].get("status") != "True"]
    published = conditions.get(_PUBLISHED, {})
    # What was left out stands behind the count of what is published.
    left_out = _text(published.get("message")).partition("; ")[2] if published.get("status") == "True" else ""
    return InventoryWord(
        problem="; ".join(f"{item['type']}: {item.get('status')}, {_condition(item)}" for item in bad),
        remark=left_out,
        faults=node_health({"status": {"faults": status.get("faults") or ()}}).faults,
    )


def _condition(wire: Json) -> str:
    parts = (_text(wire.get("reason")), _text(wire.get("message")))
    return ": ".join(part for part in parts if part) or f"{wire.get('type')} is {wire.get('status')}"


def _model(model: type[_Model], wire: Any) -> _Model:
    return model.model_validate(wire, extra="ignore")


def _name(value: object) -> str:
    """A text of which there are few different ones, or that stands in many objects: held once."""
    return intern(_text(value))


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {value!r:.60}")
    return value
