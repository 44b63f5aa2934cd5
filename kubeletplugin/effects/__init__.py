"""Effects of prepared claims on the node, beside files: MIG devices, time slices, MPS daemons, and those on NICs.

A new sharing strategy that changes the node adds an effect to :mod:`driver.plan.effects` and an :class:`Effector` here.
Each effect is journalled before it is begun and forgotten after it is undone (:mod:`kubeletplugin.state.journal`).
"""

from kubeletplugin.effects.effector import (
    EffectFailedError,
    EffectHangsError,
    Effector,
    ExclusiveEffector,
    NotLimited,
    Outcome,
)
from kubeletplugin.effects.host_effects import HostEffects
from kubeletplugin.state.journal import EffectJournal
from kubeletplugin.state.journal_format import JournalEntry, NewerJournalError

__all__ = [
    "EffectFailedError",
    "EffectHangsError",
    "EffectJournal",
    "Effector",
    "ExclusiveEffector",
    "HostEffects",
    "JournalEntry",
    "NewerJournalError",
    "NotLimited",
    "Outcome",
]
