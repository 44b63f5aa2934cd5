"""Remembers results up to a bound, for callers whose inputs come from outside and have no end."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["IdMemo", "Memo"]

K = TypeVar("K", bound=Hashable)
O = TypeVar("O", bound=object)  # noqa: E741 - an object
V = TypeVar("V")


class Memo(dict[K, V]):
    """Remembers one result for each key. Once it is full it forgets everything, which costs no bookkeeping on a hit.

    A dict, so that a hit costs no more than one does; what is stored by :meth:`put` or :meth:`of` is bounded. Not
    thread-safe.

    Args:
        limit: The most results to remember; at least 1.
    """

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        self._limit = limit  # dict.__init__ has nothing to do, and of some memos there are thousands

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the result for ``key``, calling ``make`` if it is not remembered."""
        try:
            return self[key]
        except KeyError:
            pass
        return self.put(key, make())

    def put(self, key: K, value: V) -> V:
        """Remember the result for ``key``, and return it. For hot loops, which find it by ``get``."""
        if len(self) >= self._limit and key not in self:
            self.clear()
        self[key] = value
        return value


class IdMemo(Generic[O, V]):
    """A :class:`Memo` whose keys are objects, compared by identity.

    It keeps the objects themselves, so that no other object can get the id of one that was collected.

    Args:
        limit: The most results to remember; at least 1.
    """

    __slots__ = ("_memo",)

    def __init__(self, limit: int) -> None:
        self._memo: Memo[int, tuple[O, V]] = Memo(limit)

    def __len__(self) -> int:
        return len(self._memo)

    def of(self, key: O, make: Callable[[], V]) -> V:
        """Return the result for the object, calling ``make`` if it is not remembered."""
        known = self._memo.get(id(key))
        return known[1] if known is not None else self.put(key, make())

    def get(self, key: O) -> V | None:
        """Return the result for the object; None if it is not remembered."""
        known = self._memo.get(id(key))
        return known[1] if known is not None else None

    def put(self, key: O, value: V) -> V:
        """Remember the result for the object, and return it. For hot loops, which find it by :meth:`get`."""
        self._memo.put(id(key), (key, value))
        return value
