"""Who lets slices go first, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from controller.work_queue import WorkQueue

__all__ = ["Precedence"]

_MOST_S: Final = 1.0
_TURN_S: Final = 0.25
_LOOK_S: Final = 0.05


class Precedence:
    """Lets the work on a queue go first. Safe for several threads.

    Keys that are slow have no precedence: their work takes long, and one node can have some all the time. Others are
    waited for, but not for ever: where there are always some, those who wait get a fifth of the time.

    Args:
        queue: What goes first.
        wait: Waits so many seconds; whether to end at once.
        clock: Monotonic seconds.
    """

    def __init__(
        self, queue: WorkQueue, *, wait: Callable[[float], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue = queue
        self._wait = wait
        self._clock = clock
        self._turn_until: float | None = None

    def give(self) -> None:
        """Wait until no key but slow ones is due or worked on, a second at most; then all who wait have a turn."""
        began = self._clock()
        if self._turn_until is not None and began < self._turn_until:
            return
        while not self._queue.is_idle(slow=False):
            if (now := self._clock()) - began >= _MOST_S:
                self._turn_until = now + _TURN_S
                return
            if self._wait(_LOOK_S):
                return
