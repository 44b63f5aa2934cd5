"""What the placer decides about a pod."""

from __future__ import annotations

from dataclasses import dataclass

from driver.api.resource_v1 import AllocationResult
from driver.explain.known.cluster import ClaimState
from driver.placement.score import Score

__all__ = ["Decision", "Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """A node for a pod, with devices for its claims.

    Attributes:
        node: Its name.
        results: One for each of :attr:`Decision.claims`, as they are to be stored, but for the timestamp.
        score: How good it is, by the policy.
    """

    node: str
    results: tuple[AllocationResult, ...]
    score: Score


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a pod goes.

    Attributes:
        pod: ``namespace/name``.
        pod_uid: Its UID.
        claims: The claims to allocate, in the pod's order: those of its claims that have no allocation, without those
            that need only devices of other drivers.
        chosen: The best place; None where there is none, or nothing is to be decided.
        runner_up: The next best; None where there is none.
        why: For people, without a full stop: why it is this node and not the next best, which begins with the node; or
            why it is none, as what is said of the pod ("its claims are allocated", "it fits on none of 3 nodes: ...").
        took_too_long: Whether there is none because it was not evaluated to the end; another try takes as long.
    """

    pod: str
    pod_uid: str
    claims: tuple[ClaimState, ...]
    chosen: Placement | None
    runner_up: Placement | None
    why: str
    took_too_long: bool = False
