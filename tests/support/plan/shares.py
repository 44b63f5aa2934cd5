"""Shares of a GPU and hosts for the tests of the isolation providers."""

from __future__ import annotations

from typing import get_args

from driver.api.claim_reference import ClaimReference
from driver.api.strict import read
from driver.config import GpuSharing
from driver.config.kinds import SharingStrategy
from driver.plan.isolation import GpuShare, HamiCoreLibrary, IsolationHost, IsolationPlan, plan_isolation
from tests.support.plan.builders import UID, gpu

GIB = 2**30
CLAIM = ClaimReference(namespace="ml", name="train", uid=UID)
SUBJECT = "claim ml/train, request gpu, device gpu-0000-10-00-0"
HAMI = HamiCoreLibrary(host_path="/opt/hami/libvgpu.so", version="0123456789ab")
HOST = IsolationHost(
    driver_version="580.159.03",
    nvidia_smi="/usr/bin/nvidia-smi",
    mps_control="/usr/bin/nvidia-cuda-mps-control",
    hami_core=HAMI,
    files_root="/files",
)
BARE = IsolationHost()
STRATEGIES = get_args(SharingStrategy)


def share(
    core: int = 50, memory: int | None = 20 * GIB, ordinal: int = 0, *, whole: bool = False, **fields: object
) -> GpuShare:
    return GpuShare(gpu=gpu(0, **fields), core=core, memory_bytes=memory, whole=whole, ordinal=ordinal)


def whole_gpu(**fields: object) -> GpuShare:
    """What a claim without amounts has."""
    return share(0, 80 * GIB, whole=True, **fields)


def sharing(**fields: object) -> GpuSharing:
    return read(GpuSharing, fields)


def plan(of: GpuShare, host: IsolationHost = HOST, **fields: object) -> IsolationPlan:
    return plan_isolation(of, sharing(**fields), host, CLAIM, "gpu", SUBJECT)


def env(planned: IsolationPlan) -> dict[str, str]:
    return dict(variable.split("=", 1) for variable in planned.env)
