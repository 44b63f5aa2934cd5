"""One line of `make bench`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Figure"]


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
