"""A pool of threads that work on requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from driver.adapters.http.connection import Connection, Phase
from driver.adapters.http.fairness import FairQueue

__all__ = ["WorkerPool"]


class WorkerPool:
    """Starts threads when they are first needed, up to a bound, and serves clients round-robin.

    Only the server's loop calls its methods.

    Args:
        name: The name of the threads.
        threads: How many requests are worked on at once.
        work: Works on the request of a connection, in a thread of the pool. Returns whether the thread goes on with
            other requests: one that sends a stream leaves the pool.
    """

    def __init__(self, name: str, threads: int, work: Callable[[WorkerPool, Connection], bool]) -> None:
        self._name = name
        self._free = threads
        self._work = work
        self._idle = 0
        self._waiting: FairQueue[Connection] = FairQueue()
        self._started: SimpleQueue[Connection | None] = SimpleQueue()

    def submit(self, connection: Connection) -> None:
        """Queue a connection's request until a thread is free and other clients have been served.

        Raises:
            RuntimeError: No thread can be started.
        """
        connection.phase = Phase.QUEUED
        self._waiting.put(connection.client, connection)
        self._dispatch()

    def cancel(self, connection: Connection) -> None:
        """Forget a request that waits."""
        self._waiting.remove(connection.client, connection)

    def release(self, *, is_idle: bool) -> None:
        """Let one more request be worked on.

        Args:
            is_idle: Whether the thread that worked on the last one waits for another.

        Raises:
            RuntimeError: No thread can be started.
        """
        self._free += 1
        self._idle += is_idle
        self._dispatch()

    def stop(self) -> None:
        """End the threads that wait for work."""
        for _ in range(self._idle):
            self._started.put(None)

    def _dispatch(self) -> None:
        while self._free and self._waiting:
            if not self._idle:
                # May fail, where the pod has as many as it is allowed: then nothing is taken out of the queue.
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._idle += 1
            connection = self._waiting.get()
            connection.phase = Phase.WORKING
            self._free -= 1
            self._idle -= 1
            self._started.put(connection)

    def _run(self) -> None:
        while (connection := self._started.get()) is not None and self._work(self, connection):
            pass
