"""The dialects in the order in which they may read a container: what one of them reads is gone for the next."""

from __future__ import annotations

from typing import Final

from driver.convert.dialect import Dialect
from driver.convert.dialects.koordinator import KOORDINATOR
from driver.convert.dialects.nvidia import NVIDIA
from driver.convert.settings import Settings

__all__ = ["DIALECTS", "dialects_for"]

DIALECTS: Final[tuple[Dialect, ...]] = (KOORDINATOR, NVIDIA)
"""Those that need no settings. NVIDIA's device plugin comes last: others use its resource's name in their own way."""


def dialects_for(_settings: Settings) -> tuple[Dialect, ...]:
    """Return the dialects that are read with these settings."""
    return DIALECTS
