"""Which sharing a GPU's claim gets: what it asks for, as far as the GPU and the administrator's GpuPolicies let it.

A GPU offers one strategy for shares, and kube-scheduler chooses it by that (:mod:`driver.layout.strategies`). So what a
share asks for beside that is a mistake in the claim. An interval of time slices is not: the scheduler knows nothing of
it, so a claim whose interval cannot be had gets another one, and is told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from driver.config import GpuSharing, TimeSlicingSettings
from driver.config.gpu_classes import class_of_strategy
from driver.errors import InputError
from driver.layout.strategies import offered_strategy
from driver.model.devices import DeviceType, Gpu

if TYPE_CHECKING:
    from driver.api.gpu_policies import GpuPolicy

__all__ = ["allowed_sharing"]


def allowed_sharing(
    sharing: GpuSharing, gpu: Gpu, policy: GpuPolicy | None, *, kind: DeviceType, whole: bool, subject: str
) -> tuple[GpuSharing, str]:
    """Return the settings that apply, and a note on what the claim does not get; empty where it gets all.

    Args:
        sharing: The claim's settings, or the DeviceClass's where the claim has none.
        gpu: The GPU.
        policy: The rules for it; None for the defaults.
        kind: GPU or GPU_RATIO: as what it was allocated.
        whole: Whether the claim has all of the GPU: then its own containers may share it by any strategy.
        subject: Names claim, request and device in the error.

    Raises:
        InputError: A share asks for another strategy than the GPU offers.
    """
    wanted = sharing.meant
    if wanted == "exclusive" or (wanted is None and whole):
        return sharing, ""
    offered = offered_strategy(gpu, policy)
    strategy = wanted or offered
    if strategy != offered and not whole:
        raise InputError(
            f"{subject}: the claim asks for sharing.strategy {strategy}, and this GPU is shared by {offered}",
            hint=f"name the DeviceClass {class_of_strategy(kind, strategy)} in the request, or leave out "
            "sharing.strategy; which GPUs offer a strategy is set by the administrator's GpuPolicies",
        )
    sharing = replace(sharing, strategy=strategy)
    if strategy != "timeSlicing" or policy is None:
        return sharing, ""
    intervals = policy.time_slicing_intervals
    asked = sharing.time_slicing.interval if sharing.time_slicing is not None else None
    usual = "Default" if "Default" in intervals else intervals[0]
    interval = asked if asked in intervals else usual
    note = (
        ""
        if asked is None or asked == interval
        else (
            f"the time slice is {interval}, not {asked}: the administrator's GpuPolicies allow {', '.join(intervals)}"
        )
    )
    return replace(sharing, time_slicing=TimeSlicingSettings(interval=interval)), note
