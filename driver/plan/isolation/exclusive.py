"""``exclusive``: the GPU belongs to the claim alone."""

from __future__ import annotations

from driver.api.claim_reference import ClaimReference
from driver.config import GpuSharing
from driver.errors import InputError
from driver.plan.isolation.gpu_shares import WHOLE_GPU, shown_share
from driver.plan.isolation.provider import GpuShare, IsolationHost, IsolationPlan

__all__ = ["Exclusive"]


class Exclusive:
    """A whole GPU; kube-scheduler allocates no share of it to other claims."""

    strategy = "exclusive"

    def plan(
        self,
        share: GpuShare,
        sharing: GpuSharing,  # noqa: ARG002 - not asked by this strategy
        host: IsolationHost,  # noqa: ARG002 - not asked by this strategy
        claim: ClaimReference,  # noqa: ARG002 - not asked by this strategy
        request: str,  # noqa: ARG002 - not asked by this strategy
        subject: str,
    ) -> IsolationPlan:
        """See :class:`~driver.plan.isolation.provider.IsolationProvider`."""
        if not share.whole:
            amounts = shown_share(share.core, share.memory_bytes) if share.core or share.memory_bytes else "the GPU"
            raise InputError(
                f"{subject}: strategy exclusive does not fit a share of {amounts}",
                hint="leave out sharing.strategy, or leave out capacity.requests to get the whole GPU",
            )
        return IsolationPlan(isolation=WHOLE_GPU, sharing=self.strategy)
