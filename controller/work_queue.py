"""A queue of keys to reconcile: each is in it once, may be due later, and has a back-off after failures.

The rules are those of client-go's workqueue (util/workqueue): a key that is added while it is worked on comes again
afterwards, never twice at the same time. One differs: an event does not end the back-off after a failure. A
reconciliation that fails half-way causes events of its own, which would otherwise make it a hot loop.

The cost of the work on a key is measured and charged to that key. After work that took much processor time, the key is
held back for a multiple of it, however often it is added. And a key whose work takes long, for any reason, is *slow*
for a while: it is handed out after all others, or to a thread that takes only slow ones.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import Final

from driver.backoff import delay_s

__all__ = ["WorkQueue"]

# So much processor time is free: it is what a node of 64 H100s takes. Beyond, a key gets a twentieth of a processor.
_FREE_CPU_S: Final = 0.25
_HOLD_BACK_TIMES: Final = 20.0
_MAX_HOLD_BACK_S: Final = 30.0
_SLOW_S: Final = 0.5
_SLOW_FOR_S: Final = 600.0


class WorkQueue:
    """Keys by the time at which they are due. Safe for several threads.

    Args:
        base_delay_s: The wait after a first failure, in seconds; it doubles with each further one.
        max_delay_s: The longest such wait.
        clock: Monotonic seconds.
        cpu_clock: Processor seconds of the calling thread, which takes a key and reports how the work on it ended. If
            only one thread takes keys, other costs may be included.
    """

    def __init__(
        self,
        *,
        base_delay_s: float = 0.1,
        max_delay_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._due: dict[str, float] = {}
        # By whether the keys are slow: an entry counts while it is the key's time in _due.
        self._heaps: dict[bool, list[tuple[float, str]]] = {False: [], True: []}
        self._slow_until: dict[str, float] = {}
        self._working: dict[str, tuple[float, float, bool]] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._closed = False
        self._condition = threading.Condition()

    def add(self, key: str, *, after_s: float = 0.0) -> None:
        """Make ``key`` due after so many seconds; if it is due already, at the earlier of both times."""
        with self._condition:
            self._add(key, self._clock() + after_s)

    def get(self, timeout_s: float | None = None, *, slow: bool | None = None) -> str | None:
        """Wait for a key that is due, and take it.

        Args:
            timeout_s: How long to wait at most.
            slow: True to take only slow keys, False to take none of them; None for any, those that are not slow first.

        Returns:
            The key; None after the timeout, or once the queue is closed.
        """
        wanted = (False, True) if slow is None else (slow,)
        end = None if timeout_s is None else self._clock() + timeout_s
        with self._condition:
            while not self._closed:
                now = self._clock()
                key = next(filter(None, (self._take(heap, now) for heap in wanted)), None)
                if key is not None:
                    return key
                if end is not None and now >= end:
                    return None
                ends = [at for at in (end, *map(self._next_due, wanted)) if at is not None]
                self._condition.wait(max(min(ends) - now, 0.0) if ends else None)
            return None

    def succeeded(self, key: str) -> None:
        """Report that the work on a taken key is done."""
        with self._condition:
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
            hold_back_s = self._finish(key)
            if hold_back_s:
                self._not_before[key] = self._clock() + hold_back_s
            if key in self._due:
                self._add_anew(key, self._due[key])

    def failed(self, key: str) -> float:
        """Report that the work on a taken key failed; return after how many seconds it is due again."""
        with self._condition:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = delay_s(failures, first_s=self._base_delay_s, limit_s=self._max_delay_s)
            delay = max(delay, self._finish(key))
            self._not_before[key] = self._clock() + delay
            self._add_anew(key, self._not_before[key])
            return delay

    def is_idle(self, *, slow: bool | None = None) -> bool:
        """Return whether no key is due or worked on.

        Args:
            slow: True to consider only slow keys, False to consider none of them; None for all. A key that is worked
                on counts as it did when it was taken.
        """
        considered = (False, True) if slow is None else (slow,)
        with self._condition:
            now = self._clock()
            if any(was_slow in considered for _, _, was_slow in self._working.values()):
                return False
            return all(at is None or at > now for at in map(self._next_due, considered))

    def close(self) -> None:
        """End every wait; no key is handed out any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _add(self, key: str, at: float) -> None:
        at = max(at, self._not_before.get(key, at))
        if key in self._due and self._due[key] <= at:
            return
        self._due[key] = at
        if key not in self._working:
            heapq.heappush(self._heaps[self._is_slow(key)], (at, key))
            self._condition.notify_all()

    def _add_anew(self, key: str, at: float) -> None:
        self._due.pop(key, None)
        self._add(key, at)

    def _take(self, slow: bool, now: float) -> str | None:  # noqa: FBT001 - which heap
        heap = self._heaps[slow]
        while heap and heap[0][0] <= now:
            at, key = heapq.heappop(heap)
            # Entries are not removed when a key's time changes: those that no longer count are skipped here.
            if self._due.get(key) != at or key in self._working:
                continue
            del self._due[key]
            self._working[key] = (now, self._cpu_clock(), slow)
            return key
        return None

    def _next_due(self, slow: bool) -> float | None:  # noqa: FBT001 - which heap
        heap = self._heaps[slow]
        while heap and (self._due.get(heap[0][1]) != heap[0][0] or heap[0][1] in self._working):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _finish(self, key: str) -> float:
        """Account for the work on a key; return for how many seconds the key is held back."""
        began, cpu_began, _ = self._working.pop(key)
        now, cpu = self._clock(), self._cpu_clock() - cpu_began
        if now - began > _SLOW_S or cpu > _FREE_CPU_S:
            self._slow_until.pop(key, None)
            self._slow_until[key] = now + _SLOW_FOR_S
        self._condition.notify_all()
        return min(cpu * _HOLD_BACK_TIMES, _MAX_HOLD_BACK_S) if cpu > _FREE_CPU_S else 0.0

    def _is_slow(self, key: str) -> bool:
        now = self._clock()
        # The key that was slow longest ago comes first.
        while self._slow_until and (oldest := next(iter(self._slow_until))) and self._slow_until[oldest] <= now:
            del self._slow_until[oldest]
        return key in self._slow_until
