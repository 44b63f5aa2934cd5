"""Remembers recent results up to a total weight, so that no single large question fills the memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Remembered(Generic[_K, _V]):
    """Results by their inputs; the least recently used go first. Safe for several threads.

    Args:
        most: The weight of all results together.
        weight: What a result weighs, with what it was worked out of.
    """

    def __init__(self, most: int, weight: Callable[[_K, _V], int]) -> None:
        self._most = most
        self._weight = weight
        self._results: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._sum = 0
        self._lock = threading.Lock()

    def of(self, key: _K, make: Callable[[], _V]) -> _V:
        """Return the result for a key, made where it is not remembered."""
        with self._lock:
            found = self._results.get(key)
            if found is not None:
                self._results.move_to_end(key)
                return found[0]
        made = make()
        weight = self._weight(key, made)
        with self._lock:
            if key not in self._results and weight <= self._most:
                self._results[key] = made, weight
                self._sum += weight
            while self._sum > self._most:
                _, (_, weight) = self._results.popitem(last=False)
                self._sum -= weight
        return made
