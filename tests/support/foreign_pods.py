"""Pods as users of other systems write them, and what their containers have to get on the test node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["KOORDINATOR", "LIMITED", "LIMITED_BY_MAP", "LOOK", "OTHERS", "RESOURCE_MAP", "SEEDS", "VF", "Case"]

LOOK: Final = "find /dev -type c; cat /etc/ld.so.preload 2>/dev/null; env | sort; echo SEEN; exec sleep 100000"
GIB: Final = 1 << 30
JOINT: Final = "scheduling.koordinator.sh/device-joint-allocate"
SAME_PCIE: Final = {JOINT: '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'}
NEAR: Final = {JOINT: '{"deviceTypes": ["gpu", "rdma"]}'}
RESOURCE_MAP: Final = {
    "apiVersion": "rootport.dev/v1alpha1",
    "kind": "ResourceMap",
    "resources": [{"name": "openshift.io/mlnxnics", "deviceClassName": "rdma-vf.rootport.dev"}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pod as another system's user writes it, and what its container has to get.

    Attributes:
        limits: What its container asks for; also in its requests where they are empty.
        requests: What it asks for there alone, as Koordinator's users do.
        annotations: The pod's; likewise labels.
        scheduler: The pod's ``schedulerName``.
        gpus: How many GPUs the container sees; partitions count.
        nics: How many RDMA devices; likewise fpgas.
        core: Percent of each GPU's core, as its environment says.
        memory: Bytes of each GPU that it has; None where that is a percentage, or nothing.
        is_partition: Whether the GPU is a MIG partition.
        near: Whether GPU and NIC are those under one switch.
        environment: Further variables.
    """

    limits: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = ""
    gpus: int = 0
    nics: int = 0
    fpgas: int = 0
    core: int | None = None
    memory: int | None = None
    is_partition: bool = False
    near: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def pod(self, name: str) -> dict[str, Any]:
        """The pod's manifest, as the other system has it."""
        small = {"cpu": "10m", "memory": "20Mi"}
        spec: dict[str, Any] = {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1.37",
                    "command": ["sh", "-c", LOOK],
                    "resources": {"limits": small | dict(self.limits), "requests": small | dict(self.requests)},
                }
            ],
        }
        if self.scheduler:
            spec["schedulerName"] = self.scheduler
        metadata = {"name": name, "annotations": dict(self.annotations), "labels": dict(self.labels)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


KOORD: Final = "koord-scheduler"
SEEDS: Final = {
    # Koordinator's page on device scheduling: its first pod, as written and as the API server shows it, and the others.
    "whole": Case(requests={"kubernetes.io/gpu": "100"}, scheduler=KOORD, gpus=1, core=100),
    "whole-limited": Case(
        limits={"kubernetes.io/gpu": "100"}, requests={"kubernetes.io/gpu": "100"}, scheduler=KOORD, gpus=1, core=100
    ),
    "nvidia-percent": Case(requests={"nvidia.com/gpu": "100"}, gpus=1, core=100),
    "core-ratio": Case(
        requests={"kubernetes.io/gpu-core": "100", "kubernetes.io/gpu-memory-ratio": "100"}, gpus=1, core=100
    ),
    "core-memory": Case(
        requests={"kubernetes.io/gpu-core": "100", "kubernetes.io/gpu-memory": "16Mi"},
        gpus=1,
        core=100,
        memory=16 << 20,
    ),
    # The pod that TKE's GPU object shows by its allocation.
    "test": Case(
        limits={"tke.cloud.tencent.com/qgpu-core": "50", "tke.cloud.tencent.com/qgpu-memory": "8"},
        gpus=1,
        core=50,
        memory=8 * GIB,
    ),
    # What the proposal for end-to-end device management is about: GPU and NIC by one PCIe switch; and FPGAs.
    "joint": Case(
        limits={"koordinator.sh/gpu": "100", "koordinator.sh/rdma": "100"},
        annotations=SAME_PCIE,
        scheduler=KOORD,
        gpus=1,
        nics=1,
        core=100,
        near=True,
    ),
    "fpga": Case(limits={"koordinator.sh/fpga": "100"}, scheduler=KOORD, fpgas=1),
}
KOORDINATOR: Final = {
    "two": Case(limits={"koordinator.sh/gpu": "200"}, scheduler=KOORD, gpus=2, core=100),
    "half": Case(limits={"koordinator.sh/gpu": "50"}, scheduler=KOORD, gpus=1, core=50),
    "core-ratio": Case(
        limits={"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory-ratio": "40"}, gpus=1, core=30
    ),
    "core-memory": Case(
        limits={"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "20Gi"}, gpus=1, core=50, memory=20 * GIB
    ),
    "ratio": Case(requests={"koordinator.sh/gpu-memory-ratio": "10"}, gpus=1, core=0),
    "spread": Case(
        limits={"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory": "10Gi", "koordinator.sh/gpu-core": "20"},
        gpus=2,
        core=10,
        memory=5 * GIB,
    ),
    "joint": Case(
        limits={"kubernetes.io/gpu": "100", "kubernetes.io/rdma": "100"},
        annotations=NEAR,
        gpus=1,
        nics=1,
        core=100,
        near=True,
    ),
    "rdma": Case(limits={"koordinator.sh/rdma": "100"}, nics=1),
    "rdma-share": Case(requests={"koordinator.sh/rdma": "20"}, nics=1),
}
OTHERS: Final = {
    "plugin": Case(limits={"nvidia.com/gpu": "2"}, gpus=2, core=100),
    "shared": Case(limits={"nvidia.com/gpu.shared": "1"}, gpus=1, core=10),
    "mig": Case(limits={"nvidia.com/mig-1g.10gb": "1"}, gpus=1, is_partition=True),
    "hami": Case(
        limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        annotations={"nvidia.com/use-gputype": "A100,H100"},
        scheduler="hami-scheduler",
        gpus=1,
        core=30,
        memory=3000 << 20,
    ),
    "volcano": Case(
        limits={"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000", "volcano.sh/vgpu-cores": "20"},
        gpus=1,
        core=20,
        memory=3000 << 20,
    ),
    "aliyun": Case(limits={"aliyun.com/gpu-mem": "8"}, gpus=1, core=0, memory=8 * GIB),
    "elastic": Case(
        limits={"elasticgpu.io/gpu-core": "20", "elasticgpu.io/gpu-memory": "256"}, gpus=1, core=20, memory=256 << 20
    ),
    "hca": Case(limits={"rdma/hca_shared_devices_a": "1"}, nics=1),
}
VF: Final = {"vf": Case(limits={"openshift.io/mlnxnics": "1"}, nics=1)}
"""Only with the resource map."""
# The limits of one system at a time: shares of a GPU have one strategy.
LIMITED: Final = {
    "label": Case(
        limits={"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "20Gi"},
        labels={"koordinator.sh/gpu-isolation-provider": "HAMi-core"},
        gpus=1,
        core=50,
        memory=20 * GIB,
        environment={"CUDA_DEVICE_MEMORY_LIMIT": str(20 * GIB), "CUDA_DEVICE_SM_LIMIT": "50"},
    ),
    "mode": Case(
        limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        annotations={"nvidia.com/vgpu-mode": "hami-core"},
        gpus=1,
        core=30,
        memory=3000 << 20,
        environment={"CUDA_DEVICE_MEMORY_LIMIT": str(3000 << 20), "CUDA_DEVICE_SM_LIMIT": "30"},
    ),
}
LIMITED_BY_MAP: Final = {
    "qgpu": Case(
        limits={"tke.cloud.tencent.com/qgpu-core": "20", "tke.cloud.tencent.com/qgpu-memory": "8"},
        gpus=1,
        core=20,
        memory=8 * GIB,
        environment={"CUDA_DEVICE_MEMORY_LIMIT": str(8 * GIB), "CUDA_DEVICE_SM_LIMIT": "20"},
    ),
}
