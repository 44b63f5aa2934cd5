"""Removes the MIG devices that Rootport makes itself from NVML's report.

A MIG device is one of an administrator's static layout, which is given to claims as it is, unless Rootport has made it
for a claim: that one comes and goes, and its GPU is offered in all its modes still.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from driver.adapters.nvml.discovery import LeftOutPartition, NvmlReport
from driver.model.devices import Gpu

__all__ = ["OwnPartitions", "without_own_partitions"]

OwnPartitions: TypeAlias = frozenset[tuple[str, int, int]]
"""MIG devices that exist, or may: the GPU's name in the pool, NVML's number of the profile, the first memory slice."""


def without_own_partitions(report: NvmlReport, own: OwnPartitions) -> NvmlReport:
    """Return the report without them, and with notes on all other GPU instances that cannot be allocated.

    On a GPU where Rootport has made some, all are Rootport's, even those without a place in the report.

    Args:
        report: NVML's report.
        own: Rootport's own MIG devices.
    """
    names = {gpu.address: gpu.name for gpu in report.gpus}
    with_own = {gpu for gpu, _, _ in own}

    def is_own(part: LeftOutPartition) -> bool:
        gpu = names[part.gpu]
        return gpu in with_own if part.start is None else (gpu, part.profile_id, part.start) in own

    left_out = tuple(part for part in report.partitions_left_out if not is_own(part))
    notes = dict.fromkeys(part.note for part in left_out)
    gpus = tuple(_without(gpu, own) for gpu in report.gpus)
    return replace(report, gpus=gpus, notes=(*report.notes, *notes), partitions_left_out=left_out)


def _without(gpu: Gpu, own: OwnPartitions) -> Gpu:
    if gpu.mig is None:
        return gpu
    found = gpu.mig.instances
    others = tuple(part for part in found if (gpu.name, part.profile_id, part.placement.start) not in own)
    return gpu if others == found else replace(gpu, mig=replace(gpu.mig, instances=others))
