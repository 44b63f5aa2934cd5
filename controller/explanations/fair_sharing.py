"""Shares the time for explanations: every namespace gets its part, however many requests it makes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from controller.explanations.shared_state import BusyError

__all__ = ["FairShares", "RequestLimiter"]

_MOST: Final = 4  # far fewer than the HTTPS server's threads, of which the admission webhook needs some
_LONGEST_PAUSE_S: Final = 2.0
_LONGEST_WAIT_S: Final = 2.5
_REMEMBERED: Final = 10_000


class FairShares:
    """Chooses the namespace that has used least time: start-time fair queueing (Goyal, Vin, Cheng 1996).

    A namespace that is new, or did not want any time for a while, counts as having used as much as the least of the
    others.
    """

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._least = 0.0

    def next(self, waiting: Collection[str]) -> str:
        """Return the one of the waiting that has used least; of equals the first."""
        chosen = min(waiting, key=self._of)
        self._least = self._of(chosen)
        return chosen

    def charge(self, namespace: str, seconds: float) -> None:
        """Charge a namespace with time that it has used."""
        self._used[namespace] = self._of(namespace) + seconds
        if len(self._used) > _REMEMBERED:
            self._used = {name: used for name, used in self._used.items() if used > self._least}

    def _of(self, namespace: str) -> float:
        return max(self._used.get(namespace, 0.0), self._least)


@dataclass(eq=False, slots=True)
class _Request:
    """A request that waits or runs."""

    namespace: str
    is_running: bool = False


class RequestLimiter:
    """Runs one request at a time; a few may wait, not for long, and after each comes a pause as long as it took.

    Many requests of one namespace do not make others wait longer: of those that wait, the next is of the namespace that
    has used least time. If all places are taken, the namespace with most of them loses one to a namespace without any.
    Thread-safe.

    Args:
        most: How many may wait or run.
        wait_s: How long they may wait.
        clock: Monotonic seconds.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        *,
        most: int = _MOST,
        wait_s: float = _LONGEST_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._most = most
        self._wait_s = wait_s
        self._clock = clock
        self._sleep = sleep
        self._changed = threading.Condition()
        self._requests: list[_Request] = []  # in the order in which they came
        self._shares = FairShares()
        self._next = clock()

    @property
    def requests(self) -> tuple[str, ...]:
        """The namespaces of the requests that wait or run, in the order in which they came."""
        with self._changed:
            return tuple(request.namespace for request in self._requests)

    @contextmanager
    def slot(self, namespace: str = "") -> Iterator[None]:
        """Wait until the block may run.

        Args:
            namespace: The namespace that shares the time with others.

        Raises:
            BusyError: As many as may wait do so already, or it took too long.
        """
        request = _Request(namespace)
        try:
            self._acquire(request)
            self._sleep(max(self._next - self._clock(), 0.0))
            began = self._clock()
            try:
                yield
            finally:
                ended = self._clock()
                self._next = ended + min(ended - began, _LONGEST_PAUSE_S)
                self._shares.charge(namespace, ended - began)
        finally:
            with self._changed:
                if request in self._requests:
                    self._requests.remove(request)
                self._changed.notify_all()

    def _acquire(self, request: _Request) -> None:
        with self._changed:
            if len(self._requests) >= self._most and not self._make_room(request.namespace):
                raise BusyError("too many ask for explanations at once: try again in a second")
            self._requests.append(request)
            end = time.monotonic() + self._wait_s
            while not self._is_next(request):
                if request not in self._requests or not self._changed.wait(max(end - time.monotonic(), 0.0)):
                    raise BusyError("others are having claims explained: try again in a second")
            request.is_running = True

    def _is_next(self, request: _Request) -> bool:
        if not self._requests or any(item.is_running for item in self._requests):
            return False
        chosen = self._shares.next([item.namespace for item in self._requests])
        return next(item for item in self._requests if item.namespace == chosen) is request

    def _make_room(self, namespace: str) -> bool:
        """Take a place from the namespace with most of them, for one that has none; return whether that was done."""
        taken = Counter(item.namespace for item in self._requests)
        most, places = taken.most_common(1)[0]
        loser = next(
            (item for item in reversed(self._requests) if item.namespace == most and not item.is_running), None
        )
        if namespace in taken or places < 2 or loser is None:
            return False
        self._requests.remove(loser)
        self._changed.notify_all()
        return True
