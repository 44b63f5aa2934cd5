"""The effects of claims on the node, beside files: journalled, done, and undone once no claim needs them any more.

What is in the journal and not in an entry that holds is a leftover: of a prepare that failed or was cut short, of an
unprepare whose undoing failed. Leftovers are undone at once where that works, by the reconciler
where it did not, and before any claim is prepared on the same GPU or function of a NIC.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError, RootportError
from driver.model.devices import MigInstance
from driver.plan.effects import CreateMigDevice, Effect, GpuEffect, LendInterface, RunMpsDaemon, SetTimeSlice
from kubeletplugin.effects import (
    EffectFailedError,
    EffectHangsError,
    EffectJournal,
    ExclusiveEffector,
    NewerJournalError,
    NotLimited,
    Outcome,
)
from kubeletplugin.internal_errors import guarded
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.store import ClaimStore, OpenStore

__all__ = ["ClaimEffects", "Mended", "complete_journal"]

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """The result of :meth:`ClaimEffects.mend`.

    Attributes:
        undone: The claims whose leftovers were undone.
        outdated: The claims whose MIG device had to be made anew and is another one: to be planned anew.
        failed: What could not be done, or undone; tried again the next time.
    """

    undone: tuple[ClaimReference, ...] = ()
    outdated: tuple[ClaimReference, ...] = ()
    failed: tuple[RootportError, ...] = ()


class ClaimEffects:
    """The effects of all claims. Every call must be made while the state is open.

    Args:
        store: The state on disk, which has the journal.
        effects: Does and undoes them.
    """

    def __init__(self, store: ClaimStore, effects: ExclusiveEffector[Effect]) -> None:
        self._store = store
        self._journal = store.journal
        self._effects = effects

    def do(
        self, claim: ClaimReference, effects: Sequence[Effect], targets: Collection[str], state: OpenStore
    ) -> Mapping[Effect, MigInstance | NotLimited]:
        """Do a claim's effects, after what former claims left on its devices is undone.

        Args:
            claim: The claim.
            effects: In the order in which they are to be done.
            targets: The GPUs, and the functions of NICs, that the claim uses, whether it has effects on them or not.
            state: The open state.

        Returns:
            The MIG devices, and why VFs are not limited to their bandwidth, by the effect.

        Raises:
            NewerJournalError: A later version of Rootport has written down what the claim did.
            NodeError: A leftover cannot be undone, or an effect not be done. What was done is journalled: see
                :meth:`settle`.
        """
        self._journal.read(claim.uid)  # before anything is done: what a later version wrote is refused
        if targets := {*targets, *(effect.target for effect in effects)}:
            self._clear(claim, targets, effects, state)
        if not effects:
            return {}
        known = self._journal.read(claim.uid)  # without what was a leftover
        entry = state.entries.get(claim.uid)
        held = entry.effects if entry is not None and state.holds(entry) else ()
        begun = {*(known.effects if known else ()), *held}
        for effect in effects:
            if effect not in begun:
                self._refuse_others(claim, effect)
        self._journal.write(claim, _joined(known.effects if known else (), effects))
        self._store.step("prepare: journal written")
        made = {}
        for effect in effects:
            outcome = self._do(claim, effect)
            if outcome is not None:
                made[effect] = outcome
            self._store.step("prepare: effect done")
        return made

    def concern(self, claim_uid: str, state: OpenStore) -> bool:
        """Whether a claim's entry has effects, or a file of the journal is there for it, whatever it says.

        Raises:
            InputError: ``claim_uid`` could not come from Kubernetes.
        """
        entry = state.entries.get(claim_uid)
        return (entry is not None and bool(entry.effects)) or self._journal.has_file(claim_uid)

    def settle(self, claim: ClaimReference, state: OpenStore, *, former: Entry | None = None) -> None:
        """Undo those effects of a claim that its entry does not have, after a prepare or an unprepare, well or not.

        An effect that cannot be undone now is logged and stays in the journal: it must not keep a pod from ending.

        Args:
            claim: The claim.
            state: The open state.
            former: The claim's entry, where it was removed just now.
        """
        try:
            with guarded("unprepare", f"claim {claim}"):
                failed = self._settle(claim, state, former)
        except RootportError as error:
            failed = (error,)
        for failure in failed:
            _LOG.warning("%s; it is tried again by and by, and before a claim is prepared on that device", failure)

    def revive(self, entry: Entry) -> None:
        """Do again what may have ended by itself, an MPS daemon, and note again what is lent.

        Everything else lasts until the next boot. The kubelet asks for a prepared claim again before each pod that
        shares it, so this must be cheap: NVML is not asked whether MIG devices and time slices are still there. That an
        interface is lent must be known for certain before the pod's sandbox is made: the pod would start without it.

        Raises:
            NodeError: The daemon is not there, and could not be started; or that an interface is lent cannot be noted.
        """
        for effect in entry.effects:
            if isinstance(effect, RunMpsDaemon | LendInterface):
                self._do(entry.claim, effect)

    def restart(self, daemon: RunMpsDaemon, state: OpenStore) -> None:
        """Start an MPS daemon again, once for all claims that have it; nothing where none has it any more.

        Raises:
            NodeError: It could not be started.
        """
        claims = (entry.claim for entry in state.entries.values() if daemon in entry.effects and state.holds(entry))
        if (claim := next(claims, None)) is not None:
            self._do(claim, daemon)

    def claims(self, state: OpenStore) -> tuple[str, ...]:
        """Return the UIDs of the claims that have effects or left some.

        Raises:
            NodeError: The journal cannot be read.
        """
        with_effects = (entry.uid for entry in state.entries.values() if entry.effects and state.holds(entry))
        return tuple(sorted({*with_effects, *self._journal.all()}))

    def mend(self, claim_uid: str, state: OpenStore) -> Mended:
        """Do the effects of a prepared claim again, where they are gone; undo what another one left.

        A claim of an earlier boot is left alone: the kubelet will ask for it, or have it unprepared.

        Args:
            claim_uid: One of :meth:`claims`.
            state: The open state.
        """
        entry = state.entries.get(claim_uid)
        if entry is not None and not state.holds(entry):
            return Mended()
        undone: tuple[ClaimReference, ...] = ()
        outdated: tuple[ClaimReference, ...] = ()
        failed: list[RootportError] = []
        try:
            with guarded("reconcile", f"claim with UID {claim_uid}"):
                if entry is not None and self._redone(entry, failed):
                    state.outdate(entry)
                    outdated = (entry.claim,)
                known = self._journal.read(claim_uid)
                if known is not None and _leftovers(known.claim, known.effects, state):
                    failures = self._settle(known.claim, state, None)
                    failed += failures
                    undone = () if failures else (known.claim,)
        except RootportError as error:
            failed.append(error)
        return Mended(undone=undone, outdated=outdated, failed=tuple(failed))

    def _redone(self, entry: Entry, failed: list[RootportError]) -> bool:
        """Do an entry's effects again; return whether one of its MIG devices is now another one."""
        if not entry.effects:
            return False
        complete_journal(self._journal, entry)
        made = []
        for effect in entry.effects:
            try:
                made.append(self._do(entry.claim, effect))
            except RootportError as error:
                failed.append(error)
                if isinstance(error, EffectHangsError):
                    break
        known = {device.mig_uuid for device in entry.devices}
        return entry.state == "prepared" and any(
            outcome.uuid not in known for outcome in made if isinstance(outcome, MigInstance)
        )

    def left_on(self, claim_uid: str, state: OpenStore) -> frozenset[str]:
        """Return the GPUs, and the functions of NICs, on which other claims left something that is not undone yet.

        Args:
            claim_uid: Of the claim that is to be prepared.
            state: The open state.

        Raises:
            NodeError: The journal cannot be read.
        """
        others = (known for uid, known in self._journal.all().items() if uid != claim_uid)
        return frozenset(effect.target for known in others for effect in _leftovers(known.claim, known.effects, state))

    def _clear(
        self, claim: ClaimReference, targets: Collection[str], wanted: Sequence[Effect], state: OpenStore
    ) -> None:
        """Undo the leftovers on some GPUs and functions of NICs, but those that are wanted now.

        Another claim's MIG device is wanted by nobody: NVML refuses to destroy it while a program still computes in it,
        and that must not go on in the one that the new claim gets.
        """
        for uid, known in self._journal.all().items():
            # Of the claim itself, what its entry has and the new plan has not is a leftover as well.
            left = known.effects if uid == claim.uid else _leftovers(known.claim, known.effects, state)
            kept = [item for item in wanted if uid == claim.uid or not isinstance(item, CreateMigDevice)]
            there = tuple(effect for effect in left if effect.target in targets and effect not in kept)
            if not there:
                continue
            failed = self._undone(known.claim, there, state)
            self._keep(known.claim, [effect for effect in known.effects if effect not in there or effect in failed])
            for effect, error in failed.items():
                if isinstance(effect, SetTimeSlice) and not _sets_time_slice(wanted, effect.target):
                    # It changes whose turn comes when, and no more: no reason to keep the GPU from everybody.
                    _LOG.warning("%s; the reconciler tries it again", error)
                    continue
                raise NodeError(
                    f"claim {claim}: {_kind(effect)} {effect.target} is not free: {error.message}",
                    hint=f"{error.hint}; the kubelet retries" if error.hint else "the kubelet retries",
                )

    def _settle(self, claim: ClaimReference, state: OpenStore, former: Entry | None) -> tuple[RootportError, ...]:
        # What a former claim of this boot did is known from its entry as well, should its journal be damaged.
        of_entry = former.effects if former is not None and state.holds(former) else ()
        try:
            known = self._journal.read(claim.uid)
        except NewerJournalError as error:
            return (error, *self._undone(claim, of_entry, state).values())
        effects = _joined(known.effects if known else (), of_entry)
        left = _leftovers(claim, effects, state)
        if not left:
            return ()
        failed = self._undone(claim, left, state)
        self._keep(claim, [effect for effect in effects if effect not in left or effect in failed])
        return tuple(dict.fromkeys(failed.values()))

    def _undone(
        self, claim: ClaimReference, effects: Sequence[Effect], state: OpenStore
    ) -> dict[Effect, RootportError]:
        """Undo effects, the last one first, but those that other claims have too; returns what could not be undone."""
        needed = {
            effect
            for entry in state.entries.values()
            if entry.uid != claim.uid and state.holds(entry)
            for effect in entry.effects
        }
        failed: dict[Effect, RootportError] = {}
        hanging: RootportError | None = None
        for effect in reversed(effects):
            if effect in needed:
                continue
            if hanging is not None:
                failed[effect] = hanging  # one deadline is as long as a call of the kubelet may wait
                continue
            try:
                self._effects.undo(effect)
            except RootportError as error:
                failed[effect] = _named(f"what claim {claim} did to {effect.target} cannot be undone", error)
                if isinstance(error, EffectHangsError):
                    hanging = failed[effect]
            else:
                _LOG.info("undone", extra={"claim": claim, "effect": effect.kind, "device": effect.target})
                self._store.step("unprepare: effect undone")
        return failed

    def _refuse_others(self, claim: ClaimReference, effect: Effect) -> None:
        try:
            self._effects.refuse_others(effect)
        except RootportError as error:
            raise _named(f"claim {claim}, device {effect.target}", error) from error

    def _do(self, claim: ClaimReference, effect: Effect) -> Outcome:
        try:
            return self._effects.do(effect)
        except RootportError as error:
            failed = _named(f"claim {claim}, device {effect.target}", error)
            if not isinstance(failed, EffectHangsError):  # of which the devices' health tells
                failed = EffectFailedError(failed.message, hint=failed.hint, effect=effect, cause=error.message)
            raise failed from error

    def _keep(self, claim: ClaimReference, effects: Sequence[Effect]) -> None:
        if effects:
            self._journal.write(claim, effects)
        else:
            self._journal.remove(claim.uid)
            self._store.step("unprepare: journal removed")


def complete_journal(journal: EffectJournal, entry: Entry) -> None:
    """Write those of an entry's effects that the journal lacks: it may have been damaged or removed.

    Args:
        journal: The journal.
        entry: One of the current boot.

    Raises:
        NodeError: It cannot be read or written.
    """
    known = journal.read(entry.uid)
    written = known.effects if known else ()
    if set(entry.effects) - set(written):
        journal.write(entry.claim, _joined(written, entry.effects))


def _kind(effect: Effect) -> str:
    return "GPU" if isinstance(effect, GpuEffect) else "NIC"


def _sets_time_slice(effects: Sequence[Effect], gpu: str) -> bool:
    return any(isinstance(effect, SetTimeSlice) and effect.target == gpu for effect in effects)


def _leftovers(claim: ClaimReference, journalled: Sequence[Effect], state: OpenStore) -> tuple[Effect, ...]:
    """Return the journalled effects that the claim's entry lacks; all of them if it is of an earlier boot."""
    entry = state.entries.get(claim.uid)
    held = entry.effects if entry is not None and state.holds(entry) else ()
    return tuple(effect for effect in journalled if effect not in held)


def _joined(first: Sequence[Effect], then: Sequence[Effect]) -> tuple[Effect, ...]:
    return tuple(dict.fromkeys((*first, *then)))


def _named(subject: str, error: RootportError) -> NodeError:
    kind = EffectHangsError if isinstance(error, EffectHangsError) else NodeError
    return kind(f"{subject}: {error.message}", hint=error.hint)
