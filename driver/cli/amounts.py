"""Amounts as a table shows them: short, and never better than they are."""

from __future__ import annotations

from typing import Final

__all__ = ["free_of_all", "gibibytes", "gibibytes_of", "percent", "rate"]

_GIB: Final = 1024**3
_SMALL: Final = 10


def gibibytes(amount: float) -> str:
    """``80Gi``, ``1.5Gi``, ``0``; rounded down."""
    return f"{_gib(amount)}Gi" if amount else "0"


def gibibytes_of(part: float, total: float) -> str:
    """``40/80Gi``."""
    return f"{_gib(part)}/{_gib(total)}Gi"


def free_of_all(free: int, total: int) -> str:
    """``3/8``; ``-`` where there are none."""
    return f"{free}/{total}" if total else "-"


def percent(ratio: float) -> str:
    """``97%``."""
    return f"{ratio * 100:.0f}%"


def rate(bits_per_second: int) -> str:
    """``400 Gb/s``."""
    return f"{bits_per_second / 1e9:g} Gb/s"


def _gib(amount: float) -> str:
    whole = amount / _GIB
    # A tenth more or less matters of a small share only.
    shown = int(whole * 10) / 10 if whole < _SMALL else int(whole)
    return f"{shown:g}"
