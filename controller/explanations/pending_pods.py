"""The pods that wait for claims: which they are, and when each is due to be explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.explanations.reports import PendingReport
from controller.explanations.unmade_claims import pods_without_claim
from driver.explain.known.cluster import PodState
from driver.explain.known.state import ClusterState

__all__ = ["Pace", "PendingPod", "pending_claims", "waiting_pods"]

_CLAIMS_OF_A_POD: Final = 64  # that are annotated; a pod may name a thousand


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often pods are explained, and how much at a time; in seconds.

    Attributes:
        settle_s: For how long nothing must have changed before a pod is explained again...
        round_s: ...unless that was twice as long ago as this, which is the least time between two explanations.
        wait_s: How long a pod's claims may be pending before it is explained: the scheduler needs a moment.
        idle_s: After how long a pod is processed although nothing changed: its Event may be due again.
        per_s: Explanations a second; each is followed by a pause as long as it took, at least.
        over_budget_s: How long a pod waits, whatever changes, after an explanation that did not fit its budget; doubled
            each time.
        longest_over_budget_s: The longest such wait.
        retry_s: The wait after a write that failed; doubled each time until one succeeds.
        longest_retry_s: The longest such wait.
    """

    settle_s: float = 2.0
    round_s: float = 10.0
    wait_s: float = 5.0
    idle_s: float = 30.0
    per_s: float = 20.0
    over_budget_s: float = 300.0
    longest_over_budget_s: float = 3600.0
    retry_s: float = 5.0
    longest_retry_s: float = 300.0


@dataclass(slots=True, eq=False)
class PendingPod:
    """A pod with pending claims. All times are monotonic seconds.

    Attributes:
        pod: The pod, as it was when pods were listed last.
        since: When it was first seen so.
        processed_at: When it was processed last; None if it was not yet.
        generation: The cluster's generation then.
        report: The result of its last explanation.
        is_unwritten: Whether that could not be written.
        left: The claims whose annotations are still to be written; empty if writing failed.
        unfinished: How many attempts were made that came so far that a few more will finish the explanation.
        unknown: How many nodes were not examined after the last of these.
        over_budget: How many explanations in a row did not fit their budget.
        not_before: When it may be explained again.
    """

    pod: PodState
    since: float
    processed_at: float | None = None
    generation: int = -1
    report: PendingReport | None = None
    is_unwritten: bool = False
    left: tuple[tuple[str, str], ...] = ()
    unfinished: int = 0
    unknown: int | None = None
    over_budget: int = 0
    not_before: float = 0.0

    def is_due(self, pace: Pace, *, now: float, generation: int, quiet_s: float) -> bool:
        """Return whether the pod is to be processed now.

        Args:
            pace: How often pods are explained.
            now: The time.
            generation: The cluster's generation.
            quiet_s: For how long the cluster has not changed.
        """
        if self.left:
            return True
        if now < self.not_before:
            return False
        if self.unfinished:
            return True
        if self.processed_at is None:
            return now - self.since >= pace.wait_s
        since = now - self.processed_at
        if since < pace.round_s:
            return False
        if self.is_unwritten or since >= pace.idle_s:
            return True
        return generation != self.generation and (quiet_s >= pace.settle_s or since >= 2 * pace.round_s)


def waiting_pods(state: ClusterState) -> list[PodState]:
    """Return the first pod that waits for each pending claim, and those whose claim is not made yet, by key."""
    found: dict[str, PodState] = {pod.key: pod for pod in pods_without_claim(state)}
    for key in state.pending():
        pod = next((pod for pod in state.pods_of(key) if pod.is_waiting), None)
        if pod is not None:
            found[pod.key] = pod
    return [found[key] for key in sorted(found)]


def pending_claims(state: ClusterState, pod: PodState) -> tuple[tuple[str, str], ...]:
    """Return key and UID of the pod's first 64 claims that are not allocated, each once."""
    found: dict[str, str] = {}
    for entry in pod.claims:
        if len(found) == _CLAIMS_OF_A_POD:
            break
        claim = state.claim(f"{pod.namespace}/{entry.claim}") if entry.claim else None
        if claim is not None and not claim.allocated and not claim.deleting:
            found[claim.key] = claim.uid
    return tuple(found.items())
