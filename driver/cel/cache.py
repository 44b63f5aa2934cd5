"""Caches answers of compiled selectors, bounded for all of them together, and the compiled selectors themselves.

A claim may bring thousands of selectors, a cluster has tens of thousands of devices, and each selector would cache its
answers for all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

__all__ = ["AnswerCache", "CompileCache"]

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")

_MOST_IN_ALL: Final = 400_000
"""The largest weight of all caches together, in units of about 200 bytes."""


class AnswerCache(dict[_K, _V]):
    """Caches answers by what they depend on. It is emptied when it, or all caches together, are full."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = 0
        _CACHES[id(self)] = self

    def put(self, key: _K, value: _V, *, most: int, weight: int = 1) -> None:
        """Cache an answer.

        Args:
            key: What the answer depends on.
            value: The answer.
            most: The most answers.
            weight: The size of both in units of 200 bytes.
        """
        if len(self) >= most:
            self.reset()
        self[key] = value
        self.weight += weight
        _TOTAL.add(weight)

    def reset(self) -> None:
        """Empty the cache."""
        self.clear()
        self.weight = 0


class _Total:
    """Sums the weight added since all caches were counted."""

    def __init__(self) -> None:
        self._weight = 0

    def add(self, weight: int) -> None:
        self._weight += weight
        if self._weight > _MOST_IN_ALL:
            self._weight = self._counted()

    def _counted(self) -> int:
        caches = [cache for reference in _CACHES.valuerefs() if (cache := reference()) is not None]
        weight = sum(cache.weight for cache in caches)
        if weight <= _MOST_IN_ALL // 2:
            return weight
        for cache in caches:
            cache.reset()
        return 0


_CACHES: Final[WeakValueDictionary[int, AnswerCache[Any, Any]]] = WeakValueDictionary()
_TOTAL: Final = _Total()


class CompileCache(Generic[_T]):
    """Caches the latest compiled texts, bounded in number and in the length of all texts.

    Args:
        make: Compiles a text with a flag; its errors are not cached.
        most: The most compiled texts.
        length: The most characters of all texts.
    """

    def __init__(self, make: Callable[[str, bool], _T], *, most: int, length: int) -> None:
        self._make = make
        self._most = most
        self._length = length
        self._used = 0
        self._known: OrderedDict[tuple[str, bool], _T] = OrderedDict()
        self._lock = Lock()

    def __call__(self, text: str, flag: bool) -> _T:  # noqa: FBT001 - part of the key
        """Return the compiled text: the same object, while it is cached."""
        key = (text, flag)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        made = self._make(text, flag)
        with self._lock:
            known = self._known.setdefault(key, made)
            if known is made:
                self._used += len(text)
            while len(self._known) > self._most or (self._used > self._length and len(self._known) > 1):
                (gone, _), _ = self._known.popitem(last=False)
                self._used -= len(gone)
        return known
