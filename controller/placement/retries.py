"""When pods and claims that failed are looked at again."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from driver.backoff import delay_s

__all__ = ["Retries"]


@dataclass(slots=True)
class _Retry:
    at: float
    failures: int
    is_held: bool


class Retries:
    """Keys that are due later. Not thread-safe.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._retries: dict[str, _Retry] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._retries)

    def failed(self, key: str, *, first_s: float, limit_s: float, is_held: bool = True) -> float:
        """Let a key be due later, the more so the more often it has failed; return in how many seconds.

        Args:
            key: A pod, or another key that is only asked for (:meth:`is_held`).
            first_s: The wait after the first failure.
            limit_s: The longest wait.
            is_held: Whether no change in the cluster lets it be due earlier.
        """
        known = self._retries.get(key)
        failures = 1 if known is None else known.failures + 1
        wait_s = delay_s(failures, first_s=first_s, limit_s=limit_s)
        self._put(key, wait_s, failures, is_held=is_held)
        return wait_s

    def at(self, key: str, wait_s: float) -> None:
        """Let a pod be due after so many seconds; that is no failure."""
        known = self._retries.get(key)
        self._put(key, wait_s, 0 if known is None else known.failures, is_held=False)

    def forget(self, key: str) -> None:
        """Forget the failures of a key."""
        self._retries.pop(key, None)

    def is_held(self, key: str) -> bool:
        """Return whether a key must not be looked at yet, whatever changes."""
        known = self._retries.get(key)
        return known is not None and known.is_held and known.at > self._clock()

    def due(self) -> list[str]:
        """Return the keys that are due now, once for each time."""
        now, found = self._clock(), []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            known = self._retries.get(key)
            if known is not None and known.at == at:
                found.append(key)
        return found

    def first(self, most: int) -> list[str]:
        """Return the keys that are not held and have waited longest for another attempt, at most so many."""
        return list(islice((key for key, retry in self._retries.items() if not retry.is_held), most))

    def _put(self, key: str, wait_s: float, failures: int, *, is_held: bool) -> None:
        at = self._clock() + wait_s
        self._retries.pop(key, None)  # so that the order is that of the attempts
        self._retries[key] = _Retry(at, failures, is_held)
        heapq.heappush(self._heap, (at, key))
