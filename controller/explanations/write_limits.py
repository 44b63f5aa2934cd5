"""Limits the writes of explanations: how many a second, and how soon after a refusal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from driver.backoff import delay_s

__all__ = ["RefusedWrites", "WriteRateLimiter"]

_NAMESPACES: Final = 1000
_FIRST_S: Final = 30.0
_LONGEST_S: Final = 1800.0
_REFUSALS: Final = 10_000


@dataclass(slots=True)
class _Bucket:
    """A bucket of tokens.

    Attributes:
        left: How many there were at the last refill; below zero if somebody waits for the next.
        at: The time of that.
    """

    left: float
    at: float

    def refill(self, now: float, per_s: float, most: int) -> float:
        self.left = min(self.left + (now - self.at) * per_s, most)
        self.at = now
        return self.left


class WriteRateLimiter:
    """A token bucket for all writes, and one for each namespace. Not thread-safe.

    A single namespace may write at the whole rate in the long run, but not use up the whole burst.

    Args:
        stop: Ends all waiting.
        per_s: Writes a second, in the long run.
        burst: How many may be made one after the other after a while without any.
        namespace_burst: How many of them by one namespace; all of them if not given.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        stop: threading.Event,
        *,
        per_s: float,
        burst: int,
        namespace_burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop
        self._per_s = per_s
        self._burst = burst
        self._namespace_burst = burst if namespace_burst is None else namespace_burst
        self._clock = clock
        self._all = _Bucket(burst, clock())
        self._namespaces: dict[str, _Bucket] = {}

    def wait(self, namespace: str = "") -> bool:
        """Wait until the next write is allowed; return True if the controller stops instead."""
        now = self._clock()
        own = self._namespaces.setdefault(namespace, _Bucket(self._namespace_burst, now))
        left = min(self._all.refill(now, self._per_s, self._burst), own.refill(now, self._per_s, self._namespace_burst))
        self._all.left -= 1.0
        own.left -= 1.0
        if len(self._namespaces) > _NAMESPACES:
            self._forget_full(now)
        return self._stop.wait(max(0.0, (1.0 - left) / self._per_s))

    def _forget_full(self, now: float) -> None:
        """Forget full buckets, which are like new ones. Few are not: only the writes of the last seconds count."""
        for bucket in self._namespaces.values():
            bucket.refill(now, self._per_s, self._namespace_burst)
        self._namespaces = {
            name: bucket for name, bucket in self._namespaces.items() if bucket.left < self._namespace_burst
        }


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The last refusal of a write.

    Attributes:
        until: When to try again.
        failures: How many there were in a row.
    """

    until: float
    failures: int


class RefusedWrites:
    """Remembers the writes that the API server refuses: each has a back-off of its own. Not thread-safe.

    If more are refused than are remembered, the oldest are tried again early.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[Hashable, _Refusal] = {}  # the latest refusal is the last

    def add(self, what: Hashable) -> float:
        """Take note of a refused write.

        Returns:
            After how many seconds it may be tried again.
        """
        before = self._refused.pop(what, None)
        failures = 1 if before is None else before.failures + 1
        wait_s = delay_s(failures, first_s=_FIRST_S, limit_s=_LONGEST_S)
        self._refused[what] = _Refusal(self._clock() + wait_s, failures)
        if len(self._refused) > _REFUSALS:
            del self._refused[next(iter(self._refused))]
        return wait_s

    def forget(self, what: Hashable) -> None:
        """Forget the refusals of a write that went well."""
        self._refused.pop(what, None)

    def is_too_early(self, what: Hashable) -> bool:
        """Return whether a write was refused and is not to be tried again yet."""
        refusal = self._refused.get(what)
        return refusal is not None and self._clock() < refusal.until

    def forget_old(self) -> None:
        """Forget writes that were not tried again long after they might have been: their objects are gone."""
        long_ago = self._clock() - _LONGEST_S
        self._refused = {what: refusal for what, refusal in self._refused.items() if refusal.until > long_ago}
