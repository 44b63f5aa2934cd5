"""Formats amounts for tables: short, and rounded so that they never look better than they are."""

from __future__ import annotations

from typing import Final

__all__ = ["free_of_all", "gibibytes", "gibibytes_of", "percent", "rate"]

_MIB: Final = 1024**2
_GIB: Final = 1024 * _MIB


def gibibytes(amount: float, *, unit: str = "Gi") -> str:
    """Return bytes as ``80Gi``, ``79.6Gi`` or ``0``, rounded down to a tenth; as ``40Mi`` if that is too coarse."""
    if not amount:
        return "0"
    if amount * 10 >= _GIB:
        return f"{_gib(amount)}{unit}"
    small = unit.replace("G", "M")
    return f"{int(amount) // _MIB}{small}" if amount >= _MIB else f"<1{small}"


def gibibytes_of(part: float, total: float) -> str:
    """Return a part and the whole as ``40/79.6Gi``."""
    return f"{_gib(part)}/{_gib(total)}Gi"


def free_of_all(free: int, total: int) -> str:
    """Return a part and the whole as ``3/8``; ``-`` if the whole is none."""
    return f"{free}/{total}" if total else "-"


def percent(ratio: float) -> str:
    """Return a percentage as ``97%``."""
    return f"{ratio * 100:.0f}%"


def rate(bits_per_second: int) -> str:
    """Return a bandwidth as ``400 Gb/s``."""
    return f"{bits_per_second / 1e9:g} Gb/s"


def _gib(amount: float) -> str:
    # An H100 has 79.65 GiB: rounded up, it would seem to hold two shares of 40 GiB.
    whole, tenth = divmod(int(amount) * 10 // _GIB, 10)
    return f"{whole}.{tenth}" if tenth else str(whole)
