"""What compiled selectors remember, bounded for all of them together.

A claim may bring thousands of selectors, a cluster has tens of thousands of devices, and each selector would remember
its answers for all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

__all__ = ["Compiled", "Memory"]

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")

_MOST_IN_ALL: Final = 400_000
"""Of the weight of all memories: about 200 bytes each."""


class Memory(dict[_K, _V]):
    """Answers by what they depend on. When it is full, or all memories together are, it is emptied."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = 0
        _MEMORIES[id(self)] = self

    def put(self, key: _K, value: _V, *, most: int, weight: int = 1) -> None:
        """Remember an answer.

        Args:
            key: What it depends on.
            value: The answer.
            most: How many answers there may be.
            weight: The size of both in units of 200 bytes.
        """
        if len(self) >= most:
            self.forget()
        self[key] = value
        self.weight += weight
        _TOTAL.add(weight)

    def forget(self) -> None:
        """Empty it."""
        self.clear()
        self.weight = 0


class _Total:
    """The weight that was added since all was counted."""

    def __init__(self) -> None:
        self._weight = 0

    def add(self, weight: int) -> None:
        self._weight += weight
        if self._weight > _MOST_IN_ALL:
            self._weight = self._counted()

    def _counted(self) -> int:
        memories = [memory for reference in _MEMORIES.valuerefs() if (memory := reference()) is not None]
        weight = sum(memory.weight for memory in memories)
        if weight <= _MOST_IN_ALL // 2:
            return weight
        for memory in memories:
            memory.forget()
        return 0


_MEMORIES: Final[WeakValueDictionary[int, Memory[Any, Any]]] = WeakValueDictionary()
_TOTAL: Final = _Total()


class Compiled(Generic[_T]):
    """The latest things that were compiled, by text; bounded in number and in the length of all texts.

    Args:
        make: Compiles a text with a flag; what it raises is not remembered.
        most: How many things.
        length: How many characters of text.
    """

    def __init__(self, make: Callable[[str, bool], _T], *, most: int, length: int) -> None:
        self._make = make
        self._most = most
        self._length = length
        self._used = 0
        self._known: OrderedDict[tuple[str, bool], _T] = OrderedDict()
        self._lock = Lock()

    def __call__(self, text: str, flag: bool) -> _T:  # noqa: FBT001 - part of the key
        """What is made of a text: the same object, while it is remembered."""
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
