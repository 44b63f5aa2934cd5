"""Counts what placement does, for metrics. Thread-safe."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from driver.adapters.http.durations import Durations
from driver.status.metric_family import Distribution

__all__ = ["OUTCOMES", "TAKEN_BACK", "PlacementCounter", "PlacementCounts"]

OUTCOMES: Final = ("placed", "nowhere", "changed", "refused", "unknown", "failed")
"""What came of a decision; labels of a metric, so they stay."""
TAKEN_BACK: Final = ("scheduler", "pod-gone", "node-unusable", "unused", "partial", "given-twice")
_ALLOCATING: Final = "allocate"
_DECIDING: Final = "decide"
_ALLOCATE_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_DECIDE_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_MOST_NODES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCounts:
    """What was counted until a moment.

    Attributes:
        decisions: By outcome.
        taken_back: Allocations that were taken back, by why.
        waiting: How many pods wait for placement, or to be bound.
        allocating: Seconds from a claim's creation to its allocation.
        deciding: Seconds that a decision takes.
        fragmentation: Thousandths of free GPUs that typical pods cannot use, by node; the most fragmented ones.
        fragmentation_in_all: Of all nodes.
    """

    decisions: Mapping[str, int]
    taken_back: Mapping[str, int]
    waiting: int
    allocating: Distribution
    deciding: Distribution
    fragmentation: Mapping[str, float]
    fragmentation_in_all: float


class PlacementCounter:
    """Counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decisions = Counter(dict.fromkeys(OUTCOMES, 0))
        self._taken_back = Counter(dict.fromkeys(TAKEN_BACK, 0))
        self._allocating = Durations((_ALLOCATING,), bounds_s=_ALLOCATE_S)
        self._deciding = Durations((_DECIDING,), bounds_s=_DECIDE_S)
        self._fragmentation: Mapping[str, float] = {}
        self._in_all = 0.0
        self.waiting = 0

    def decided(self, outcome: str) -> None:
        """Count a decision by what came of it: one of :data:`OUTCOMES`."""
        with self._lock:
            self._decisions[outcome] += 1

    def took_back(self, why: str) -> None:
        """Count an allocation that was taken back: one of :data:`TAKEN_BACK`."""
        with self._lock:
            self._taken_back[why] += 1

    def allocated(self, seconds: float) -> None:
        """Count a claim that was allocated so many seconds after its creation."""
        self._allocating.add(_ALLOCATING, max(seconds, 0.0))

    def took(self, seconds: float) -> None:
        """Count how long a decision has taken."""
        self._deciding.add(_DECIDING, seconds)

    def fragmented(self, by_node: Mapping[str, float]) -> None:
        """Take in the fragmentation of all nodes."""
        worst = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NODES]
        with self._lock:
            self._fragmentation, self._in_all = dict(worst), sum(by_node.values())

    def so_far(self) -> PlacementCounts:
        """Return what has been counted until now."""
        with self._lock:
            return PlacementCounts(
                decisions=dict(self._decisions),
                taken_back=dict(self._taken_back),
                waiting=self.waiting,
                allocating=self._allocating.so_far()[_ALLOCATING],
                deciding=self._deciding.so_far()[_DECIDING],
                fragmentation=self._fragmentation,
                fragmentation_in_all=self._in_all,
            )
