"""The registry of isolation providers. docs/dev/architecture.md lists the other places that a new strategy needs."""

from __future__ import annotations

from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.config import GpuSharing
from driver.plan.isolation.exclusive import Exclusive
from driver.plan.isolation.hami_core import HamiCore
from driver.plan.isolation.mps import Mps
from driver.plan.isolation.provider import GpuShare, IsolationHost, IsolationPlan, IsolationProvider
from driver.plan.isolation.time_slicing import TimeSlicing

__all__ = ["plan_isolation"]

_PROVIDERS: Final[tuple[IsolationProvider, ...]] = (Exclusive(), TimeSlicing(), Mps(), HamiCore())
_BY_STRATEGY: Final = {provider.strategy: provider for provider in _PROVIDERS}


def plan_isolation(
    share: GpuShare, sharing: GpuSharing, host: IsolationHost, claim: ClaimReference, request: str, subject: str
) -> IsolationPlan:
    """Decide how a share of a GPU is kept within its limits.

    Without a strategy a whole GPU is exclusive, and a share is time-sliced, which works on every node.

    Args:
        share: What the claim was given.
        sharing: The claim's settings.
        host: What the node has.
        claim: Whose share it is.
        request: The request's name, without a subrequest: a DNS label.
        subject: Names claim, request and device in the errors.

    Raises:
        InputError: The settings contradict the share.
        NodeError: The node lacks what the strategy takes.
    """
    strategy = sharing.strategy or ("exclusive" if share.whole else "timeSlicing")
    return _BY_STRATEGY[strategy].plan(share, sharing, host, claim, request, subject)
