"""Limits how fast Device objects are written, and charges the writes to their node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["DevicePace"]

_WRITES_PER_S: Final = 100.0
# A write is charged like so much processor time. Since the work queue holds a node back for a multiple of that, it gets
# a fifth of all writes at most in the long run.
_WRITE_COST_S: Final = 0.0025


class DevicePace:
    """A pace for all writes. Not thread-safe.

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
        self._next_write = 0.0
        self._writes = 0

    def pause(self) -> None:
        """Wait until the next write may begin."""
        # From start to start: a write takes its time as well.
        now = self._clock()
        self._wait(max(self._next_write - now, 0.0))
        self._next_write = max(self._next_write, now) + 1.0 / _WRITES_PER_S
        self._writes += 1

    def cost_s(self) -> float:
        """Return the processor seconds of the thread, with its writes counted in, for a work queue."""
        return self._cpu_clock() + self._writes * _WRITE_COST_S
