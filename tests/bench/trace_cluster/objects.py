"""The API's objects for a trace's nodes and pods."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from driver.adapters.kubernetes.resources import JsonObject
from driver.placement.replay.trace import TraceNode, TracePod
from driver.placement.shapes import WHOLE_GPU
from tests.bench.trace_cluster.machines import MIB_PER_PERCENT

__all__ = ["MODEL_LABEL", "NAMESPACE", "Way", "claim", "node", "pod"]

NAMESPACE: Final = "default"
MODEL_LABEL: Final = "example.com/gpu-model"


class Way(StrEnum):
    """Who chooses nodes and devices."""

    STOCK = "stock"
    """kube-scheduler as it comes: all pods have claims."""

    STOCK_WAY = "stock-way"
    """kube-scheduler with the configuration that packs: whole GPUs are asked for as nvidia.com/gpu, shares by claims"""

    MANAGED = "managed"
    """Rootport's controller; all pods have claims, as for :attr:`STOCK`."""


def node(item: TraceNode, *, managed: bool) -> JsonObject:
    """A Node, with what its kubelet would report."""
    labels = {"kubernetes.io/hostname": item.name, MODEL_LABEL: item.shape.model}
    if managed:
        labels["rootport.dev/placement"] = "managed"
    shape = item.shape
    has = {"cpu": f"{shape.cpu_milli}m", "memory": str(shape.memory), "pods": str(shape.pods)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": item.name, "labels": labels},
        "status": {"capacity": has, "allocatable": has, "conditions": [ready]},
    }


def claim(item: TracePod, way: Way) -> JsonObject | None:
    """The claim that a pod names; None where it names none."""
    shape = item.shape
    if shape.gpus == 0 or (way is Way.STOCK_WAY and shape.gpu_milli == WHOLE_GPU):
        return None
    request: JsonObject = {"deviceClassName": "gpu.rootport.dev", "count": shape.gpus}
    if shape.models:
        models = ", ".join(f'"{model}"' for model in sorted(shape.models))
        expression = f'device.attributes["rootport.dev"].model in [{models}]'
        request["selectors"] = [{"cel": {"expression": expression}}]
    if shape.gpu_milli < WHOLE_GPU:
        percent = shape.gpu_milli * 100 // WHOLE_GPU
        request["capacity"] = {"requests": {"core": str(percent), "memory": f"{percent * MIB_PER_PERCENT}Mi"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": item.name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
    }


def pod(item: TracePod, way: Way) -> JsonObject:
    """The pod."""
    shape = item.shape
    requests = {"cpu": f"{shape.cpu_milli}m", "memory": str(shape.memory)}
    resources: JsonObject = {"requests": requests}
    spec: JsonObject = {"terminationGracePeriodSeconds": 0}
    if claim(item, way) is not None:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": item.name}]
        resources["claims"] = [{"name": "gpu"}]
    elif shape.gpus:
        resources["limits"] = {"nvidia.com/gpu": str(shape.gpus)}
        requests["nvidia.com/gpu"] = str(shape.gpus)
        if shape.models:  # an extended resource has no selectors
            term = {"key": MODEL_LABEL, "operator": "In", "values": sorted(shape.models)}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec["containers"] = [{"name": "main", "image": "busybox:1.37", "resources": resources}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": item.name}, "spec": spec}
