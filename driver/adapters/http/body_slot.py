"""Reads one large request body at a time; the other clients' bytes wait in the network."""

from __future__ import annotations

from typing import Final

from driver.adapters.http.connection import Connection, Phase
from driver.adapters.http.fairness import FairQueue

__all__ = ["LargeBodySlot"]

_READ_S: Final = 0.5  # how long a body may take to arrive while others wait
_WAIT_S: Final = 2.0


class LargeBodySlot:
    """The one slot for large bodies: its holder, and the connections that wait for it.

    Only the server's loop uses it.
    """

    def __init__(self) -> None:
        self._holder: Connection | None = None
        self._since = 0.0
        self._waiting: FairQueue[Connection] = FairQueue()

    def acquire(self, connection: Connection, now: float) -> bool:
        """Return whether the connection has the slot; if not, it waits for it from now on."""
        if self._holder in {None, connection}:
            if self._holder is None:
                self._assign(connection, now)
            return True
        connection.phase = Phase.PAUSED
        connection.last_activity = now
        self._waiting.put(connection.client, connection)
        return False

    def release(self, connection: Connection, now: float) -> Connection | None:
        """Take the connection out, whether it has the slot, waits for it or neither.

        Returns:
            The connection that has got the slot by that, if any.
        """
        self._waiting.remove(connection.client, connection)
        if self._holder is not connection:
            return None
        self._holder = None
        if not self._waiting:
            return None
        following = self._waiting.get()
        self._assign(following, now)
        return following

    def has_timed_out(self, connection: Connection, now: float) -> bool:
        """Whether the connection has waited for the slot as long as it may."""
        return connection.phase is Phase.PAUSED and now > connection.last_activity + _WAIT_S

    def slow_holder(self, now: float) -> Connection | None:
        """Return the holder, if its body takes too long to arrive while others wait."""
        holder = self._holder
        is_slow = holder is not None and holder.phase is Phase.READING and now > self._since + _READ_S
        return holder if is_slow and self._waiting else None

    def _assign(self, connection: Connection, now: float) -> None:
        self._holder = connection
        self._since = connection.last_activity = now
        connection.phase = Phase.READING
