"""Many mistakes in one message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from driver.api.validation.errors import FieldError

__all__ = ["joined"]

_ERRORS_SHOWN: Final = 20


def joined(errors: Sequence[FieldError]) -> str:
    """All of them in one line; a flood is cut."""
    more = len(errors) - _ERRORS_SHOWN
    return "; ".join(map(str, errors[:_ERRORS_SHOWN])) + (f"; and {more} more" if more > 0 else "")
