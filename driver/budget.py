"""Limits how much time an answer may take: it is checked in every loop whose length the input decides.

A caller that starts something long puts a :class:`Budget` in force around it; the code below calls :func:`check` now
and then, at least once in some milliseconds, and knows nothing else of it. With no budget in force, nothing is bounded.

What counts is the time that the calling thread has the CPU, so that a busy machine does not change an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["Budget", "SpentError", "check", "is_spent", "share"]


class SpentError(Exception):
    """The time is up, or the answer is not wanted any more. Let it pass: the caller that set the budget expects it.

    No :class:`~driver.errors.RootportError`: it is about nothing that was examined.
    """


class Budget:
    """Time for one answer. Only for the thread that makes it.

    Args:
        cpu_s: Seconds of CPU time.
        wall_s: Seconds by the clock on the wall, which ends it as well; None for no such limit.
        stopped: Whether the answer is not wanted any more.
        clock: CPU seconds of this thread.
        wall_clock: Monotonic seconds.
    """

    __slots__ = ("_clock", "_ends", "_ends_on_wall", "_stopped", "_wall_clock")

    def __init__(
        self,
        cpu_s: float,
        *,
        wall_s: float | None = None,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.thread_time,
        wall_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._stopped = stopped
        self._ends = clock() + cpu_s
        self._ends_on_wall = None if wall_s is None else wall_clock() + wall_s

    @property
    def left_s(self) -> float:
        """Seconds of CPU time that are left; 0 where anything else has ended it."""
        if self._stopped() or (self._ends_on_wall is not None and self._wall_clock() >= self._ends_on_wall):
            return 0.0
        return max(0.0, self._ends - self._clock())

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.left_s <= 0

    def check(self, ahead_s: float = 0.0) -> None:
        """Raise where too little is left.

        Args:
            ahead_s: What comes next may take so long and cannot be interrupted.

        Raises:
            SpentError: There is not as much left.
        """
        left = self.left_s
        if left <= 0 or left < ahead_s:
            raise SpentError

    def part(self, cpu_s: float) -> Budget:
        """Return a budget of its own that ends no later than this one."""
        part = Budget(min(cpu_s, self.left_s), stopped=self._stopped, clock=self._clock, wall_clock=self._wall_clock)
        part._ends_on_wall = self._ends_on_wall
        return part

    @contextmanager
    def in_force(self) -> Iterator[Budget]:
        """Put this budget in force: inside, :func:`check` checks it."""
        token = _IN_FORCE.set(self)
        try:
            yield self
        finally:
            _IN_FORCE.reset(token)


_IN_FORCE: Final[ContextVar[Budget | None]] = ContextVar("budget", default=None)


def check(ahead_s: float = 0.0) -> None:
    """Check the budget in force, which takes a microsecond.

    Args:
        ahead_s: What comes next may take so long and cannot be interrupted.

    Raises:
        SpentError: There is not as much left.
    """
    budget = _IN_FORCE.get()
    if budget is not None:
        budget.check(ahead_s)


def is_spent() -> bool:
    """Whether nothing is left of the budget in force."""
    budget = _IN_FORCE.get()
    return budget is not None and budget.is_spent


@contextmanager
def share(part: float, *, at_most_s: float = float("inf")) -> Iterator[float]:
    """Limit what is spent inside to a part of what is left of the budget in force; yield that many seconds.

    Args:
        part: Between 0 and 1.
        at_most_s: The most seconds.
    """
    budget = _IN_FORCE.get()
    if budget is None:
        yield at_most_s
        return
    seconds = min(budget.left_s * part, at_most_s)
    with budget.part(seconds).in_force():
        yield seconds
