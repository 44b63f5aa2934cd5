"""How much of something each source has had lately."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["Spent"]

_HALF_S: Final = 1.0  # after which half of it is forgotten
_MAX_SOURCES: Final = 1024


class Spent:
    """A sum for each source, that fades with time; a bounded number of sources. Not safe for threads."""

    def __init__(self) -> None:
        self._sums: OrderedDict[str, tuple[float, float]] = OrderedDict()  # and when that was so

    def of(self, source: str, now: float) -> float:
        """What the source has had.

        Args:
            source: Whose.
            now: Monotonic seconds.
        """
        amount, at = self._sums.get(source, (0.0, now))
        return float(amount * 0.5 ** ((now - at) / _HALF_S))

    def add(self, source: str, amount: float, now: float) -> None:
        """The source had some more."""
        self._sums[source] = (self.of(source, now) + amount, now)
        self._sums.move_to_end(source)
        if len(self._sums) > _MAX_SOURCES:
            self._sums.popitem(last=False)
