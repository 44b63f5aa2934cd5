"""One line of `make bench`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Figure", "report"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, beside its limit."""

    name: str
    value: float
    limit: float
    unit: str

    def row(self) -> str:
        """The line; the share of the limit is what to compare between machines."""
        share = self.value / self.limit
        verdict = "ok" if share <= 1 else "OVER"
        return f"{self.name:<76} {self.value:>9.1f} {self.unit:<3} {self.limit:>7.1f} {share:>7.2f}  {verdict}"


def report(figures: Iterable[Figure]) -> int:
    """Print each figure as it becomes known; the exit status: 1 where one is over its limit."""
    over = 0
    for figure in figures:
        print(figure.row(), flush=True)
        over += figure.value > figure.limit
    return 1 if over else 0
