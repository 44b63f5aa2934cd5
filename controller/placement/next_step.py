"""What to do next about a claim, and about a pod, from what is stored: pure, so that a start finishes what was begun.

A placement is written in steps, any of which may be the last one of a process: of each claim the annotation with the
finalizer, then the allocation; then the pod's gate goes. What each of them leaves behind is one of the states below.
What kube-scheduler does with an allocated claim, and when it deallocates one: PreFilter, Filter, PostFilter and PreBind
of k8s.io/kubernetes v1.37.2, pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go. It deallocates only
where some node passes all earlier filters and the claim is not available there: otherwise the controller has to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from controller.placement.records import ClaimRecord
from driver.model.managed_nodes import GATE

__all__ = ["ClaimStep", "ClaimUse", "PodStep", "Reason", "claim_step", "pod_step"]

_PATIENCE_S: Final = 60.0
"""How long kube-scheduler may say of a pod that it cannot be scheduled until its claims are taken back.

Its own retries come within 10 s of each other at first (podMaxBackoff), and preemption takes a while."""
_LONGEST_S: Final = 900.0
"""How long an allocation may go unused while kube-scheduler says nothing of the pod: it may be down, or very busy."""
_UNUSABLE_S: Final = 2.0
"""How long a node must have been unusable: kube-scheduler may be binding the pod, and the watches are not in step."""
_GONE_S: Final = 2.0
"""How long the pod must have been gone: one that is created again under its name comes a little later."""


class Reason(Enum):
    """Why an allocation is taken back; the values are labels of a metric, so they stay."""

    SCHEDULER = "scheduler"
    """kube-scheduler did it: no node was left for the pod."""
    POD_GONE = "pod-gone"
    NODE_UNUSABLE = "node-unusable"
    UNUSED = "unused"
    """The pod was not bound in time."""
    PARTIAL = "partial"
    """The pod's other claims fit nowhere together with this one."""
    GIVEN_TWICE = "given-twice"
    """Another claim has a device of this one as well."""


class ClaimStep(Enum):
    """What to do about a claim that has the controller's annotation."""

    KEEP = "keep"
    TAKE_BACK = "take back"
    """Remove the allocation, then the annotation and the finalizer."""
    CLEAR = "clear"
    """Remove the annotation, and the finalizer where there is no allocation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUse:
    """What is known about the use of a claim.

    Attributes:
        is_wanted: A pod that names it waits, or has its node.
        unwanted_for_s: For how long none does.
        held_for_s: For how long this controller has known it as allocated.
        node_unusable_for_s: For how long no pod that waits for it could be on its node; 0 where one can.
        refused_for_s: For how long kube-scheduler says that such a pod cannot be scheduled; 0 where it does not.
        is_given_twice: Another claim has one of its devices, which at least one of the two has for itself.
    """

    is_wanted: bool
    unwanted_for_s: float = 0.0
    held_for_s: float = 0.0
    node_unusable_for_s: float = 0.0
    refused_for_s: float = 0.0
    is_given_twice: bool = False


def claim_step(record: ClaimRecord, use: ClaimUse, *, own: str) -> tuple[ClaimStep, Reason | None]:
    """Return what to do about a claim with the annotation, while nothing of it is being written.

    Args:
        record: The claim.
        use: Who uses it.
        own: This controller's identity.
    """
    if record.is_deleting or record.is_reserved:
        return ClaimStep.KEEP, None  # kube-controller-manager ends both
    if not record.is_allocated:
        # Announced by a controller that is gone, or deallocated by kube-scheduler. A pod that waits gets another one.
        is_own = record.note is not None and record.note.by == own
        return (ClaimStep.KEEP if is_own and use.is_wanted else ClaimStep.CLEAR), None
    if not record.is_ours:
        return ClaimStep.CLEAR, None  # by kube-scheduler or by hand; the annotation is of an earlier allocation
    if not use.is_wanted:
        return (ClaimStep.TAKE_BACK, Reason.POD_GONE) if use.unwanted_for_s >= _GONE_S else (ClaimStep.KEEP, None)
    if use.is_given_twice:
        return ClaimStep.TAKE_BACK, Reason.GIVEN_TWICE
    if use.node_unusable_for_s >= _UNUSABLE_S:
        return ClaimStep.TAKE_BACK, Reason.NODE_UNUSABLE
    if use.refused_for_s >= _PATIENCE_S or use.held_for_s >= _LONGEST_S:
        return ClaimStep.TAKE_BACK, Reason.UNUSED
    return ClaimStep.KEEP, None


class PodStep(Enum):
    """What to do about a pod that waits."""

    WAIT = "wait"
    UNGATE = "ungate"
    PLACE = "place"


def pod_step(gates: Collection[str], claims: Sequence[ClaimRecord | None]) -> PodStep:
    """Return what to do about a pod that waits.

    Args:
        gates: The names of its scheduling gates.
        claims: Its claims; None for one that is not made yet, or is not there.
    """
    if any(gate != GATE for gate in gates):
        return PodStep.WAIT  # somebody else says when it may be scheduled, and until then others may have the devices
    if not all(claim is not None and not claim.is_deleting for claim in claims):
        return PodStep.WAIT
    if all(claim is not None and claim.is_allocated for claim in claims):
        return PodStep.UNGATE if GATE in gates else PodStep.WAIT
    return PodStep.PLACE
