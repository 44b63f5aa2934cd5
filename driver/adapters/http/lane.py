"""Threads that work on requests: a few of them, for some of the paths."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from driver.adapters.http.connection import Connection, Phase
from driver.adapters.http.fair_queue import FairQueue

__all__ = ["Lane"]


class Lane:
    """At most so many threads, started when they are first needed. Each source's requests have their turn.

    The server's loop alone calls its methods.

    Args:
        name: Of the threads.
        threads: How many requests are worked on at once.
        work: Works on the request of a connection, in a thread of the lane; whether the thread goes on with others,
            which it does not where it was given to a stream.
    """

    def __init__(self, name: str, threads: int, work: Callable[[Lane, Connection], bool]) -> None:
        self._name = name
        self._free = threads
        self._work = work
        self._idle = 0
        self._waiting: FairQueue[Connection] = FairQueue()
        self._given: SimpleQueue[Connection | None] = SimpleQueue()

    def put(self, connection: Connection) -> None:
        """Have its request worked on, as soon as a thread is free and the others have had their turn.

        Raises:
            RuntimeError: No thread can be started.
        """
        connection.phase = Phase.QUEUED
        self._waiting.put(connection.source, connection)
        self._give()

    def remove(self, connection: Connection) -> None:
        """Forget a request that waits."""
        self._waiting.remove(connection.source, connection)

    def give_back(self, *, is_idle: bool) -> None:
        """One more request may be worked on.

        Args:
            is_idle: Whether the thread that worked on the last one waits for the next.

        Raises:
            RuntimeError: No thread can be started.
        """
        self._free += 1
        self._idle += is_idle
        self._give()

    def stop(self) -> None:
        """End the threads that wait for work."""
        for _ in range(self._idle):
            self._given.put(None)

    def _give(self) -> None:
        while self._free and self._waiting:
            if not self._idle:
                # May fail, where the pod has as many as it is allowed: then nothing is taken out of the queue.
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._idle += 1
            connection = self._waiting.get()
            connection.phase = Phase.WORKING
            self._free -= 1
            self._idle -= 1
            self._given.put(connection)

    def _run(self) -> None:
        while (connection := self._given.get()) is not None and self._work(self, connection):
            pass
