"""NVIDIA's device plugin: whole GPUs, GPUs that it shares among containers, MIG partitions.

What a node gives for ``nvidia.com/gpu.shared`` is set on the node, not in the pod: so many replicas of each GPU by time
slicing or MPS, or with ``renameByDefault`` off even for ``nvidia.com/gpu``. A share of a GPU has no size there.
"""

from __future__ import annotations

from typing import Final

from driver.api.resource_v1 import MAX_RESULTS
from driver.convert.dialect import Amount, Asked, Dialect, Meaning, Reading, Resource
from driver.convert.findings import Finding
from driver.convert.requests import DeviceRequest, GpuRequest

__all__ = ["NVIDIA", "whole_gpus"]

_SHARE: Final = 10
"""Percent of a GPU for one of its replicas: the device plugin's documentation shares a GPU among ten."""


def whole_gpus(asked: Asked, amount: Amount) -> tuple[int, tuple[Finding, ...]]:
    """Return how many GPUs an amount of ``nvidia.com/gpu`` means, and what is to be said of it.

    No node has a hundred GPUs. Koordinator's documentation writes percent there (docs/user-manuals, "Device Scheduling
    - GPU/RDMA", v1.4: ``nvidia.com/gpu: "100"`` beside ``kubernetes.io/gpu: "100"``), which its scheduler does not.
    """
    if amount.value <= MAX_RESULTS:
        return amount.value, ()
    if amount.value % 100 or amount.value > 100 * MAX_RESULTS:
        text = f"{amount.value} GPUs: a claim can have {MAX_RESULTS} devices, and no node has so many GPUs"
        return 0, (asked.refused(amount, text),)
    count = amount.value // 100
    text = (
        f"no node has {amount.value} GPUs: read as percent, {count} of them; write the number of GPUs if that is wrong"
    )
    return count, (asked.noted(amount, text),)


def _read(asked: Asked) -> Reading:
    gpus: list[GpuRequest] = []
    findings: list[Finding] = []
    for amount in asked.amounts:
        match amount.resource.meaning:
            case Meaning.GPUS:
                count, said = whole_gpus(asked, amount)
                findings += said
                gpus += [GpuRequest(count=count, vendor="nvidia")] if count else []
            case Meaning.GPU_CARDS:
                text = (
                    f"one of a GPU's replicas has no size: {_SHARE} percent of its compute and memory each; write what"
                    " it needs into capacity.requests"
                )
                findings.append(asked.noted(amount, text))
                share = GpuRequest(
                    count=amount.value, core=_SHARE, memory_percent=_SHARE, core_is_limited=False, vendor="nvidia"
                )
                gpus.append(share)
            case _:
                gpus.append(GpuRequest(count=amount.value, profile=_profile(amount.rest)))
    return Reading(request=DeviceRequest(gpus=tuple(gpus)), findings=tuple(findings))


def _profile(name: str) -> str:
    """Return the profile of a resource's name, which has ``.`` for ``+``: ``1g.10gb.me`` for ``1g.10gb+me``."""
    size, gb, rest = name.partition("gb")
    return f"{size}{gb}{'+' if rest.startswith('.') else ''}{rest.removeprefix('.')}"


NVIDIA: Final = Dialect(
    name="NVIDIA device plugin",
    source=(
        "NVIDIA/k8s-device-plugin: README.md (shared access to GPUs), cmd/nvidia-device-plugin and api/config/v1"
        " (AddDefaultResourcesToConfig, which names the MIG resources)"
    ),
    resources=(
        Resource(name="nvidia.com/gpu", meaning=Meaning.GPUS),
        Resource(name="nvidia.com/gpu.shared", meaning=Meaning.GPU_CARDS),
        Resource(name="nvidia.com/mig-*", meaning=Meaning.MIG),
    ),
    read=_read,
)
