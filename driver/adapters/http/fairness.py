"""Shares the server's work out among its clients: a queue that serves them in turn, and what each has used lately."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

__all__ = ["FairQueue", "RecentUsage"]

_T = TypeVar("_T")

_HALF_LIFE_S: Final = 1.0
_MAX_CLIENTS: Final = 1024


class FairQueue(Generic[_T]):
    """Serves clients round-robin, and the items of one client first in, first out.

    Not thread-safe: only the server's loop uses it.
    """

    def __init__(self) -> None:
        self._by_client: OrderedDict[str, dict[_T, None]] = OrderedDict()  # the client to serve next comes first

    def __bool__(self) -> bool:
        return bool(self._by_client)

    def put(self, client: str, item: _T) -> None:
        """Add an item; a client that has none in the queue is served after all others."""
        self._by_client.setdefault(client, {})[item] = None

    def get(self) -> _T:
        """Take the next item out.

        Raises:
            KeyError: The queue is empty.
        """
        client, items = self._by_client.popitem(last=False)
        item = next(iter(items))
        del items[item]
        if items:
            self._by_client[client] = items
        return item

    def remove(self, client: str, item: _T) -> None:
        """Take this item out, if it is in the queue."""
        items = self._by_client.get(client, {})
        items.pop(item, None)
        if not items:
            self._by_client.pop(client, None)


class RecentUsage:
    """Sums what each client has used, halved with every second that passes. Keeps a bounded number of clients.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._sums: OrderedDict[str, tuple[float, float]] = OrderedDict()  # with the time at which the sum was right

    def of(self, client: str, now: float) -> float:
        """Return what the client has used lately.

        Args:
            client: The client's name.
            now: Monotonic seconds.
        """
        amount, at = self._sums.get(client, (0.0, now))
        return float(amount * 0.5 ** ((now - at) / _HALF_LIFE_S))

    def add(self, client: str, amount: float, now: float) -> None:
        """Add to what the client has used."""
        self._sums[client] = (self.of(client, now) + amount, now)
        self._sums.move_to_end(client)
        if len(self._sums) > _MAX_CLIENTS:
            self._sums.popitem(last=False)
