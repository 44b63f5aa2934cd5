"""How fast is written: some at once, and not too many in the long run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["WritePace"]

_REMEMBERED: Final = 1000


@dataclass(slots=True)
class _Bucket:
    """Of tokens.

    Attributes:
        left: How many there were last; less than none where somebody waits for the next.
        at: When that was.
    """

    left: float
    at: float

    def refill(self, now: float, per_s: float, most: int) -> float:
        self.left = min(self.left + (now - self.at) * per_s, most)
        self.at = now
        return self.left


class WritePace:
    """A token bucket for all, and one for each namespace. For one thread.

    A namespace alone may write as fast as all together in the long run, but not take all that may be written at once.

    Args:
        stop: Ends all waiting.
        per_s: Writes a second, in the long run.
        at_once: So many may be made one after the other after a while without any.
        at_once_each: So many of them by one namespace; all of them where it is not given.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        stop: threading.Event,
        *,
        per_s: float,
        at_once: int,
        at_once_each: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop
        self._per_s = per_s
        self._at_once = at_once
        self._at_once_each = at_once if at_once_each is None else at_once_each
        self._clock = clock
        self._of_all = _Bucket(at_once, clock())
        self._of_one: dict[str, _Bucket] = {}

    def wait(self, namespace: str = "") -> bool:
        """Wait for the next write's turn; whether the end is near instead."""
        now = self._clock()
        own = self._of_one.setdefault(namespace, _Bucket(self._at_once_each, now))
        left = min(
            self._of_all.refill(now, self._per_s, self._at_once), own.refill(now, self._per_s, self._at_once_each)
        )
        self._of_all.left -= 1.0
        own.left -= 1.0
        if len(self._of_one) > _REMEMBERED:
            self._forget_full(now)
        return self._stop.wait(max(0.0, (1.0 - left) / self._per_s))

    def _forget_full(self, now: float) -> None:
        """What is full is as good as new. The others are few: no more than could be written meanwhile."""
        for bucket in self._of_one.values():
            bucket.refill(now, self._per_s, self._at_once_each)
        self._of_one = {name: bucket for name, bucket in self._of_one.items() if bucket.left < self._at_once_each}
