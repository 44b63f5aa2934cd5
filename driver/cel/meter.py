"""What an evaluation may use up.

Kubernetes ends an evaluation whose cost exceeds CELSelectorExpressionMaxCost. That cost is an estimate of Go's work
and leaves some of it out (comparing nested lists, growing strings), so :meth:`Meter.work` and :meth:`Meter.text` bound
what cost does not.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BudgetExceededError", "Meter"]

_MAX_WORK: Final = 2_000_000
_MAX_TEXT: Final = 10_000_000  # so long that traversing it once costs Kubernetes' whole budget


class BudgetExceededError(Exception):
    """The evaluation is stopped; nothing in the expression can absorb this."""


class Meter:
    """Counts cost in Kubernetes' units, and work in ours.

    Args:
        limit: The cost at which the evaluation ends.
    """

    __slots__ = ("_limit", "_work", "cost")

    def __init__(self, limit: int) -> None:
        self.cost = 0
        self._limit = limit
        self._work = 0

    def charge(self, cost: int) -> None:
        """Adds to the cost.

        Raises:
            BudgetExceededError: The limit is exceeded.
        """
        self.cost += cost
        if self.cost > self._limit:
            raise BudgetExceededError("operation cancelled: actual cost limit exceeded")

    def work(self, steps: int) -> None:
        """Counts steps that cost does not see.

        Raises:
            BudgetExceededError: There were too many of them.
        """
        self._work += steps
        if self._work > _MAX_WORK:
            raise BudgetExceededError("operation cancelled: too much work")

    def text(self, length: int) -> None:
        """Says how long a string or list is going to be before it is made.

        Raises:
            BudgetExceededError: Longer than anything that could be used within the limit.
        """
        if length > _MAX_TEXT:
            raise BudgetExceededError(f"operation cancelled: makes a value of length {length}")
