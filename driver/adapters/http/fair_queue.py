"""A queue in which each source has its turn, however much another one has put in."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

_T = TypeVar("_T")


class FairQueue(Generic[_T]):
    """Gives one item of each source in turn; the items of one source in the order in which they came.

    Not safe for threads: the server's loop alone uses it.
    """

    def __init__(self) -> None:
        self._by_source: OrderedDict[str, dict[_T, None]] = OrderedDict()  # whose turn is next comes first

    def __bool__(self) -> bool:
        return bool(self._by_source)

    def put(self, source: str, item: _T) -> None:
        """Add an item; a source that has none in the queue gets its turn after all others."""
        self._by_source.setdefault(source, {})[item] = None

    def get(self) -> _T:
        """Take the next item.

        Raises:
            KeyError: There is none.
        """
        source, items = self._by_source.popitem(last=False)
        item = next(iter(items))
        del items[item]
        if items:
            self._by_source[source] = items
        return item

    def remove(self, source: str, item: _T) -> None:
        """Take this item out, where it is in the queue."""
        items = self._by_source.get(source, {})
        items.pop(item, None)
        if not items:
            self._by_source.pop(source, None)
