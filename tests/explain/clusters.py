"""Clusters to explain, filled with the API's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from driver.allocator import Features
from driver.explain.cluster import Kind
from driver.explain.state import ClusterState

__all__ = ["TOPOLOGIES", "Json", "claim", "fill", "held", "node", "pod", "request", "slice_of"]

Json = dict[str, Any]

TOPOLOGIES: Final = Path(__file__).parents[2] / "examples" / "topologies"


def fill(objects: Iterable[Json], *, features: Features | None = None) -> ClusterState:
    """A cluster with these objects, each with its ``kind``."""
    state = ClusterState(features=features)
    for item in objects:
        state.put(Kind(item["kind"]), item)
    return state


def node(name: str, *, labels: Mapping[str, str] | None = None, ready: bool = True, **spec: Any) -> Json:
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "KubeletNotReady", "message": "off"}
    taints = list(spec.pop("taints", ()))
    if not ready:
        taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | dict(labels or {})},
        "spec": {"taints": taints} | spec,
        "status": {"conditions": [condition]},
    }


def pod(
    name: str, *claims: str, namespace: str = "ml", template: str = "", status: Json | None = None, **spec: Any
) -> Json:
    """A pod that names claims; with ``template`` one claim made of that."""
    entries: list[Json] = [{"name": f"c{place}", "resourceClaimName": claim} for place, claim in enumerate(claims)]
    if template:
        entries.append({"name": "t", "resourceClaimTemplateName": template})
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"resourceClaims": entries, "schedulerName": "default-scheduler"} | spec,
        "status": {"phase": "Pending"} | (status or {}),
    }


def request(name: str, device_class: str = "gpu", *, count: int | None = 1, **rest: Any) -> Json:
    """A request; ``count`` None asks for all devices."""
    exactly: Json = {"deviceClassName": device_class, "allocationMode": "ExactCount" if count is not None else "All"}
    if count is not None:
        exactly["count"] = count
    selector = rest.pop("selector", None)
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    capacity = rest.pop("capacity", None)
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {"name": name, "exactly": exactly | rest}


def claim(name: str, *requests: Json, namespace: str = "ml", status: Json | None = None, **devices: Any) -> Json:
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests)} | devices},
        "status": status or {},
    }


def held(
    name: str,
    *devices: str,
    node_name: str = "n1",
    driver: str = "rootport.dev",
    consumed: Json | None = None,
    user: str = "",
    namespace: str = "ml",
) -> Json:
    """An allocated claim that has devices of a node's pool, whole or with ``consumed`` a share of each."""
    results = []
    for place, device in enumerate(devices):
        result: Json = {"request": "r", "driver": driver, "pool": node_name, "device": device}
        if consumed is not None:
            result |= {"shareID": f"00000000-0000-0000-0000-{abs(hash((name, place))) % 10**12:012}"}
            result["consumedCapacity"] = consumed
        results.append(result)
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    status: Json = {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
    }
    if user:
        status["reservedFor"] = [{"resource": "pods", "name": user, "uid": f"uid-{user}"}]
    return claim(name, request("r"), status=status, namespace=namespace)


def slice_of(node_name: str, *devices: Json, driver: str = "rootport.dev", name: str = "", **spec: Any) -> Json:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node_name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        }
        | spec,
    }
