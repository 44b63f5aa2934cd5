"""Token buckets: how often somebody may do something, when it is many who may. Safe for threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_BUCKETS", "Buckets", "Rate"]

MAX_BUCKETS: Final = 4096
"""How many are remembered; whoever was not seen for longest is forgotten, and starts with a full bucket again."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often.

    Attributes:
        a_second: For ever.
        at_once: After a pause that was long enough.
    """

    a_second: float
    at_once: int


class Buckets:
    """A bucket for each key.

    Args:
        rate: How each of them fills.
        clock: Monotonic seconds.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # what was in it, and when

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable) -> bool:
        """Whether once more is within the rate; then it counts."""
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
