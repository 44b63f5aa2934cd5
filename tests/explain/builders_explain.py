"""Objects of a cluster as the API's JSON, short to write. Imported as ``builders_explain``."""

from __future__ import annotations

from typing import Any

from driver.explain.cluster import Kind
from driver.explain.state import ClusterState

__all__ = [
    "DRIVER",
    "allocated",
    "claim_wire",
    "class_wire",
    "cluster",
    "device_wire",
    "exactly",
    "node_wire",
    "pod_wire",
    "slice_wire",
    "taint_rule_wire",
]

Json = dict[str, Any]
DRIVER = "rootport.dev"
_KINDS = {str: "string", int: "int", bool: "bool"}


def cluster(*objects: Json) -> ClusterState:
    """A cluster of these objects; each has its ``kind``."""
    state = ClusterState()
    for wire in objects:
        state.put(Kind(wire["kind"]), wire)
    return state


def node_wire(name: str, *, ready: str = "True", taints: list[Json] | None = None, **labels: str) -> Json:
    """``ready`` is the status of its condition Ready."""
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady" if ready == "True" else "NodeStatusUnknown"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": taints or []},
        "status": {"conditions": [condition]},
    }


def device_wire(name: str, *, capacity: dict[str, str] | None = None, extra: Json | None = None, **own: object) -> Json:
    """``own`` are attributes of the driver's domain."""
    return {
        "name": name,
        "attributes": {key: {_KINDS[type(value)]: value} for key, value in own.items()},
        **({"capacity": {key: {"value": value} for key, value in capacity.items()}} if capacity else {}),
        **(extra or {}),
    }


def slice_wire(node: str, *devices: Json, name: str = "", driver: str = DRIVER, **spec: Any) -> Json:
    """The only slice of the node's pool, unless ``spec`` says otherwise."""
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-slice"},
        "spec": {
            "driver": driver,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": list(devices),
            **spec,
        },
    }


def class_wire(name: str, *expressions: str) -> Json:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}}


def exactly(name: str, device_class: str, *expressions: str, count: int = 1, **fields: Any) -> Json:
    """A request."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {
        "name": name,
        "exactly": {
            "deviceClassName": device_class,
            "allocationMode": "ExactCount",
            "count": count,
            "selectors": selectors,
            **fields,
        },
    }


def claim_wire(
    name: str, *requests: Json, namespace: str = "ml", allocation: Json | None = None, **devices: Any
) -> Json:
    """A claim; ``devices`` are more fields of ``spec.devices``."""
    return {
        "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"},
        "spec": {"devices": {"requests": list(requests), **devices}},
        "status": {} if allocation is None else {"allocation": allocation},
    }


def allocated(node: str, *devices: str, driver: str = DRIVER, **fields: Any) -> Json:
    """An allocation of devices of one node; ``fields`` are more fields of each result."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    results = [{"request": "r", "driver": driver, "pool": node, "device": device, **fields} for device in devices]
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": results}, "nodeSelector": selector}


def pod_wire(
    name: str, *claims: str, namespace: str = "ml", node: str = "", phase: str = "Pending", **spec: Any
) -> Json:
    """A pod that names claims; ``spec`` are more fields of its spec."""
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"},
        "spec": {"resourceClaims": entries, **({"nodeName": node} if node else {}), **spec},
        "status": {"phase": phase},
    }


def taint_rule_wire(name: str, *, effect: str = "NoSchedule", key: str = "repair", **selector: str) -> Json:
    return {
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": key, "effect": effect}},
    }
