"""Answers the kubelet: prepares claims from plan, host and API; unprepares them from the node's own state alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

from driver.adapters.host import HostRoot
from driver.api.allocated_claim import AllocatedClaim
from driver.api.claim_reference import ClaimReference
from driver.errors import InputError, NodeError, RootportError
from driver.model.devices import DeviceName, MigInstance
from driver.model.inventory import Inventory
from driver.plan import Decision, HeldDevice, PreparePlan
from driver.plan.effects import Effect, RunMpsDaemon
from driver.plan.host import gpus_beside, nics_beside
from driver.plan.sharing import refuse_overlap
from kubeletplugin.claims.effects import ClaimEffects, Mended
from kubeletplugin.claims.planner import ClaimPlanner
from kubeletplugin.effects import ExclusiveEffector, NotLimited
from kubeletplugin.internal_errors import guarded
from kubeletplugin.service import ClaimPrepared
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.entry_in_spec import entry_of_plan
from kubeletplugin.state.store import ClaimStore, OpenStore

__all__ = ["ClaimGoneError", "GetClaim", "Preparer"]

GetClaim: TypeAlias = Callable[[ClaimReference], AllocatedClaim]
"""Reads a claim from the API server; raises a ClaimGoneError if it is gone, and other RootportErrors."""

_LOG: Final = logging.getLogger(__name__)
_LET_OTHERS_S: Final = 0.005


class _Purpose(Enum):
    """For whom a claim is prepared."""

    KUBELET = "kubelet"
    """The kubelet, which unprepares it later."""
    KNOWN = "known"
    """A claim that has an entry, which is planned anew."""
    BINDING = "binding"
    """kube-scheduler, which binds the pod once the claim is prepared."""


class ClaimGoneError(InputError):
    """The API server says that the claim was deleted, or that its name now belongs to another claim."""


class Preparer:
    """The plugin's :class:`kubeletplugin.service.ClaimService`; safe to call from several threads.

    Args:
        store: The state on disk.
        inventory: What the node has now; raises NodeError while that is not known.
        get_claim: Reads a claim from the API server; called without the state's lock.
        host: The host's ``/``: device nodes must exist below it.
        planner: Decides how to prepare a claim.
        effects: Does to the node what the decision says.
    """

    def __init__(
        self,
        *,
        store: ClaimStore,
        inventory: Callable[[], Inventory],
        get_claim: GetClaim,
        host: HostRoot,
        planner: ClaimPlanner,
        effects: ExclusiveEffector[Effect],
    ) -> None:
        self._store = store
        self._inventory = inventory
        self._get_claim = get_claim
        self._host = host
        self._planner = planner
        self._effects = ClaimEffects(store, effects)

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        """Prepare claims; one that is prepared already gets the same answer again, without the API server.

        Args:
            claims: Which ones; every UID once.

        Returns:
            By claim UID, an entry for every claim asked for. A claim with an error has left nothing behind.
        """
        return self._prepare(claims, _Purpose.KUBELET)

    def prepare_ahead(
        self, claims: Mapping[ClaimReference, AllocatedClaim]
    ) -> Mapping[str, ClaimPrepared | RootportError]:
        """As :meth:`prepare`, before the kubelet asks: what is prepared so is planned anew when it does.

        Until then :meth:`undo_ahead` can undo it. A claim's devices may be taken back and others given to it before the
        kubelet hears of it, so its first call gets no remembered answer. What the kubelet has asked for is left to it.

        Args:
            claims: As they were just read from the API server.
        """
        answers: dict[str, ClaimPrepared | RootportError] = {}
        try:
            answers |= self._store.together(partial(self._from_claims, claims, purpose=_Purpose.BINDING))
        except RootportError as error:
            answers |= {claim.uid: error for claim in claims if claim.uid not in answers}
        return answers

    def undo_ahead(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        """As :meth:`unprepare`, but only for claims for which the kubelet has not asked meanwhile.

        Raises:
            NodeError: The state is not to be had.
        """

        def undo(state: OpenStore) -> dict[str, RootportError | None]:
            mine = [claim for claim in claims if self._store.ahead.has(claim)]
            return {claim.uid: self._removed(claim, state) for claim in mine}

        return self._store.together(undo)

    def plan_anew(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        """As :meth:`prepare`, but only for claims that have an entry: what was unprepared meanwhile stays so."""
        return self._prepare(claims, _Purpose.KNOWN)

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        """Undo the preparation of claims, without hardware and API server; an unknown claim is undone already.

        Args:
            claims: Which ones; every UID once.

        Returns:
            By claim UID, None where it is undone, or why it is not.
        """
        try:
            return self._store.together(lambda state: {claim.uid: self._removed(claim, state) for claim in claims})
        except RootportError as error:
            return {claim.uid: error for claim in claims}

    def remove(self, entries: Sequence[Entry]) -> Mapping[str, RootportError | None]:
        """As :meth:`unprepare`, but only where the entry still is what it was: else it was unprepared meanwhile.

        Raises:
            NodeError: The state is not to be had.
        """

        def remove(state: OpenStore) -> dict[str, RootportError | None]:
            same = [entry for entry in entries if state.entries.get(entry.uid) == entry]
            return {entry.uid: self._removed(entry.claim, state) for entry in same}

        return self._store.together(remove)

    def mend(self) -> Mended:
        """Do the effects of prepared claims again where they are gone, and undo those that former claims left.

        The state is let go between two claims: nobody waits for all of it.

        Raises:
            NodeError: The state is not to be had.
        """
        with self._store.opened() as state:
            claims = self._effects.claims(state)
        parts = []
        for uid in claims:
            with self._store.opened() as state:
                parts.append(self._effects.mend(uid, state))
            # Else this thread may have the lock again before one that waits for it is running.
            time.sleep(_LET_OTHERS_S)
        return Mended(
            undone=tuple(claim for part in parts for claim in part.undone),
            outdated=tuple(claim for part in parts for claim in part.outdated),
            failed=tuple(error for part in parts for error in part.failed),
        )

    def restart(self, daemon: RunMpsDaemon) -> None:
        """Start an MPS daemon that has ended, where prepared claims have it, without the API server.

        Raises:
            NodeError: The state is not to be had, or the daemon could not be started.
        """
        with guarded("restart", f"the MPS daemon of {daemon.gpu}"), self._store.opened() as state:
            self._effects.restart(daemon, state)

    def _removed(self, claim: ClaimReference, state: OpenStore) -> RootportError | None:
        former = state.entries.get(claim.uid)
        try:
            with guarded("unprepare", f"claim {claim}"):
                if not self._effects.concern(claim.uid, state):
                    state.remove(claim)
                    self._store.ahead.remove(claim)
                    return None
                state.before_long_work()
                state.remove_now(claim)
        except RootportError as error:
            return error
        # After the entry: what a crash leaves then is a leftover, never a prepared claim without its effects.
        self._effects.settle(claim, state, former=former)
        try:
            self._store.ahead.remove(claim)
        except RootportError as error:
            return error
        return None

    def _prepare(self, claims: Sequence[ClaimReference], purpose: _Purpose) -> dict[str, ClaimPrepared | RootportError]:
        answers: dict[str, ClaimPrepared | RootportError] = {}
        try:
            if known := [claim for claim in claims if self._store.may_have(claim.uid)]:
                answers |= self._store.together(partial(self._from_state, known, purpose=purpose))
            found = {claim.uid: self._read(claim, purpose) for claim in claims if claim.uid not in answers}
            answers |= {uid: item for uid, item in found.items() if isinstance(item, RootportError)}
            read = {
                claim: item for claim in claims if not isinstance(item := found.get(claim.uid), RootportError | None)
            }
            if read:
                answers |= self._store.together(partial(self._from_claims, read, purpose=purpose))
        except RootportError as error:
            answers |= {claim.uid: error for claim in claims if claim.uid not in answers}
        return answers

    def _from_state(
        self, claims: Sequence[ClaimReference], state: OpenStore, *, purpose: _Purpose
    ) -> dict[str, ClaimPrepared | RootportError]:
        """Return the answers that need no API server; the other claims must be read from it.

        What is lent to a pod is so to that one alone, and the kubelet does not say for which pod it asks: a claim that
        went over to another pod while the kubelet was down is never unprepared in between.
        """
        answers: dict[str, ClaimPrepared | RootportError] = {}
        for claim in claims:
            try:
                with guarded("prepare", f"claim {claim}"):
                    entry = state.current(claim.uid)
                    is_known = entry is not None and (purpose is _Purpose.KNOWN or not entry.lent_to)
                    if entry is not None and is_known and not self._store.ahead.has(claim):
                        answers[claim.uid] = self._again(entry, state)
            except RootportError as error:
                answers[claim.uid] = error
        return answers

    def _read(self, claim: ClaimReference, purpose: _Purpose) -> AllocatedClaim | RootportError:
        try:
            with guarded("prepare", f"claim {claim}"):
                if purpose is _Purpose.KUBELET:
                    self._store.wanted.add(claim)
                    self._store.step("prepare: begun")
                return self._get_claim(claim)
        except RootportError as error:
            return error

    def _from_claims(
        self, claims: Mapping[ClaimReference, AllocatedClaim], state: OpenStore, *, purpose: _Purpose
    ) -> dict[str, ClaimPrepared | RootportError]:
        return {
            reference.uid: self._from_claim(reference, claim, state, purpose) for reference, claim in claims.items()
        }

    def _from_claim(
        self, reference: ClaimReference, claim: AllocatedClaim, state: OpenStore, purpose: _Purpose
    ) -> ClaimPrepared | RootportError:
        try:
            with guarded("prepare", f"claim {reference}"):
                known = state.entries.get(reference.uid)
                if purpose is _Purpose.BINDING and (known is None or not state.holds(known)):
                    self._store.ahead.add(reference)  # under the lock: never beside what the kubelet has asked for
                answer = self._planned(reference, claim, state, purpose)
                if purpose is _Purpose.KUBELET:
                    self._store.ahead.remove(reference)  # from now on the kubelet unprepares it
                return answer
        except RootportError as error:
            if purpose is _Purpose.BINDING and reference.uid not in state.entries:
                with suppress(RootportError):  # a note without an entry is removed later as well
                    self._store.ahead.remove(reference)
            return error

    def _planned(
        self, reference: ClaimReference, claim: AllocatedClaim, state: OpenStore, purpose: _Purpose
    ) -> ClaimPrepared:
        # The lock was let go: another call may have prepared the claim meanwhile, or unprepared it.
        entry = state.current(reference.uid)
        is_ahead = self._store.ahead.has(reference)
        if entry is not None and not is_ahead and (not entry.lent_to or entry.lent_to == _pods(claim)):
            return self._again(entry, state)
        wanted = {
            _Purpose.KUBELET: lambda: self._store.wanted.has(reference),
            _Purpose.KNOWN: lambda: reference.uid in state.entries,
            _Purpose.BINDING: lambda: is_ahead,
        }
        if not wanted[purpose]():
            raise _unprepared(reference)
        left = self._effects.left_on(reference.uid, state)
        held = self._held(state)
        decision = self._decided(claim, state, held, left)
        # A claim of an earlier boot holds nothing: none of its containers can run. Should the kubelet want it again, it
        # is planned anew, and refused then.
        refuse_overlap(reference, decision.held_devices, held)
        targets = frozenset((*(use.gpu for use in decision.uses), *(use.vf or use.nic for use in decision.nic_uses)))
        if not (
            decision.effects
            or left & targets
            or reference.uid in state.entries
            or self._effects.concern(reference.uid, state)
        ):
            return self._added(decision, {}, state.add, state.remove)
        state.before_long_work()
        try:
            made = self._effects.do(decision.claim, decision.effects, targets, state)
            return self._added(decision, made, state.add_now, state.remove_now)
        finally:
            # Well or not: undone is what the claim's entry, if there is one now, does not have.
            self._effects.settle(reference, state)

    def _decided(
        self, claim: AllocatedClaim, state: OpenStore, held: Sequence[HeldDevice], left: frozenset[str]
    ) -> Decision:
        """Decide how to prepare a claim, with VFs on which nothing is left, as long as there are any."""
        uid = claim.metadata.uid
        inventory = self._inventory()
        former = state.entries.get(uid)
        nics = nics_beside(uid, held, former.held_devices if former else ())
        gpus = gpus_beside(uid, held)
        if left:
            try:
                return self._planner.decide(claim, inventory, nics.with_taken(left), gpus)
            except NodeError:
                _LOG.debug("claim %s: planned on what has leftovers, too", claim.reference, exc_info=True)
        return self._planner.decide(claim, inventory, nics, gpus)

    def _held(self, state: OpenStore) -> list[HeldDevice]:
        """Return what prepared claims hold; those of an earlier boot hold nothing."""
        running = (entry for entry in state.entries.values() if entry.boot_id == self._store.boot_id)
        return [held for entry in running for held in entry.held_devices]

    def _added(
        self,
        decision: Decision,
        made: Mapping[Effect, MigInstance | NotLimited],
        add: Callable[[Entry], None],
        remove: Callable[[ClaimReference], None],
    ) -> ClaimPrepared:
        """Make the plan, now that its effects are done, and have it written."""
        by_effect = ((name, made.get(effect)) for name, effect in decision.mig_effects.items())
        mig_devices = {name: outcome for name, outcome in by_effect if isinstance(outcome, MigInstance)}
        not_limited = {
            DeviceName(effect.target): outcome.reason
            for effect, outcome in made.items()
            if isinstance(outcome, NotLimited)
        }
        plan = self._planner.finish(decision, mig_devices=mig_devices, not_limited=not_limited)
        for note in plan.notes:
            _LOG.info("claim %s: %s", plan.claim, note)
        if plan.spec is None:
            remove(plan.claim)
            return ClaimPrepared(devices=())
        self._check_device_nodes(plan)
        entry = entry_of_plan(plan, plan.spec, self._store.boot_id)
        add(entry)
        return entry.answer

    def _again(self, entry: Entry, state: OpenStore) -> ClaimPrepared:
        """Return the answer for a claim that is prepared already, after its files and effects are restored."""
        if entry.effects:
            state.before_long_work()
        self._effects.revive(entry)
        state.restore(entry)
        self._store.wanted.remove(entry.claim)
        return entry.answer

    def _check_device_nodes(self, plan: PreparePlan) -> None:
        """Refuse a plan with a missing device node: the runtime's own error would name neither claim nor device."""
        host = self._host.fresh()
        devices = {
            cdi_id: f"request {', '.join(device.request_names)}, device {device.device}"
            for device in plan.devices
            for cdi_id in device.cdi_device_ids
        }
        for device in plan.spec.devices if plan.spec else ():
            for path in device.host_device_nodes:
                if host.resolve(path.lstrip("/")) is None:
                    raise NodeError(
                        f"claim {plan.claim}, {devices.get(device.id, device.name)}: the device node {path} does not "
                        "exist on the node",
                        hint="check that the device's kernel driver is loaded and that its nodes are made (for NVIDIA: "
                        "nvidia-modprobe or nvidia-persistenced); the kubelet retries",
                    )


def _pods(claim: AllocatedClaim) -> frozenset[str]:
    """Return the UIDs of the pods that a claim is reserved for."""
    consumers = claim.status.reserved_for
    return frozenset(item.uid for item in consumers if not item.api_group and item.resource == "pods")


def _unprepared(claim: ClaimReference) -> NodeError:
    return NodeError(
        f"claim {claim} was unprepared while it was being prepared",
        hint="its pod was deleted; if it was not, the kubelet retries",
    )
