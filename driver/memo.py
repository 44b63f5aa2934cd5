"""Remembers results up to a bound, for callers whose inputs come from outside and have no end."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["IdMemo", "Memo"]

K = TypeVar("K", bound=Hashable)
O = TypeVar("O", bound=object)  # noqa: E741 - an object
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Remembers one result for each key. Once it is full it forgets everything, which costs no bookkeeping on a hit.

    Not thread-safe.

    Args:
        limit: The most results to remember; at least 1.
    """

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the result for ``key``, calling ``make`` if it is not remembered."""
        try:
            return self._known[key]
        except KeyError:
            pass
        value = make()
        if len(self._known) >= self._limit:
            self._known.clear()
        self._known[key] = value
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


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
        return self._memo.of(id(key), lambda: (key, make()))[1]

    def clear(self) -> None:
        """Forget everything."""
        self._memo.clear()
