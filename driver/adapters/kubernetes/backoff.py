"""How long to wait between attempts that fail: doubling, and never in step with the others that wait as well."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["Backoff"]

_SPREAD: Final = 0.25


class Backoff:
    """Waits from ``first_s``, doubled each time up to ``limit_s``, each a quarter longer or shorter by chance."""

    def __init__(self, first_s: float = 0.5, limit_s: float = 30.0) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._next_s = first_s

    def next_s(self) -> float:
        """The wait before the next attempt, in seconds."""
        wait_s = self._next_s
        self._next_s = min(2 * wait_s, self._limit_s)
        return wait_s * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - no secret

    def reset(self) -> None:
        """Begin anew: an attempt went well."""
        self._next_s = self._first_s
