"""Remembers whose writes the API server refuses: each waits ever longer, and nobody else does."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

__all__ = ["Refusals"]

_FIRST_S: Final = 30.0
_LONGEST_S: Final = 1800.0
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The last one.

    Attributes:
        until: When to try again.
        delay_s: How long that is after the refusal.
    """

    until: float
    delay_s: float


class Refusals:
    """When to try again, by what was refused. For one thread.

    Where more are refused than are remembered, the oldest are tried again early.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[Hashable, _Refusal] = {}  # the latest refusal is the last

    def add(self, what: Hashable) -> float:
        """A write was refused.

        Returns:
            After how many seconds it may be tried again.
        """
        before = self._refused.pop(what, None)
        delay_s = _FIRST_S if before is None else min(2 * before.delay_s, _LONGEST_S)
        self._refused[what] = _Refusal(self._clock() + delay_s, delay_s)
        if len(self._refused) > _REMEMBERED:
            del self._refused[next(iter(self._refused))]
        return delay_s

    def forget(self, what: Hashable) -> None:
        """A write went well."""
        self._refused.pop(what, None)

    def is_too_early(self, what: Hashable) -> bool:
        """Whether it was refused and is not to be tried again yet."""
        refusal = self._refused.get(what)
        return refusal is not None and self._clock() < refusal.until

    def forget_old(self) -> None:
        """Forget what was not tried again for long after it might have been: it is gone."""
        long_ago = self._clock() - _LONGEST_S
        self._refused = {what: refusal for what, refusal in self._refused.items() if refusal.until > long_ago}
