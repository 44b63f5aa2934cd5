"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["Backoff", "delay_s"]

_SPREAD: Final = 0.25
_DOUBLINGS: Final = 32


def delay_s(failures: int, *, first_s: float, limit_s: float) -> float:
    """Return the seconds to wait after so many failures in a row, doubled with each one.

    Args:
        failures: How many attempts failed since the last one that succeeded; at least 1.
        first_s: The wait after the first failure.
        limit_s: The longest wait.
    """
    return min(first_s * (1 << min(failures - 1, _DOUBLINGS)), limit_s)


class Backoff:
    """Counts failures in a row, and returns how long to wait after each of them.

    Every wait is up to a quarter longer or shorter by chance, so that processes which failed together do not retry
    together.

    Args:
        first_s: The wait after the first failure, in seconds.
        limit_s: The longest wait, in seconds.
    """

    def __init__(self, first_s: float = 0.5, limit_s: float = 30.0) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._failures = 0

    def next_s(self) -> float:
        """Count a failure, and return the seconds to wait before the next attempt."""
        self._failures += 1
        wait_s = delay_s(self._failures, first_s=self._first_s, limit_s=self._limit_s)
        return wait_s * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - no secret

    def reset(self) -> None:
        """Forget the failures: an attempt succeeded."""
        self._failures = 0
