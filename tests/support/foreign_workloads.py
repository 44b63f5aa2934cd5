"""Manifests of workloads that ask for devices as other systems have it, mixed as in a cluster that is to be moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

__all__ = ["ASKS", "foreign_workloads", "manifest_of", "workload"]

ASKS: Mapping[str, tuple[dict[str, str], dict[str, str], str]] = {
    "Koordinator": (
        {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50", "koordinator.sh/rdma": "100"},
        {"scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes":["gpu","rdma"]}'},
        "koord-scheduler",
    ),
    "Koordinator, refused": ({"kubernetes.io/gpu-core": "150", "kubernetes.io/gpu-memory-ratio": "150"}, {}, ""),
    "TKE qGPU": (
        {"tke.cloud.tencent.com/qgpu-core": "50", "tke.cloud.tencent.com/qgpu-memory": "8"},
        {},
        "",
    ),
    "HAMi": (
        {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        {"nvidia.com/use-gputype": "A100,H100"},
        "hami-scheduler",
    ),
    "NVIDIA": ({"nvidia.com/gpu": "1"}, {}, ""),
    "MIG": ({"nvidia.com/mig-1g.10gb": "2"}, {}, ""),
    "none": ({}, {}, ""),
}
"""What a container asks for, with the pod's annotations and scheduler."""


def workload(number: int, kind: str, ask: str) -> dict[str, Any]:
    """One object, as long as such manifests are."""
    resources, annotations, scheduler = ASKS[ask]
    amounts = {"cpu": "8", "memory": "64Gi", **resources}
    container = {
        "name": "main",
        "image": f"registry.example.com/team/train:1.{number}",
        "command": ["python", "-m", "train"],
        "args": [f"--{flag}={number}" for flag in ("lr", "epochs", "batch", "seed")],
        "env": [{"name": f"SETTING_{name}", "value": str(name)} for name in range(12)],
        "resources": {"limits": amounts, "requests": dict(amounts)},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    side = {"name": "side", "image": "registry.example.com/team/logs:2", "resources": {"requests": {"cpu": "100m"}}}
    spec: dict[str, Any] = {
        "containers": [container, side],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        ],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    if scheduler:
        spec["schedulerName"] = scheduler
    labels = {"app": f"train-{number}", "team": "ml"}
    metadata: dict[str, Any] = {"name": f"train-{number}", "namespace": f"team-{number % 7}", "labels": labels}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    match kind:
        case "Pod":
            return {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": metadata | {"annotations": annotations},
                "spec": spec,
            }
        case "Job":
            spec["restartPolicy"] = "Never"
            return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}
        case "CronJob":
            spec["restartPolicy"] = "Never"
            job = {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}}
            return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": job}
        case _:
            selector = {"matchLabels": {"app": f"train-{number}"}}
            wide = {"replicas": 3, "selector": selector, "template": template}
            return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": wide}


def foreign_workloads(count: int) -> Iterator[dict[str, Any]]:
    """So many of them, of all kinds and dialects in turn."""
    kinds = ("Deployment", "StatefulSet", "Job", "Pod", "CronJob")
    asks = tuple(ASKS)
    for number in range(count):
        yield workload(number, kinds[number % len(kinds)], asks[number % len(asks)])


def manifest_of(*objects: Mapping[str, Any]) -> str:
    """The objects as YAML, as people write it."""
    return yaml.safe_dump_all([dict(item) for item in objects], sort_keys=False)
