"""Counts durations in the buckets of a Prometheus histogram, without Prometheus' library.

The plugin loads that library at its first scrape only, and durations from before that must not be lost.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from driver.status.metric_family import Distribution

__all__ = ["BOUNDS_S", "Durations"]

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""From a prepare without effects to the longest wait there is: the kubelet gives a call 45 s."""


class Durations:
    """Counts durations by the name of what took them. Thread-safe.

    Args:
        names: The names of what is timed; each has a histogram from the start.
        bounds_s: The upper bounds of the buckets, in ascending order.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        bounds_s: tuple[float, ...] = BOUNDS_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bounds_s = bounds_s
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = {name: [0] * (len(bounds_s) + 1) for name in names}
        self._sums_s = dict.fromkeys(self._counts, 0.0)

    def add(self, name: str, seconds: float, *, times: int = 1) -> None:
        """Count a duration, or several equal ones.

        Raises:
            KeyError: The name is not among those given at the start.
        """
        with self._lock:
            self._counts[name][bisect_left(self._bounds_s, seconds)] += times
            self._sums_s[name] += seconds * times

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count how long the ``with`` block takes, also if it fails."""
        began = self._clock()
        try:
            yield
        finally:
            self.add(name, self._clock() - began)

    def so_far(self) -> dict[str, Distribution]:
        """Return what has been counted until now, by name."""
        with self._lock:
            return {
                name: Distribution(bounds_s=self._bounds_s, counts=tuple(counts), sum_s=self._sums_s[name])
                for name, counts in self._counts.items()
            }
