"""Who asks by HTTP takes turns: explanations take the interpreter and the lock that the controller's own work needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["BusyError", "Turns"]

_MOST: Final = 4  # far fewer than the HTTPS server's threads, of which the admission webhook needs some
_LONGEST_REST_S: Final = 2.0


class BusyError(Exception):
    """Too many ask at once: answer 503 with the text."""


class Turns:
    """One after the other, a few may wait, and after each comes a rest as long as it took. Safe for threads.

    Args:
        most: How many may wait or have their turn.
        clock: Monotonic seconds.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        *,
        most: int = _MOST,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._places = threading.BoundedSemaphore(most)
        self._turn = threading.Lock()
        self._clock = clock
        self._sleep = sleep
        self._next = clock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn.

        Raises:
            BusyError: As many as may wait do so already.
        """
        if not self._places.acquire(blocking=False):
            raise BusyError("too many ask for explanations at once: try again in a second")
        try:
            with self._turn:
                self._sleep(max(self._next - self._clock(), 0.0))
                began = self._clock()
                try:
                    yield
                finally:
                    ended = self._clock()
                    self._next = ended + min(ended - began, _LONGEST_REST_S)
        finally:
            self._places.release()
