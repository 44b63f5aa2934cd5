"""A cluster of nodes without kubelets, on which pods hang; and how what explain proposes is done there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import (
    DEVICE_CLASSES,
    NODE_INVENTORIES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
    Resource,
)
from driver.adapters.kubernetes.snapshot import read_cluster
from driver.explain.explainer import Explainer
from driver.explain.explanation import ChangeKind, Explanation, ObjectRef, Proposal
from tests.support import waiting
from tests.support.cluster.control_plane import TAINT_RULES, ControlPlane
from tests.support.json_patch import patched

__all__ = [
    "NAMESPACE",
    "World",
    "claim",
    "device",
    "eventually",
    "node",
    "pod",
    "request",
    "slice_of",
    "start_schedulers",
]

NAMESPACE: Final = "hang"

eventually = partial(waiting.eventually, timeout_s=30)
ROOM: Final = {"cpu": "8", "memory": "64Gi", "pods": "300"}

_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
_KINDS: Final = {
    item.kind: item
    for item in (
        PODS, RESOURCE_CLAIMS, _TEMPLATES, RESOURCE_SLICES, TAINT_RULES, NODE_INVENTORIES, NODES, DEVICE_CLASSES
    )
}  # fmt: skip
"""In the order in which they are removed."""


class World:
    """What a case makes is gone when the next one begins.

    Args:
        plane: An API server, kube-scheduler and the controller of resource claims.
        api: The administrator's.
    """

    def __init__(self, plane: ControlPlane, api: KubernetesApi) -> None:
        self.plane = plane
        self._api = api
        self._made: list[tuple[Resource, str, str | None]] = []

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects. A Node becomes ready, without the taint that it is born with."""
        for item in objects:
            self._create(deepcopy(dict(item)))

    def _create(self, item: JsonObject) -> None:
        resource = _KINDS[item["kind"]]
        namespace = NAMESPACE if resource.namespaced else None
        stored = self._api.create(resource, item, namespace=namespace)
        name = stored["metadata"]["name"]
        if (resource, name, namespace) not in self._made:
            self._made.append((resource, name, namespace))
        if "status" in item and resource is not PODS:
            self._api.merge_patch(resource, name, {"status": item["status"]}, namespace=namespace, subresource="status")
        if resource is NODES:
            self._api.merge_patch(NODES, name, {"spec": {"taints": item.get("spec", {}).get("taints")}})

    def patch(self, kind: str, name: str, body: JsonObject, *, subresource: str | None = None) -> None:
        """Merge-patch an object."""
        resource = _KINDS[kind]
        namespace = NAMESPACE if resource.namespaced else None
        self._api.merge_patch(resource, name, body, namespace=namespace, subresource=subresource)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object, and wait until it is gone."""
        resource = _KINDS[kind]
        namespace = NAMESPACE if resource.namespaced else None
        self._delete(resource, name, namespace)
        eventually(f"{kind} {name} is gone", lambda: self.get(kind, name) is None)

    def start_deletion(self, kind: str, name: str) -> None:
        """Delete an object that a finalizer keeps."""
        self._api.delete(_KINDS[kind], name, namespace=NAMESPACE)

    def get(self, kind: str, name: str) -> JsonObject | None:
        """An object as it is stored; None where there is none."""
        resource = _KINDS[kind]
        try:
            return self._api.get(resource, name, namespace=NAMESPACE if resource.namespaced else None)
        except NotFoundError:
            return None

    def runs(self, name: str) -> bool:
        """Whether the pod was given a node: the scheduler allocates its claims before that."""
        found = self.get("Pod", name)
        return found is not None and bool(found["spec"].get("nodeName"))

    def is_allocated(self, name: str) -> bool:
        """Whether the claim has devices."""
        found = self.get("ResourceClaim", name)
        return found is not None and "allocation" in found.get("status", {})

    def hangs(self, name: str) -> bool:
        """Whether the scheduler has tried the pod and found no place; or does not even try."""
        found = self.get("Pod", name)
        assert found is not None
        if found["spec"].get("nodeName"):
            raise AssertionError(f"pod {name} was scheduled to {found['spec']['nodeName']}")
        conditions = found.get("status", {}).get("conditions", ())
        return any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions)

    def explain(self, kind: str, name: str) -> Explanation:
        """What explain says of the cluster as it is now."""
        state = read_cluster(self._api, namespace=NAMESPACE)
        return Explainer(state).explain(ObjectRef(kind=kind, namespace=NAMESPACE, name=name))

    def apply(self, proposal: Proposal, pod: str) -> None:
        """Do what is proposed, as a person would."""
        DOINGS[proposal.kind](self, proposal, pod)

    def recreate(self, kind: str, name: str, change: Callable[[JsonObject], JsonObject]) -> None:
        """Write an object anew: what cannot be changed in place."""
        found = self.get(kind, name)
        assert found is not None
        fresh = {
            "apiVersion": found["apiVersion"],
            "kind": kind,
            "metadata": {"name": name},
            "spec": change(found)["spec"],
        }
        self.delete(kind, name)
        self._create(fresh)

    def clean(self) -> None:
        """Remove everything, also what claims were made of templates."""
        names = {item for _, item, _ in self._made}
        of_templates = [
            (RESOURCE_CLAIMS, item["metadata"]["name"], NAMESPACE)
            for item in self._api.list(RESOURCE_CLAIMS, namespace=NAMESPACE).items
            if item["metadata"]["name"] not in names
        ]
        order = list(_KINDS.values())
        for resource, name, namespace in sorted([*self._made, *of_templates], key=lambda item: order.index(item[0])):
            self._delete(resource, name, namespace)
        self._made.clear()
        for resource in (PODS, RESOURCE_CLAIMS):
            eventually("all is gone", lambda resource=resource: not self._api.list(resource, namespace=NAMESPACE).items)

    def _delete(self, resource: Resource, name: str, namespace: str | None) -> None:
        try:
            if resource in (RESOURCE_CLAIMS, PODS):
                self._api.merge_patch(resource, name, {"metadata": {"finalizers": None}}, namespace=namespace)
            self._api.delete(resource, name, namespace=namespace)
        except NotFoundError:
            pass


def start_schedulers(plane: ControlPlane, *, feature_gates: str) -> None:
    """What places pods and makes their claims, and the namespace for both; nobody else makes its service account."""
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("create", "serviceaccount", "default", f"--namespace={NAMESPACE}")
    plane.start_scheduler(f"--feature-gates={feature_gates}")
    plane.start_controller_manager("--controllers=resourceclaim-controller")


def _change_claim(world: World, proposal: Proposal, pod: str) -> None:
    found = world.get("Pod", pod)
    assert found is not None
    world.delete("Pod", pod)
    for patch in proposal.patches:
        world.recreate("ResourceClaim", patch.claim.name, lambda claim, patch=patch: patched(claim, patch.operations))
    world.create(_anew(found))


def _change_pod(world: World, proposal: Proposal, pod: str) -> None:
    # The proposal's text is for a person; what it says comes down to this.
    found = world.get("Pod", pod)
    assert found is not None
    world.delete("Pod", pod)
    fresh = _anew(found)
    for field in ("nodeSelector", "affinity", "schedulingGates", "schedulerName"):
        if field in proposal.text:
            fresh["spec"].pop(field, None)
    world.create(fresh)


def _end_claims(world: World, proposal: Proposal, _pod: str) -> None:
    for pod in proposal.pods:
        world.delete("Pod", pod.name)
    for claim in proposal.ends:
        # kube-controller-manager takes the allocation back; the claim itself may stay, and wait for another pod.
        eventually(f"{claim} is given back", lambda claim=claim: not world.is_allocated(claim.name))


def _change_node(world: World, proposal: Proposal, _pod: str) -> None:
    for command in proposal.commands:
        world.plane.kubectl(*command.split()[1:])


def _anew(found: JsonObject) -> JsonObject:
    spec = {key: value for key, value in found["spec"].items() if key not in ("nodeName", "priority")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": found["metadata"]["name"]}, "spec": spec}


DOINGS: Final[Mapping[ChangeKind, Callable[[World, Proposal, str], None]]] = {
    ChangeKind.CHANGE_CLAIM: _change_claim,
    ChangeKind.CHANGE_POD: _change_pod,
    ChangeKind.END_CLAIMS: _end_claims,
    ChangeKind.CHANGE_NODE: _change_node,
    ChangeKind.CHANGE_DEVICE_TAINT: _change_node,
}


def node(name: str, *, not_ready: str = "", **spec: Any) -> JsonObject:
    """A Node that is ready, or says why it is not."""
    ready = {"type": "Ready", "status": "False" if not_ready else "True", "message": not_ready}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]},
    }


def device(name: str, *, capacity: Mapping[str, str] | None = None, **attributes: str | int) -> JsonObject:
    """A device of a slice; attributes of Rootport's own domain."""
    made: JsonObject = {
        "name": name,
        "attributes": {
            key: {"int" if isinstance(value, int) else "string": value} for key, value in attributes.items()
        },
    }
    if capacity:
        made["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    return made


def slice_of(
    node: str, *devices: JsonObject, name: str = "", count: int = 1, driver: str = "rootport.dev"
) -> JsonObject:
    """A ResourceSlice of a node's pool, of ``count`` slices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }


def request(name: str, device_class: str = "gpu", *terms: str, **exactly: Any) -> JsonObject:
    """A request; ``terms`` are CEL selectors, ``exactly`` what else it says."""
    full = device_class if "." in device_class else f"{device_class}.rootport.dev"
    selectors = [{"cel": {"expression": term}} for term in terms]
    return {
        "name": name,
        "exactly": {"deviceClassName": full, **({"selectors": selectors} if terms else {}), **exactly},
    }


def claim(name: str, *requests: JsonObject, **devices: Any) -> JsonObject:
    """A ResourceClaim."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def pod(name: str, *claims: str, template: str = "", cpu: str = "10m", **spec: Any) -> JsonObject:
    """A pod that uses claims, or a template."""
    entries = [{"name": item, "resourceClaimName": item} for item in claims]
    if template:
        entries.append({"name": "made", "resourceClaimTemplateName": template})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "resourceClaims": entries,
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"requests": {"cpu": cpu}, "claims": [{"name": item["name"]} for item in entries]},
                }
            ],
            **spec,
        },
    }
