"""The dialects, in the order in which they may read a container: what is read by one is no longer there for the next."""

from __future__ import annotations

from typing import Final

from driver.convert.dialect import Dialect

__all__ = ["DIALECTS"]

DIALECTS: Final[tuple[Dialect, ...]] = ()
