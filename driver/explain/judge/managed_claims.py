"""What claims have to do with Rootport's placement: which it serves, and which kube-scheduler does.

Shared by what explains and by what places, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.demands import ClaimDemand, Demand
from driver.allocator.taints import refusing_taints
from driver.api.resource_v1 import DeviceTaint
from driver.model.managed_nodes import TAINT

__all__ = ["asks_rootport", "claim_refusal", "parts_of", "tolerating_request"]

_MANAGED: Final = DeviceTaint(key=TAINT, effect="NoSchedule")
_MOST_TOLERATIONS: Final = 16
"""Of a result: those of its request, and that of the taint (DeviceTolerationsMaxLength, k8s.io/api v0.37.2)."""


def parts_of(claim: ClaimDemand) -> Iterator[Demand]:
    """Yield all requests of a claim, each with its alternatives."""
    return (part for request in claim.requests for part in request.alternatives)


def asks_rootport(demand: Demand) -> bool:
    """Whether a request may be for devices of Rootport."""
    return any(DRIVER_NAME in selector for selector in (*demand.class_selectors, *demand.selectors))


def claim_refusal(key: str, claim: ClaimDemand, *, on_managed: bool = True) -> str:
    """Return why placement does not serve a claim, as a clause; empty where it does.

    Args:
        key: ``namespace/name``.
        claim: What it asks for.
        on_managed: Whether it is for managed nodes, whose taint is to be tolerated as well.
    """
    if len({asks_rootport(part) for part in parts_of(claim)}) > 1:
        return f"claim {key} asks for devices of Rootport and of other drivers at once"
    full = next((part for part in parts_of(claim) if len(part.tolerations) >= _MOST_TOLERATIONS), None)
    if on_managed and full is not None:
        return f"claim {key}, request {full.name}, has {len(full.tolerations)} tolerations, and none fits in"
    return ""


def tolerating_request(claim: ClaimDemand) -> str | None:
    """Return the first request that tolerates the taint of managed nodes by itself; None where none does.

    kube-scheduler allocates such a claim, so placement must not. Admin access takes no device from anybody, and may
    tolerate anything.
    """
    tolerating = (part for part in parts_of(claim) if not part.admin)
    return next((part.name for part in tolerating if not refusing_taints((_MANAGED,), part.tolerations)), None)
