"""Effects of prepared claims on the node: what does them, and the journal of what is done."""

from kubeletplugin.effects.host_effects import HostEffects
from kubeletplugin.effects.interface import EffectHangsError, Effector
from kubeletplugin.state.journal import EffectJournal, JournalEntry, NewerJournalError

__all__ = ["EffectHangsError", "EffectJournal", "Effector", "HostEffects", "JournalEntry", "NewerJournalError"]
