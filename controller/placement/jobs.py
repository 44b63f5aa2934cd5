"""Runs writes in a few threads, and brings back what came of them: a pod's writes take longer than its decision."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Job", "Jobs"]

_LOG: Final = logging.getLogger(__name__)
_THREADS: Final = 4
_MOST: Final = 12


@dataclass(slots=True)
class Job:
    """A write, or a few in order.

    Attributes:
        keys: The pods and claims that nobody else may write meanwhile.
        work: Writes, in another thread.
        on_done: Gets what ``work`` returned, in the loop's thread; None if it failed by a mistake of ours.
    """

    keys: Collection[str]
    work: Callable[[], Any]
    on_done: Callable[[Any], None]


class Jobs:
    """Jobs under way. For one thread, that of the loop.

    Args:
        woken: Set when a job is done.
    """

    def __init__(self, woken: threading.Event) -> None:
        self._woken = woken
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="placement-write")
        self._done: queue.SimpleQueue[tuple[Job, Any]] = queue.SimpleQueue()
        self._busy: set[str] = set()
        self._running = 0

    @property
    def has_room(self) -> bool:
        """Whether another job would begin soon: a decision should not be old when it is written."""
        return self._running < _MOST

    @property
    def running(self) -> int:
        """How many are under way."""
        return self._running

    def is_busy(self, keys: Collection[str]) -> bool:
        """Return whether a job has one of these keys."""
        return not self._busy.isdisjoint(keys)

    def start(self, job: Job) -> None:
        """Begin a job, none of whose keys may be busy."""
        self._busy.update(job.keys)
        self._running += 1
        self._pool.submit(self._run, job)

    def finish(self) -> None:
        """Hand over what came of the jobs that are done."""
        for job, result in self._taken():
            self._running -= 1
            self._busy.difference_update(job.keys)
            try:
                job.on_done(result)
            except Exception:  # noqa: BLE001 - what came of the others must be taken in
                _LOG.exception("unexpected error after a write", extra={"of": ", ".join(sorted(job.keys))})

    def close(self) -> None:
        """Wait for the jobs under way; none begins any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _taken(self) -> Iterator[tuple[Job, Any]]:
        while True:
            try:
                yield self._done.get_nowait()
            except queue.Empty:
                return

    def _run(self, job: Job) -> None:
        result: Any = None
        try:
            result = job.work()
        except Exception:  # noqa: BLE001 - one pod's failure must not end the work on the others
            _LOG.exception("unexpected error in a write", extra={"of": ", ".join(sorted(job.keys))})
        self._done.put((job, result))
        self._woken.set()
