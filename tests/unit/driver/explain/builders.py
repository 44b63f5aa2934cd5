"""Objects of a cluster as the API's JSON, short to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.allocator import Features
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState

__all__ = [
    "DRIVER",
    "Json",
    "allocated",
    "claim_wire",
    "class_wire",
    "cluster",
    "device_wire",
    "exactly",
    "held_wire",
    "node_wire",
    "pod_wire",
    "slice_wire",
    "taint_rule_wire",
]

Json = dict[str, Any]
DRIVER = "rootport.dev"
_KINDS = {str: "string", int: "int", bool: "bool"}


def cluster(*objects: Json, features: Features | None = None) -> ClusterState:
    """A cluster of these objects; each has its ``kind``."""
    state = ClusterState(features=features)
    for wire in objects:
        state.put(Kind(wire["kind"]), wire)
    return state


def node_wire(
    name: str,
    *,
    ready: str = "True",
    taints: list[Json] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """``ready`` is the status of its condition Ready; ``spec`` are more fields of its spec."""
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady" if ready == "True" else "NodeStatusUnknown"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": taints or [], **spec},
        "status": {"conditions": [condition]},
    }


def device_wire(
    name: str, *, capacity: Mapping[str, str] | None = None, extra: Json | None = None, **own: str | int | bool
) -> Json:
    """``own`` are attributes of the driver's domain."""
    return {
        "name": name,
        "attributes": {key: {_KINDS[type(value)]: value} for key, value in own.items()},
        **({"capacity": {key: {"value": value} for key, value in capacity.items()}} if capacity else {}),
        **(extra or {}),
    }


def slice_wire(node: str, *devices: Json, name: str = "", driver: str = DRIVER, **spec: Any) -> Json:
    """The driver's only slice of the node's pool, unless ``spec`` says otherwise."""
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": list(devices),
            **spec,
        },
    }


def class_wire(name: str, *expressions: str) -> Json:
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": _selectors(expressions)}}


def exactly(
    name: str,
    device_class: str,
    *expressions: str,
    count: int | None = 1,
    capacity: Mapping[str, str] | None = None,
    **fields: Any,
) -> Json:
    """A request; ``count`` None asks for all devices."""
    wanted: Json = {"deviceClassName": device_class, "allocationMode": "All"}
    if count is not None:
        wanted |= {"allocationMode": "ExactCount", "count": count}
    if expressions:
        wanted["selectors"] = _selectors(expressions)
    if capacity:
        wanted["capacity"] = {"requests": dict(capacity)}
    return {"name": name, "exactly": wanted | fields}


def claim_wire(
    name: str,
    *requests: Json,
    namespace: str = "ml",
    allocation: Json | None = None,
    user: str = "",
    **devices: Any,
) -> Json:
    """A claim, reserved for the pod ``user``; ``devices`` are more fields of ``spec.devices``."""
    status: Json = {} if allocation is None else {"allocation": allocation}
    if user:
        status["reservedFor"] = [{"resource": "pods", "name": user, "uid": f"uid-of-{user}"}]
    return {
        "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"},
        "spec": {"devices": {"requests": list(requests), **devices}},
        "status": status,
    }


def allocated(node: str, *devices: str, driver: str = DRIVER, **fields: Any) -> Json:
    """An allocation of devices of one node; ``fields`` are more fields of each result."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    results = [{"request": "r", "driver": driver, "pool": node, "device": device, **fields} for device in devices]
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": results}, "nodeSelector": selector}


def held_wire(name: str, *devices: str, node: str = "n1", consumed: Json | None = None, user: str = "") -> Json:
    """An allocated claim that has devices of a node, whole or with ``consumed`` a share of each."""
    share = {} if consumed is None else {"shareID": f"share-of-{name}", "consumedCapacity": consumed}
    return claim_wire(name, exactly("r", "any"), allocation=allocated(node, *devices, **share), user=user)


def pod_wire(
    name: str,
    *claims: str,
    namespace: str = "ml",
    node: str = "",
    phase: str = "Pending",
    template: str = "",
    status: Json | None = None,
    **spec: Any,
) -> Json:
    """A pod that names claims, and one made of ``template``; ``spec`` are more fields of its spec."""
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    if template:
        entries.append({"name": "t", "resourceClaimTemplateName": template})
    return {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"},
        "spec": {"resourceClaims": entries, **({"nodeName": node} if node else {}), **spec},
        "status": {"phase": phase, **(status or {})},
    }


def taint_rule_wire(name: str, *, effect: str = "NoSchedule", key: str = "repair", **selector: str) -> Json:
    return {
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": key, "effect": effect}},
    }


def _selectors(expressions: tuple[str, ...]) -> list[Json]:
    return [{"cel": {"expression": expression}} for expression in expressions]
