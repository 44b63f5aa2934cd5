"""What an administrator's GpuPolicies allow of the sharing that a claim asks for.

All shares of a GPU have one strategy, and one interval of time slices: the first claim on it decides for those that
come after it. Where tenants share GPUs, an administrator decides instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from driver.config import GpuSharing, TimeSlicingSettings
from driver.errors import InputError

if TYPE_CHECKING:
    from driver.api.gpu_policies import GpuPolicy

__all__ = ["allowed_sharing"]


def allowed_sharing(sharing: GpuSharing, policy: GpuPolicy, *, whole: bool, subject: str) -> GpuSharing:
    """Return the claim's settings; a missing one is the default where that is allowed, else the first allowed one.

    Args:
        sharing: The claim's settings, or the DeviceClass's where the claim has none.
        policy: The rules for the GPU.
        whole: Whether the claim has all of the GPU: then it may have it to itself under any rules.
        subject: Names claim, request and device in the error.

    Raises:
        InputError: It asks for what is not allowed.
    """
    if sharing.strategy == "exclusive" or (sharing.strategy is None and whole):
        return sharing
    usual = "timeSlicing" if "timeSlicing" in policy.strategies else policy.strategies[0]
    strategy = sharing.strategy or usual
    if strategy not in policy.strategies:
        raise _refused(subject, "strategy", strategy, policy.strategies)
    if strategy != "timeSlicing":
        return replace(sharing, strategy=strategy)
    intervals = policy.time_slicing_intervals
    interval = sharing.time_slicing.interval if sharing.time_slicing is not None else None
    if interval is None:
        interval = "Default" if "Default" in intervals else intervals[0]
    elif interval not in intervals:
        raise _refused(subject, "timeSlicing.interval", interval, intervals)
    return replace(sharing, strategy=strategy, time_slicing=TimeSlicingSettings(interval=interval))


def _refused(subject: str, field: str, wanted: str, allowed: tuple[str, ...]) -> InputError:
    return InputError(
        f"{subject}: sharing.{field} {wanted} is not allowed on this GPU: the administrator's GpuPolicies allow "
        f"{', '.join(allowed)}",
        hint=f"set sharing.{field} in the claim's GpuConfig to what is allowed, or leave it out; or ask the cluster's "
        "administrator for another policy",
    )
