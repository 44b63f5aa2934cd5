"""Why an allocation was stopped. That claims merely do not fit is no error.

Source of the kinds: k8s.io/dynamic-resource-allocation v0.37.2, structured/allocator.go: an error of Allocate is fatal
(no other node is tried), except ErrFailedAllocationOnNode, which is reported only if the claims fit nowhere.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from driver.errors import InputError

__all__ = [
    "AllAtOnceError",
    "AllocationError",
    "CapacityError",
    "InvalidPoolError",
    "NodeAllocationError",
    "SearchLimitError",
]


class AllocationError(InputError):
    """A claim, a class or a slice is wrong: no node can help."""

    kind: ClassVar[Literal["fatal", "node"]] = "fatal"


class AllAtOnceError(AllocationError):
    """A request asks for all devices of a kind, which together break a constraint of its claim.

    Upstream stops at the first such combination. Rootport looks on, since another choice for an earlier request, or
    another node, may do; the error is raised where nothing does.
    """


class CapacityError(AllocationError):
    """An amount that the scheduler cannot reckon with: it ends with an error, whatever else is free."""


class NodeAllocationError(AllocationError):
    """This node cannot tell; another one may do."""

    kind = "node"


class InvalidPoolError(NodeAllocationError):
    """Nothing fits on this node, and a pool there is published wrongly."""

    retry_helps = True


class SearchLimitError(NodeAllocationError):
    """Too many combinations were tried on this node (kube-scheduler gives up after ten seconds)."""
