"""Token buckets that limit the rate of each of many keys."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_BUCKETS", "Buckets", "Rate"]

MAX_BUCKETS: Final = 4096
"""How many are remembered. The key that was not used for longest is forgotten, and starts with a full bucket again."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate.

    Attributes:
        a_second: How often a second, in the long run.
        at_once: How often in one burst, after a long pause.
    """

    a_second: float
    at_once: int


class Buckets:
    """A bucket for each key. Thread-safe.

    Args:
        rate: The rate of each of them.
        clock: Monotonic seconds.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # its content at a time

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable) -> bool:
        """Return whether one more is within the rate, and if so count it."""
        with self._lock:
            now = self._clock()
            left, at = self._buckets.get(key, (float(self._rate.at_once), now))
            left = min(float(self._rate.at_once), left + (now - at) * self._rate.a_second)
            is_within = left >= 1
            self._buckets[key] = (left - is_within, now)
            self._buckets.move_to_end(key)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
            return is_within
