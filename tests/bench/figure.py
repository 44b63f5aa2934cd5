"""One line of `make bench`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

__all__ = ["Figure", "report"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, beside its limit; an infinite limit is none."""

    name: str
    value: float
    limit: float
    unit: str

    def row(self) -> str:
        """The line; the share of the limit is what to compare between machines."""
        scale = self.value if self.limit == inf else self.limit
        digits = 2 if scale < 10 else 1  # a ratio's limit may be 1.05
        value, limit = f"{self.value:.{digits}f}", f"{self.limit:.{digits}f}"
        if self.limit == inf:
            return f"{self.name:<76} {value:>9} {self.unit:<3}"
        share = self.value / self.limit
        verdict = "ok" if share <= 1 else "OVER"
        return f"{self.name:<76} {value:>9} {self.unit:<3} {limit:>7} {share:>7.2f}  {verdict}"


def report(figures: Iterable[Figure]) -> int:
    """Print each figure as it becomes known; the exit status: 1 where one is over its limit."""
    over = 0
    for figure in figures:
        print(figure.row(), flush=True)
        over += figure.value > figure.limit
    return 1 if over else 0
