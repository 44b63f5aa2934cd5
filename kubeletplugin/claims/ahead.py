"""Prepares claims before their pods are bound (KEP-5007), and undoes that where a claim's devices are taken back.

What is prepared ahead is an ordinary prepared claim with a note beside it that nobody has asked for it yet. The
kubelet's first call plans it anew and removes the note; until then this looks now and then whether the claim still has
these devices. docs/design/binding-conditions.md has it all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.claim_reference import ClaimReference
from driver.api.prepared_device import device_key
from driver.errors import RootportError
from driver.model.devices import DeviceName, DeviceType, device_name
from driver.model.health import FAULTS_OF_PARTS, Effect, Fault
from driver.objects.binding_conditions import allocated_devices, awaited_pools
from driver.plan.effects import ConfigureVf, GpuEffect
from kubeletplugin.claims.preparer import ClaimGoneError, Preparer
from kubeletplugin.claims.reader import ClaimReader, allocated_claim
from kubeletplugin.effects import EffectFailedError
from kubeletplugin.internal_errors import guarded, summary
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.store import ClaimStore

__all__ = ["PrepareAhead"]

_LOG: Final = logging.getLogger(__name__)
_GIVE_UP_S: Final = 10.0
"""Another device serves the pod better than a node that tries on."""
_AGAIN_S: Final = 10.0
"""Seconds between two looks at one claim: pods are mostly bound within five."""
_HURRY_S: Final = 2.0
"""Seconds between two looks at all of them: the kubelet tries claims that are refused again and again."""
_PREPARATION_FAILED: Final = "PreparationFailed"
_REASONS: Final = {
    "CreateMigDevice": "MigDeviceNotCreated",
    "LeaveMigMode": "MigModeNotLeft",
    "ConfigureVf": "VfNotConfigured",
    "LendInterface": "InterfaceNotLent",
}


class PrepareAhead:
    """The action of a Loop. It does nothing where no claims are announced and nothing was prepared ahead.

    Args:
        node: The node's name, which is its pool's.
        store: The state on disk.
        preparer: Prepares and undoes.
        reader: Reads claims from the API server.
        announced: Returns the claims that the node is to prepare.
        on_prepared: Called with the UIDs of claims whose status is to be written.
        put_failure: Writes into a claim's status that its devices cannot be prepared: the claim as it is stored, a
            reason in one CamelCase word, and a message for a person.
        on_fault: Called with what is wrong with a device of which an effect has failed, where another may do better.
        clock: Seconds that never go back.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        node: str,
        store: ClaimStore,
        preparer: Preparer,
        reader: ClaimReader,
        announced: Callable[[], Collection[ClaimReference]],
        on_prepared: Callable[[Iterable[str]], None],
        put_failure: Callable[[JsonObject, str, str], None],
        on_fault: Callable[[Fault], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._store = store
        self._preparer = preparer
        self._reader = reader
        self._announced = announced
        self._on_prepared = on_prepared
        self._put_failure = put_failure
        self._on_fault = on_fault
        self._clock = clock
        self._looked: dict[str, float] = {}
        self._failing: dict[str, float] = {}
        self._hurry = False
        self._hurried = float("-inf")

    def look_soon(self) -> None:
        """Have the next run look at all claims that were prepared ahead: one may be in another's way.

        A run less than two seconds after such a one leaves it to the next.
        """
        self._hurry = True

    def run(self) -> None:
        """Undo what is not wanted any more, then prepare what is announced.

        Raises:
            NodeError: Something could not be done; a retry goes on.
        """
        hurry = self._hurry and self._clock() - self._hurried >= _HURRY_S
        if hurry:
            self._hurry, self._hurried = False, self._clock()
        problems: list[RootportError] = []
        announced = {claim.uid: claim for claim in self._announced()}
        noted = self._store.ahead.uids()
        self._looked = {uid: at for uid, at in self._looked.items() if uid in announced or uid in noted}
        entries = self._entries(noted, frozenset(announced))
        self._failing = {uid: at for uid, at in self._failing.items() if uid in announced and uid not in entries}
        for uid, entry in entries.items():
            if hurry or self._is_due(uid):
                self._attempt(entry.claim, problems, partial(self._check, entry))
        entries = self._entries(frozenset(), frozenset(announced))
        for uid, claim in announced.items():
            if uid not in entries and self._is_due(uid):
                self._attempt(claim, problems, partial(self._prepare, claim))
        if problems:
            raise summary(f"{len(problems)} claims could not be prepared before their pods are bound", problems)

    def _entries(self, noted: frozenset[str], announced: frozenset[str]) -> Mapping[str, Entry]:
        """Return what there is of claims that are noted, and what holds for those that are announced, whoever asked.

        Notes of which there is nothing are removed.
        """
        if not noted and not announced:
            return {}
        with self._store.opened() as state:  # a lost checkpoint is rebuilt: without, no note may go
            # Begun and not done: effects are the reconciler's. Under the lock: what another instance of the plugin is
            # preparing has a note and no entry yet, and would never be undone without its note.
            for uid in noted - state.entries.keys():
                with suppress(RootportError):  # such a note is in nobody's way, nor is a file that is no note
                    self._store.ahead.remove(ClaimReference(namespace="", name="", uid=uid))
            held = {uid: state.entries[uid] for uid in announced if uid in state.entries}
            return {uid: entry for uid, entry in held.items() if state.holds(entry)} | {
                uid: state.entries[uid] for uid in noted if uid in state.entries
            }

    def _is_due(self, uid: str) -> bool:
        return uid in self._failing or self._clock() - self._looked.get(uid, float("-inf")) >= _AGAIN_S

    def _attempt(self, claim: ClaimReference, problems: list[RootportError], act: Callable[[], None]) -> None:
        self._looked[claim.uid] = self._clock()
        try:
            with guarded("prepare ahead", f"claim {claim}"):
                act()
        except RootportError as error:
            self._looked.pop(claim.uid, None)  # the next run tries it again
            problems.append(error)

    def _check(self, entry: Entry) -> None:
        """Have an entry's status written where it is missing; undo one whose claim has other devices by now, or none.

        Only the kubelet knows when what it has asked for is free: such an entry stays, whatever the claim has.
        """
        try:
            stored = self._reader.stored(entry.claim)
        except ClaimGoneError:
            stored = {}
        holds = entry.boot_id == self._store.boot_id
        keys = {(device.pool, str(device.device), device.share_id or "") for device in entry.devices}
        if holds and keys == _allocated(stored, self._node):
            if self._node in awaited_pools(stored):  # its status was lost: it was given the same devices again
                self._on_prepared([entry.uid])
            return
        answers = self._preparer.undo_ahead([entry.claim])
        if entry.uid not in answers:
            return
        error = answers[entry.uid]
        if error is not None:
            raise error
        _LOG.info("undone: what was prepared before the pod was bound", extra={"claim": entry.claim})
        self._looked.pop(entry.uid, None)  # it may have other devices of this node

    def _prepare(self, claim: ClaimReference) -> None:
        try:
            stored = self._reader.stored(claim)
        except ClaimGoneError:
            return
        if self._node not in awaited_pools(stored):
            self._failing.pop(claim.uid, None)
            return
        try:
            answer = self._preparer.prepare_ahead({claim: allocated_claim(claim, stored)})[claim.uid]
        except RootportError as error:  # no claim that this version understands
            answer = error
        if not isinstance(answer, RootportError):
            self._failing.pop(claim.uid, None)
            _LOG.info("prepared before the pod is bound", extra={"claim": claim})
            self._on_prepared([claim.uid])
            return
        since = self._failing.setdefault(claim.uid, self._clock())
        if answer.retry_helps and self._clock() - since < _GIVE_UP_S:
            raise answer
        self._give_up(claim, stored, answer)
        del self._failing[claim.uid]

    def _give_up(self, claim: ClaimReference, stored: JsonObject, error: RootportError) -> None:
        reason = _PREPARATION_FAILED
        if isinstance(error, EffectFailedError):
            reason = _REASONS.get(error.effect.kind, _PREPARATION_FAILED)
            device = _whole_device(error)
            if device is not None and reason in FAULTS_OF_PARTS and not _is_refused(error):
                # Before the claim's status: kube-scheduler is not to choose the device again.
                self._on_fault(
                    Fault(
                        device=device,
                        reason=reason,
                        effect=Effect.NO_SCHEDULE,
                        since=datetime.now(UTC),
                        message=f"{error.cause}{f' ({error.hint})' if error.hint else ''}; it is offered again later",
                    )
                )
        self._put_failure(stored, reason, str(error))
        _LOG.warning("given up before the pod was bound", extra={"claim": claim, "reason": reason, "error": str(error)})


def _whole_device(error: EffectFailedError) -> DeviceName | None:
    effect = error.effect
    if isinstance(effect, GpuEffect):
        return DeviceName(effect.gpu)
    return device_name(DeviceType.RDMA, effect.pf_address) if isinstance(effect, ConfigureVf) else None


def _is_refused(error: EffectFailedError) -> bool:
    """Whether a PF's driver did not take what the claim asks for: the next PF's would not either."""
    if not isinstance(error.effect, ConfigureVf):
        return False
    from kubeletplugin.network.netdev.programs import ProgramFailedError  # noqa: PLC0415 - it is loaded where VFs are

    return isinstance(error.__cause__, ProgramFailedError)


def _allocated(claim: JsonObject, pool: str) -> frozenset[tuple[str, str, str]]:
    results = (item for item in allocated_devices(claim) if item["driver"] == DRIVER_NAME and item["pool"] == pool)
    return frozenset(map(device_key, results))
