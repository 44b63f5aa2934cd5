"""The connections that are open, and which of them to close when there are too many or they hold too much memory.

The API server, the kubelet and Prometheus send their requests within milliseconds, so theirs is neither the oldest
connection nor are theirs the most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from driver.adapters.http.connection import Connection, Phase

__all__ = ["OpenConnections"]

# Whose client has to act, or whose request no thread works on yet.
_MAY_BE_CLOSED: Final = frozenset({Phase.READING, Phase.PAUSED, Phase.QUEUED, Phase.WRITING, Phase.LINGERING})


class OpenConnections:
    """All open connections, by client. A connection that sends a stream counts apart and is never closed for others.

    Only the server's loop uses it.

    Attributes:
        streams: The connections that send a stream.
    """

    def __init__(self) -> None:
        self.streams: set[Connection] = set()
        self._plain: dict[Connection, None] = {}  # in the order in which they came
        self._by_client: dict[str, dict[Connection, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._plain or self.streams)

    def __iter__(self) -> Iterator[Connection]:
        """Iterate over a copy of all of them, streams last."""
        return iter((*self._plain, *self.streams))

    def add(self, connection: Connection) -> None:
        """Add a connection, or one whose stream has ended."""
        self.streams.discard(connection)
        self._plain[connection] = None
        self._by_client.setdefault(connection.client, {})[connection] = None

    def move_to_streams(self, connection: Connection) -> None:
        """Count the connection as a stream from now on."""
        self.remove(connection)
        self.streams.add(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection, if it is known."""
        self.streams.discard(connection)
        self._plain.pop(connection, None)
        of_client = self._by_client.get(connection.client, {})
        of_client.pop(connection, None)
        if not of_client:
            self._by_client.pop(connection.client, None)

    def count(self, client: str | None = None) -> int:
        """Return how many connections there are, or how many of one client; streams do not count."""
        return len(self._plain if client is None else self._by_client.get(client, {}))

    def oldest(self, client: str | None = None) -> Connection | None:
        """Return the connection to close so that another can be accepted; None where none may be closed.

        Args:
            client: Choose among this client's connections; without it, among those of the client that has the most.
        """
        connections: Collection[Connection] = self._plain if client is None else self._by_client.get(client, {})

        def order(each: Connection) -> tuple[int, bool, bool, float]:
            is_answered, is_queued = each.phase is Phase.LINGERING, each.phase is Phase.QUEUED
            return (-self.count(each.client), not is_answered, is_queued, each.accepted_at)

        return min((each for each in connections if each.phase in _MAY_BE_CLOSED), key=order, default=None)

    def over_memory(self, limit: int, *, spared: Connection) -> tuple[Connection, ...]:
        """Return the connections to close so that what is buffered stays within its limit, as far as possible.

        Args:
            limit: In bytes, for all connections that send no stream.
            spared: A connection that is not closed: its bytes have just arrived, or were just made for it.
        """
        sizes = {connection: connection.buffered_bytes for connection in self._plain}
        excess = sum(sizes.values()) - limit
        if excess <= 0:
            return ()
        of_client: Counter[str] = Counter()
        for connection, size in sizes.items():
            of_client[connection.client] += size
        left = {each for each, size in sizes.items() if size and each is not spared and each.phase in _MAY_BE_CLOSED}
        victims: list[Connection] = []
        while excess > 0 and left:
            victim = min(left, key=lambda each: (-of_client[each.client], each.accepted_at))
            left.remove(victim)
            excess -= sizes[victim]
            of_client[victim.client] -= sizes[victim]
            victims.append(victim)
        return tuple(victims)
