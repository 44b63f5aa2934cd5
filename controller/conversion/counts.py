"""Counts what is converted, and the templates that are created and collected for it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["ConversionCounter", "Conversions"]

_OUTCOMES: Final = ("unchanged", "converted", "noted", "refused", "failed")  # labels of a metric, so they stay
_CLAIM_OUTCOMES: Final = ("unchanged", "converted", "noted", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversions:
    """What was counted so far.

    Attributes:
        pods: How many pods were reviewed, by outcome; dry runs are not among them.
        claims: Likewise of claims with a percentage.
        created: How many templates were created.
        collected: How many were deleted because no pod named them.
    """

    pods: Mapping[str, int]
    claims: Mapping[str, int]
    created: int
    collected: int


class ConversionCounter:
    """Counts conversions. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: Counter[str] = Counter(dict.fromkeys(_OUTCOMES, 0))
        self._claims: Counter[str] = Counter(dict.fromkeys(_CLAIM_OUTCOMES, 0))
        self._created = 0
        self._collected = 0

    def pod(self, outcome: str) -> None:
        """Count a pod by a :class:`driver.convert.Outcome`, or ``failed`` if its templates could not be created."""
        with self._lock:
            self._pods[outcome] += 1

    def claim(self, outcome: str) -> None:
        """Count a claim by a :class:`driver.convert.Outcome`, or ``failed`` where an error of ours left it."""
        with self._lock:
            self._claims[outcome] += 1

    def created(self) -> None:
        """Count a template that was created."""
        with self._lock:
            self._created += 1

    def collected(self) -> None:
        """Count a template that was collected."""
        with self._lock:
            self._collected += 1

    def so_far(self) -> Conversions:
        """Return what was counted so far."""
        with self._lock:
            return Conversions(
                pods=dict(self._pods),
                claims=dict(self._claims),
                created=self._created,
                collected=self._collected,
            )
