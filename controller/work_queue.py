"""A queue of keys to look at: each is in it once, may be due later, and waits longer after each failure.

The rules are those of client-go's workqueue (util/workqueue): a key that is added while it is worked on comes again
afterwards, never twice at the same time. One differs: an event does not end the wait after a failure. A pass that fails
half-way causes events of its own, which would otherwise make it a hot loop.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["WorkQueue"]

_DOUBLINGS: Final = 32  # enough for any limit, and no overflow


class WorkQueue:
    """Keys by the time at which they are due. Safe for several threads.

    Args:
        base_delay_s: The wait after a first failure, in seconds; it doubles with each further one.
        max_delay_s: The longest such wait.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        base_delay_s: float = 0.1,
        max_delay_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._clock = clock
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._working: set[str] = set()
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._closed = False
        self._condition = threading.Condition()

    def add(self, key: str, *, after_s: float = 0.0) -> None:
        """Look at ``key`` after so many seconds; where it is due anyway, at the earlier of both times."""
        with self._condition:
            self._add(key, self._clock() + after_s)

    def get(self, timeout_s: float | None = None) -> str | None:
        """Take a key that is due, waiting for one; None after the timeout, or once the queue is closed."""
        end = None if timeout_s is None else self._clock() + timeout_s
        with self._condition:
            while not self._closed:
                now = self._clock()
                key = self._take(now)
                if key is not None:
                    return key
                if end is not None and now >= end:
                    return None
                ends = [at for at in (end, self._next_due()) if at is not None]
                self._condition.wait(max(min(ends) - now, 0.0) if ends else None)
            return None

    def succeeded(self, key: str) -> None:
        """The work on a taken key is done."""
        with self._condition:
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
            self._finish(key)

    def failed(self, key: str) -> float:
        """The work on a taken key failed; it comes again after the seconds returned."""
        with self._condition:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            delay = min(self._base_delay_s * (1 << min(failures, _DOUBLINGS)), self._max_delay_s)
            self._not_before[key] = self._clock() + delay
            self._due.pop(key, None)
            self._add(key, self._not_before[key])
            self._finish(key)
            return delay

    def is_idle(self) -> bool:
        """True where no key is due or worked on."""
        with self._condition:
            now = self._clock()
            return not self._working and all(at > now for at in self._due.values())

    def close(self) -> None:
        """End every wait; nothing is handed out any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _add(self, key: str, at: float) -> None:
        at = max(at, self._not_before.get(key, at))
        if key in self._due and self._due[key] <= at:
            return
        self._due[key] = at
        if key not in self._working:
            heapq.heappush(self._heap, (at, key))
            self._condition.notify_all()

    def _take(self, now: float) -> str | None:
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            # Entries are not removed when a key's time changes: those that no longer count are passed over here.
            if self._due.get(key) != at or key in self._working:
                continue
            del self._due[key]
            self._working.add(key)
            return key
        return None

    def _next_due(self) -> float | None:
        while self._heap and (self._due.get(self._heap[0][1]) != self._heap[0][0] or self._heap[0][1] in self._working):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _finish(self, key: str) -> None:
        self._working.discard(key)
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], key))
        self._condition.notify_all()
