"""Ranges of costs and sizes in saturating 64-bit arithmetic (cel-go v0.29.2, checker/cost.go)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_UINT64", "NOTHING", "UNKNOWN", "Range", "exactly"]

MAX_UINT64: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from ``min`` to ``max``; :data:`MAX_UINT64` is where arithmetic stops, and stands for "no bound"."""

    min: int
    max: int

    def __add__(self, other: Range) -> Range:
        return Range(_saturated(self.min + other.min), _saturated(self.max + other.max))

    def __mul__(self, other: Range) -> Range:
        return Range(_saturated(self.min * other.min), _saturated(self.max * other.max))

    def __or__(self, other: Range) -> Range:
        """Return the smallest range that includes both."""
        return Range(min(self.min, other.min), max(self.max, other.max))

    def scaled(self, factor: float) -> Range:
        """Return both ends times a factor, rounded up."""
        return Range(_scaled(self.min, factor), _scaled(self.max, factor))


def exactly(value: int) -> Range:
    """Return the range of one value."""
    return Range(value, value)


def _saturated(value: int) -> int:
    return min(value, MAX_UINT64)


def _scaled(value: int, factor: float) -> int:
    # Go computes with doubles here, so that 3 * 0.1 gives 1 and the unknown size gives what a double makes of it.
    product = float(value) * factor
    return MAX_UINT64 if product >= 2.0**64 else math.ceil(product)


NOTHING: Final = Range(0, 0)
UNKNOWN: Final = Range(0, MAX_UINT64)
