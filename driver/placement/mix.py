"""The typical pods of a cluster, and how frequent each is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from driver.placement.shapes import PodShape

__all__ = ["Mix", "RecentPods"]


@dataclass(frozen=True, slots=True)
class Mix:
    """Typical pods with their weights. Frozen: a score is the same until a new mix is taken.

    Attributes:
        weights: Of each typical pod, relative to the others; above 0. Whole numbers, so that no sum depends on the
            order of its terms.
    """

    weights: Mapping[PodShape, int]

    @staticmethod
    def of(pods: Iterable[PodShape]) -> Mix:
        """Count the pods."""
        weights: dict[PodShape, int] = {}
        for pod in pods:
            weights[pod] = weights.get(pod, 0) + 1
        return Mix(weights)

    @property
    def total(self) -> int:
        """The sum of all weights; 0 if there are no typical pods."""
        return sum(self.weights.values())


class RecentPods:
    """Counts the pods of a cluster as they come. What came long ago counts less.

    Args:
        half_life: After so many more pods a pod counts half.
        limit: The most kinds of pods to remember; the rarest are forgotten first.
    """

    def __init__(self, half_life: int = 5000, limit: int = 1000) -> None:
        self._half_life = half_life
        self._limit = limit
        self._counts: dict[PodShape, float] = {}
        self._added = 0

    def add(self, pod: PodShape) -> None:
        """Count a pod that came."""
        self._counts[pod] = self._counts.get(pod, 0.0) + 2.0 ** (self._added / self._half_life)
        self._added += 1
        if self._added >= self._half_life or len(self._counts) > 2 * self._limit:
            self._settle()

    def mix(self) -> Mix:
        """Return the mix of now: weights in thousandths of a pod."""
        self._settle()
        weights = {pod: round(1000 * count) for pod, count in self._counts.items()}
        return Mix({pod: weight for pod, weight in weights.items() if weight > 0})

    def _settle(self) -> None:
        scale = 2.0 ** (self._added / self._half_life)
        frequent = sorted(self._counts.items(), key=lambda item: -item[1])[: self._limit]
        self._counts = {pod: count / scale for pod, count in frequent}
        self._added = 0
