"""``timeSlicing``: NVIDIA's driver lets the programs on a GPU take turns. It enforces no limits."""

from __future__ import annotations

from driver.api.claim_reference import ClaimReference
from driver.config import GpuSharing, TimeSlicingSettings
from driver.errors import InputError, NodeError
from driver.plan.effects import Effect, SetTimeSlice
from driver.plan.isolation.gpu_shares import WHOLE_GPU, gpu_uuid, is_nvidia, shown_share
from driver.plan.isolation.provider import GpuShare, Isolation, IsolationHost, IsolationPlan

__all__ = ["TimeSlicing"]

_DEFAULT = "Default"


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
        interval = (sharing.time_slicing or TimeSlicingSettings()).interval or "Default"
        effects: tuple[Effect, ...] = ()
        # Default is how the driver starts: it takes no tool to have it, so shares work on every node and GPU.
        if interval != _DEFAULT:
            if not is_nvidia(share):
                raise InputError(
                    f"{subject}: time slices of a GPU of vendor {share.gpu.vendor} cannot be set to {interval}",
                    hint="leave out sharing.timeSlicing.interval, or select an NVIDIA GPU",
                )
            if host.nvidia_smi is None and not host.simulated:
                raise NodeError(
                    f"{subject}: the node has no nvidia-smi, which sets the time slice {interval}",
                    hint="install nvidia-smi with the node's NVIDIA driver, or leave out sharing.timeSlicing.interval",
                )
            effects = (SetTimeSlice(gpu=share.gpu.name, uuid=gpu_uuid(share, host, subject), interval=interval),)
        return IsolationPlan(
            isolation=WHOLE_GPU if share.whole else _advisory(share),
            sharing=f"{self.strategy} interval={interval}",
            effects=effects,
        )


def _advisory(share: GpuShare) -> Isolation:
    return Isolation(
        enforced=False,
        by="time-slicing",
        version=None,
        message=f"{shown_share(share.core, share.memory_bytes)} are set aside for this claim, and nothing holds it to "
        "that: programs on the GPU take turns of equal length, and each may allocate all of the GPU's memory",
    )
