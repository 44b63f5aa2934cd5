"""Makes the writes of one node's Device objects, a few at once, and no more of them at a time than other nodes bear."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from controller.devices.pace import DevicePace
from driver.adapters.kubernetes.errors import NotFoundError, UnavailableError

__all__ = ["Write", "WriteBatch"]

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Write:
    """A write to one object.

    Attributes:
        what: What it is counted as.
        write: Makes it.
        first: What is done right before it; None for nothing.
    """

    what: str
    write: Callable[[], object]
    first: Callable[[], object] | None = None


class WriteBatch:
    """The writes of one reconciliation. For one thread, which starts others.

    Args:
        pace: How many writes are under way at once; it gets the answers.
        pause: Called before each write: waits as long as the pace demands.
        stop: Once set, the writes under way are the last ones.
        most: How many writes are made at most.
        most_s: For how many seconds, from the first one on, new ones are begun.
        clock: Monotonic seconds.

    Attributes:
        written: How many writes were made, by what they are counted as.
        is_done: Whether none was left out for one of these limits.
    """

    def __init__(
        self,
        pace: DevicePace,
        *,
        pause: Callable[[], None],
        stop: threading.Event,
        most: int,
        most_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.written: Counter[str] = Counter()
        self.is_done = True
        self._pace = pace
        self._pause = pause
        self._stop = stop
        self._most = most
        self._most_s = most_s
        self._clock = clock
        self._end: float | None = None

    def make(self, writes: Iterable[Write]) -> None:
        """Make writes to different objects, in any order; return once they are done.

        Raises:
            ApiServerError: One could not be made. None was begun after that.
        """
        items = list(writes)
        if items and self.is_done:
            _in_parallel(self._begun(items), at_once=min(self._pace.at_once, len(items)))

    def _begun(self, writes: Sequence[Write]) -> Iterator[Callable[[], None]]:
        for write in writes:
            if self.written.total() >= self._most:
                self.is_done = False
                return
            self._pause()
            if self._stop.is_set():
                return
            # From the first write on: what was waited for until then does not count, and one write is always made.
            self._end = self._clock() + self._most_s if self._end is None else self._end
            if self._clock() > self._end:
                self.is_done = False
                return
            self.written[write.what] += 1
            yield partial(self._make, write)

    def _make(self, write: Write) -> None:
        try:
            if write.first is not None:
                write.first()
            began = time.monotonic()
            write.write()
            self._pace.answered(time.monotonic() - began)
        except NotFoundError as error:
            # Nothing creates an object on the way: it was deleted since the watch showed it.
            _LOG.debug("device object is gone already", extra={"error": str(error)})
        except UnavailableError as error:
            self._pace.unavailable(error.retry_after_s)
            raise


def _in_parallel(writes: Iterator[Callable[[], None]], *, at_once: int) -> None:
    """Make writes, so many at once. After a failure none is begun, and it is raised once those under way are done.

    The next write is asked for by one thread at a time, just before it is made.
    """
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                with lock:
                    write = None if failures else next(writes, None)
                if write is None:
                    return
                write()
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            failures.append(error)

    threads = [threading.Thread(target=work, name="devices-write", daemon=True) for _ in range(at_once - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
