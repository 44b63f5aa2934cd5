"""The interface of effectors: they do and undo the effects of prepared claims (:mod:`driver.plan.effects`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from driver.errors import NodeError
from driver.model.devices import MigInstance
from driver.plan.effects import Effect

__all__ = ["EffectFailedError", "EffectHangsError", "Effector", "ExclusiveEffector", "NotLimited", "Outcome"]

_Effect_contra = TypeVar("_Effect_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLimited:
    """A VF could not be limited to its bandwidth (:attr:`driver.plan.effects.ConfigureVf.rate_limit`).

    Attributes:
        reason: Why not, for a person.
    """

    reason: str


Outcome: TypeAlias = MigInstance | NotLimited | None
"""What doing an effect has led to, where there is something to say about it."""


class EffectHangsError(NodeError):
    """An effect has not ended within its time: it may end later, or never. To retry at once does not help."""


class EffectFailedError(NodeError):
    """An effect could not be done.

    Attributes:
        effect: Which one.
        cause: Why, without the claim.
    """

    def __init__(self, message: str, *, hint: str | None, effect: Effect, cause: str) -> None:
        super().__init__(message, hint=hint)
        self.effect = effect
        self.cause = cause


class Effector(Protocol[_Effect_contra]):
    """Does and undoes effects of one kind, or of several. Called under the lock of the plugin's state, one at a time.

    Both methods may be called again at any time, and after a crash at any instruction of theirs.
    """

    def do(self, effect: _Effect_contra) -> Outcome:
        """Do an effect; one that is there already is left as it is.

        Returns:
            The MIG device, of an effect that makes one; why a VF is not limited to its bandwidth; else None.

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
