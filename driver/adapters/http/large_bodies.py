"""Of large bodies one is read to its end at a time; the others wait where they are, on the network."""

from __future__ import annotations

from typing import Final

from driver.adapters.http.connection import Connection, Phase
from driver.adapters.http.fair_queue import FairQueue

__all__ = ["LargeBodies"]

_READ_S: Final = 0.5  # how long one may take to come while others wait for its place
_WAIT_S: Final = 2.0


class LargeBodies:
    """Who has the place for large bodies, and who waits for it. The server's loop alone uses it."""

    def __init__(self) -> None:
        self._holder: Connection | None = None
        self._since = 0.0
        self._waiting: FairQueue[Connection] = FairQueue()

    def take(self, connection: Connection, now: float) -> bool:
        """Whether it has the place now; if not, it waits for it from now on."""
        if self._holder in {None, connection}:
            if self._holder is None:
                self._give(connection, now)
            return True
        connection.phase = Phase.PAUSED
        connection.since = now
        self._waiting.put(connection.source, connection)
        return False

    def leave(self, connection: Connection, now: float) -> Connection | None:
        """It needs the place no more, wherever it is; who has got the place by that, if anybody."""
        self._waiting.remove(connection.source, connection)
        if self._holder is not connection:
            return None
        self._holder = None
        if not self._waiting:
            return None
        following = self._waiting.get()
        self._give(following, now)
        return following

    def has_waited_too_long(self, connection: Connection, now: float) -> bool:
        """Whether it is to be told to come again."""
        return connection.phase is Phase.PAUSED and now > connection.since + _WAIT_S

    def too_slow(self, now: float) -> Connection | None:
        """Who has the place, where others wait for it and its client takes its time."""
        holder = self._holder
        is_slow = holder is not None and holder.phase is Phase.READING and now > self._since + _READ_S
        return holder if is_slow and self._waiting else None

    def _give(self, connection: Connection, now: float) -> None:
        self._holder = connection
        self._since = connection.since = now
        connection.phase = Phase.READING
