"""The interface of effectors: they do and undo the effects of prepared claims (:mod:`driver.plan.effects`)."""

from __future__ import annotations

from typing import Protocol, TypeVar

from driver.errors import NodeError
from driver.model.devices import MigInstance

__all__ = ["EffectHangsError", "Effector", "ExclusiveEffector"]

_Effect_contra = TypeVar("_Effect_contra", contravariant=True)


class EffectHangsError(NodeError):
    """An effect has not ended within its time: it may end later, or never. To retry at once does not help."""


class Effector(Protocol[_Effect_contra]):
    """Does and undoes effects of one kind, or of several. Called under the lock of the plugin's state, one at a time.

    Both methods may be called again at any time, and after a crash at any instruction of theirs.
    """

    def do(self, effect: _Effect_contra) -> MigInstance | None:
        """Do an effect; one that is there already is left as it is.

        Returns:
            The MIG device, of an effect that makes one; else None.

        Raises:
            NodeError: What is in the way, and what helps. Something may have been done: it is undone by :meth:`undo`.
        """
        ...

    def undo(self, effect: _Effect_contra) -> None:
        """Undo an effect; one that was never done, or whose device is no longer there, is undone already.

        Raises:
            NodeError: What is in the way, and what helps.
        """
        ...


class ExclusiveEffector(Effector[_Effect_contra], Protocol[_Effect_contra]):
    """An :class:`Effector` of what somebody else could have made as well."""

    def refuse_others(self, effect: _Effect_contra) -> None:
        """Refuse an effect if somebody else has made the same already, which undoing it would destroy.

        Called before an effect is journalled for the first time.

        Raises:
            NodeError: Somebody else has; or what is in the way.
        """
        ...
