"""Makes other work wait while ResourceSlices are due, at most a second each time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from controller.work_queue import WorkQueue

__all__ = ["Precedence"]

_MOST_S: Final = 1.0
_FREE_S: Final = 0.25
_POLL_S: Final = 0.05


class Precedence:
    """Lets the work on a queue go first. Safe for several threads.

    Slow keys have no precedence: their work takes long, and one node can have some all the time. Other keys are waited
    for, but not for ever: if there are always some, the waiting threads get a fifth of the time.

    Args:
        queue: The work that goes first.
        wait: Waits so many seconds; returns True if the process stops.
        clock: Monotonic seconds.
    """

    def __init__(
        self, queue: WorkQueue, *, wait: Callable[[float], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue = queue
        self._wait = wait
        self._clock = clock
        self._free_until: float | None = None

    def wait(self) -> None:
        """Wait until no key but slow ones is due or worked on, but a second at most; then do not wait for a moment."""
        began = self._clock()
        if self._free_until is not None and began < self._free_until:
            return
        while not self._queue.is_idle(slow=False):
            if (now := self._clock()) - began >= _MOST_S:
                self._free_until = now + _FREE_S
                return
            if self._wait(_POLL_S):
                return
