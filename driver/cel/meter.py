"""Counts what an evaluation uses up, and ends it at its limits.

Kubernetes ends an evaluation whose cost exceeds CELSelectorExpressionMaxCost. That cost is an estimate of Go's work and
leaves much of it out: the memory of lists and texts, the size of a regular expression, literals, presence tests,
comparisons of nested lists. So everything is counted a second time here, in steps and bytes of our own; and as counting
can err, the processor time is checked now and then.

Steps and bytes give the same answer on every machine and under any load. The clock is a second line of defence: it
counts the processor time of the thread, not the time that passes, and is read only after many steps, so that a busy
machine stops no legitimate evaluation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

__all__ = [
    "ELEMENT",
    "ENTRY",
    "OBJECT",
    "PLACE",
    "STANDARD",
    "BudgetExceededError",
    "LimitReachedError",
    "Limits",
    "Meter",
]

OBJECT: Final = 64
"""The bytes of a value besides its content: the head of a string, a list or an optional; an int."""
PLACE: Final = 8
"""The bytes of a list's element that exists already."""
ELEMENT: Final = 80
"""The bytes of a list's element that is made for it: the place and, say, an int."""
ENTRY: Final = 224
"""The bytes of a map's entry."""

_BYTES_PER_STEP: Final = 1024  # what a step's time is enough to copy
_STEPS_PER_LOOK: Final = 16_384


class BudgetExceededError(Exception):
    """The evaluation is stopped; nothing in the expression can absorb this.

    This class itself means that Kubernetes stops it as well.
    """


class LimitReachedError(BudgetExceededError):
    """The evaluation is stopped by a limit of Rootport's own: Kubernetes may reach a result.

    Attributes:
        by_clock: Whether the time ran out, so that another attempt may get further.
    """

    def __init__(self, reached: str, *, by_clock: bool = False) -> None:
        super().__init__(
            f"stopped by Rootport: it {reached}; what kube-scheduler answers, whose own cost limit is another, is not"
            " known"
        )
        self.by_clock = by_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one evaluation may use up besides Kubernetes' cost.

    Attributes:
        steps: The steps; one is about a node visited or an element compared, half a microsecond to one.
        memory: The bytes of all texts, lists and maps that are made, kept or not.
        seconds: The processor time.
    """

    steps: int
    memory: int
    seconds: float


STANDARD: Final = Limits(steps=250_000, memory=16 * 2**20, seconds=1.0)
"""About a quarter of a second and 16 MiB; docs/design/cel.md says what was measured."""


class Meter:
    """Counts cost in Kubernetes' units, and steps and bytes in our own.

    Args:
        limit: The cost at which the evaluation ends.
        limits: The other limits.
    """

    __slots__ = ("_limit", "_limits", "_look_at", "_memory", "_started", "_steps", "cost")

    def __init__(self, limit: int, limits: Limits = STANDARD) -> None:
        self.cost = 0
        self._limit = limit
        self._limits = limits
        self._steps = 0
        self._memory = 0
        self._started: float | None = None
        self._look_at = min(limits.steps, _STEPS_PER_LOOK)

    def charge(self, cost: int) -> None:
        """Add to the cost.

        Raises:
            BudgetExceededError: The limit is exceeded.
        """
        self.cost += cost
        if self.cost > self._limit:
            raise BudgetExceededError("operation cancelled: actual cost limit exceeded")

    def work(self, steps: int) -> None:
        """Count steps, before they are made.

        Raises:
            LimitReachedError: There are too many of them, or they took too long.
        """
        self._steps += steps
        if self._steps > self._look_at:
            self._look()

    def memory(self, size: int) -> None:
        """Count bytes, before they are taken.

        Raises:
            LimitReachedError: There are too many of them.
        """
        self._memory += size
        if self._memory > self._limits.memory:
            raise LimitReachedError(f"makes values of more than {self._limits.memory} bytes")
        self.work(size // _BYTES_PER_STEP)

    def text(self, length: int, *sources: str) -> None:
        """Count a text, before it is made.

        Args:
            length: The text's characters, or bytes.
            sources: The texts that it is made of: beyond ASCII a character may take four bytes.

        Raises:
            LimitReachedError: As :meth:`memory`.
        """
        self.memory(OBJECT + length * (1 if all(map(str.isascii, sources)) else 4))

    def elements(self, count: int) -> None:
        """Count a list whose elements are made for it, before it is made.

        Raises:
            LimitReachedError: As :meth:`memory`.
        """
        self.memory(OBJECT + count * ELEMENT)

    def _look(self) -> None:
        if self._steps > self._limits.steps:
            raise LimitReachedError(f"takes more than {self._limits.steps} steps")
        now = time.thread_time()
        if self._started is None:
            self._started = now
        elif now - self._started > self._limits.seconds:
            raise LimitReachedError(f"took longer than {self._limits.seconds:g} s", by_clock=True)
        self._look_at = min(self._limits.steps, self._steps + _STEPS_PER_LOOK)
