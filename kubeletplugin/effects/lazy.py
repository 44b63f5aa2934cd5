"""Effectors that are made when they are first needed: most nodes lend no interface, and its modules cost memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from kubeletplugin.effects.effector import Effector, ExclusiveEffector, Outcome

__all__ = ["LazyEffector", "LazyExclusiveEffector"]

_Effect = TypeVar("_Effect")
_Made = TypeVar("_Made")


class _Late(Generic[_Made]):
    def __init__(self, make: Callable[[], _Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: _Made | None = None

    def __call__(self) -> _Made:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


class LazyEffector(Generic[_Effect]):
    """An :class:`Effector` that makes another one and delegates to it; safe to use from several threads.

    Args:
        make: Makes that one, with the imports that it takes; called once.
    """

    def __init__(self, make: Callable[[], Effector[_Effect]]) -> None:
        self._effector = _Late(make)

    def do(self, effect: _Effect) -> Outcome:
        """As :meth:`Effector.do`."""
        return self._effector().do(effect)

    def undo(self, effect: _Effect) -> None:
        """As :meth:`Effector.undo`."""
        self._effector().undo(effect)


class LazyExclusiveEffector(LazyEffector[_Effect]):
    """A :class:`LazyEffector` for an :class:`ExclusiveEffector`.

    Args:
        make: As for :class:`LazyEffector`.
    """

    def __init__(self, make: Callable[[], ExclusiveEffector[_Effect]]) -> None:
        self._exclusive = _Late(make)
        super().__init__(self._exclusive)

    def refuse_others(self, effect: _Effect) -> None:
        """As :meth:`ExclusiveEffector.refuse_others`."""
        self._exclusive().refuse_others(effect)
