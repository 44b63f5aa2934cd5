"""An effector that is made when it is first needed: most nodes lend no interface, and its modules cost memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from driver.model.devices import MigInstance
from kubeletplugin.effects.interface import Effector

__all__ = ["LateEffector"]

_Effect = TypeVar("_Effect")


class LateEffector(Generic[_Effect]):
    """An :class:`Effector` that stands for another one; safe to use from several threads.

    Args:
        make: Makes that one, with the imports that it takes; called once.
    """

    def __init__(self, make: Callable[[], Effector[_Effect]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Effector[_Effect] | None = None

    def refuse_others(self, effect: _Effect) -> None:
        """As :meth:`Effector.refuse_others`."""
        self._effector().refuse_others(effect)

    def do(self, effect: _Effect) -> MigInstance | None:
        """As :meth:`Effector.do`."""
        return self._effector().do(effect)

    def undo(self, effect: _Effect) -> None:
        """As :meth:`Effector.undo`."""
        self._effector().undo(effect)

    def _effector(self) -> Effector[_Effect]:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made
