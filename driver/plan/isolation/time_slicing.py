"""``timeSlicing``: NVIDIA's driver lets the programs on a GPU take turns. It enforces no limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, cast

from driver.api.claim_reference import ClaimReference
from driver.config import GpuSharing, TimeSlicingSettings
from driver.plan.effects import Effect, SetTimeSlice, TimeSliceInterval
from driver.plan.isolation.gpu_shares import NO_CORE, WHOLE_GPU, gpu_uuid, is_nvidia, shown_share
from driver.plan.isolation.provider import GpuShare, Isolation, IsolationHost, IsolationPlan

__all__ = ["TimeSlicing"]

_DEFAULT: Final = "Default"
_SHARING: Final = "timeSlicing interval="


class TimeSlicing:
    """Time slices of the GPU; advisory for a share."""

    strategy = "timeSlicing"

    def plan(
        self,
        share: GpuShare,
        sharing: GpuSharing,
        host: IsolationHost,
        claim: ClaimReference,  # noqa: ARG002 - not asked by this strategy
        request: str,  # noqa: ARG002 - not asked by this strategy
        subject: str,
    ) -> IsolationPlan:
        """See :class:`~driver.plan.isolation.provider.IsolationProvider`."""
        interval, note = _interval(share, sharing, host)
        effects: tuple[Effect, ...] = ()
        # Default is how the driver starts: it takes no tool to have it, so shares work on every node and GPU.
        if interval != _DEFAULT:
            effects = (SetTimeSlice(gpu=share.gpu.name, uuid=gpu_uuid(share, host, subject), interval=interval),)
        isolation = WHOLE_GPU if share.whole else _advisory(share)
        if note:
            isolation = replace(isolation, message=f"{isolation.message}; {note}")
        return IsolationPlan(
            isolation=isolation,
            sharing=f"{_SHARING}{interval}",
            effects=effects,
        )


def _interval(share: GpuShare, sharing: GpuSharing, host: IsolationHost) -> tuple[TimeSliceInterval, str]:
    """Return the interval that the share gets, and why it is not the one that was asked for.

    It is the whole GPU's: the first share on it has decided, whatever the later ones ask for.
    """
    asked = (sharing.time_slicing or TimeSlicingSettings()).interval or _DEFAULT
    others = host.in_use.get(share.gpu.name, "")
    in_use = others.removeprefix(_SHARING) if others.startswith(_SHARING) else None
    if in_use is not None and in_use != asked:
        return cast("TimeSliceInterval", in_use), f"the time slice is {in_use}, not {asked}: another share has set it"
    if asked != _DEFAULT and not is_nvidia(share):
        return _DEFAULT, f"the time slice is not {asked}: it cannot be set on GPUs of vendor {share.gpu.vendor}"
    if asked != _DEFAULT and host.nvidia_smi is None and not host.simulated:
        return _DEFAULT, f"the time slice is not {asked}: the node has no nvidia-smi, which sets it"
    if asked != _DEFAULT and share.gpu.uuid is None and not host.simulated:
        return _DEFAULT, f"the time slice is not {asked}: the GPU's UUID is not known, and nvidia-smi needs it"
    return asked, ""


def _advisory(share: GpuShare) -> Isolation:
    no_core = f"; {NO_CORE}" if share.core == 0 else ""
    return Isolation(
        enforced=False,
        by="time-slicing",
        version=None,
        message=f"{shown_share(share.core, share.memory_bytes)} are set aside for this claim, and nothing holds it to "
        "that: programs on the GPU take turns of equal length, and each may allocate all of the GPU's memory"
        f"{no_core}",
    )
