"""Limits how fast Device objects are written, by how the API server answers, and charges the writes to their node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["DevicePace"]

# etcd takes thousands; these are for people, and each is a change for all who watch Devices.
_WRITES_PER_S: Final = 400.0
# The API server's fair queueing (priority level workload-low) keeps these from others' requests, and few of them are
# always under way: a slow API server is asked less often, whatever else it does.
_MOST_AT_ONCE: Final = 8
# An API server that is not busy takes 5 to 20 ms for a write; the objective of Kubernetes' is a second for 99 of 100.
_SLOW_S: Final = 0.15
_PAUSE_S: Final = 1.0
# A write is charged like so much processor time. Since the work queue holds a node back for a multiple of that, it gets
# 20 writes a second at most in the long run.
_WRITE_COST_S: Final = 0.0025


class DevicePace:
    """A pace for all writes: how many are under way at once, and how many begin in a second. Safe for several threads.

    The number at once grows while answers come soon, and halves, once a second at most, when one is slow. A refusal
    because the API server is busy ends all writes for as long as it asks for, and then they are made one by one.

    Args:
        wait: Waits so many seconds.
        clock: Monotonic seconds.
        cpu_clock: Processor seconds of the calling thread.
    """

    def __init__(
        self,
        *,
        wait: Callable[[float], object],
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._wait = wait
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._lock = threading.Lock()
        self._next_write = 0.0
        self._writes = 0
        self._at_once = 2.0
        self._slowed_at: float | None = None

    @property
    def at_once(self) -> int:
        """How many writes may be under way at once now."""
        return int(self._at_once)

    def pause(self) -> None:
        """Wait until the next write may begin."""
        with self._lock:
            # From start to start: a write takes its time as well.
            now = self._clock()
            begin = max(self._next_write, now)
            self._next_write = begin + 1.0 / _WRITES_PER_S
            self._writes += 1
        self._wait(begin - now)

    def answered(self, took_s: float) -> None:
        """Take note of how long a write took that the API server answered."""
        with self._lock:
            if took_s <= _SLOW_S:
                self._at_once = min(self._at_once + 1.0 / self._at_once, _MOST_AT_ONCE)
            elif self._slowed_at is None or self._clock() - self._slowed_at >= 1.0:
                self._slowed_at = self._clock()
                self._at_once = max(self._at_once / 2, 1.0)

    def unavailable(self, retry_after_s: float | None) -> None:
        """Take note that the API server is too busy for a write, or away, and when it may be asked again."""
        with self._lock:
            self._at_once = 1.0
            self._next_write = max(self._next_write, self._clock() + max(retry_after_s or 0.0, _PAUSE_S))

    def cost_s(self) -> float:
        """Return the processor seconds of the thread, with its writes counted in, for a work queue."""
        return self._cpu_clock() + self._writes * _WRITE_COST_S
