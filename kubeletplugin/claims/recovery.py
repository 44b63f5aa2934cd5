"""Finishes or undoes at the plugin's start what a crash, a reboot or a person left; later, looks for deleted claims.

At the start nothing but the state on disk is needed: no hardware, no API server, so a plugin always starts. What claims
do to GPUs is mended by the reconciler, whose first look is right after the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from driver.adapters.files import cdi_files
from driver.adapters.files.durable_files import file_holds, os_errors_as_node_errors, remove_temporary_files
from driver.api.allocated_claim import AllocatedClaim
from driver.api.claim_reference import ClaimReference
from driver.errors import RootportError
from kubeletplugin.claims.effects import Mended, complete_journal
from kubeletplugin.claims.preparer import ClaimGoneError, Preparer
from kubeletplugin.internal_errors import guarded
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.metadata_files import claim_folders, remove_metadata, remove_metadata_leftovers
from kubeletplugin.state.store import CHECKPOINT, ClaimStore, OpenStore

__all__ = ["ReconcileReport", "Reconciler", "RecoveryReport", "recover"]

_NOTES_KEPT_S: Final = 3600.0
"""Seconds. The kubelet gives up a call after 45 s: after this no call goes on with what it noted."""


@dataclass(slots=True, kw_only=True)
class RecoveryReport:
    """The result of :func:`recover`, for the log.

    Attributes:
        entries: How many claims are prepared.
        rebuilt: The claims whose entries come from their CDI specs; they are planned anew from the API.
        set_aside: Where a corrupt checkpoint is kept.
        restored: The claims whose files were missing, or had another content, and were written again.
        removed: Files and folders without an entry, and temporary files, that were removed.
        left: The claims that have no entry and left something on the node's devices: undone by the reconciler.
        forgotten: The claims that did something to the node's devices in an earlier boot, which nothing of it outlived.
        problems: What could not be done; tried again at the next start, or with the claim's next call.
    """

    entries: int = 0
    rebuilt: tuple[ClaimReference, ...] = ()
    set_aside: Path | None = None
    restored: list[ClaimReference] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    left: list[ClaimReference] = field(default_factory=list)
    forgotten: list[ClaimReference] = field(default_factory=list)
    problems: list[RootportError] = field(default_factory=list)

    @contextmanager
    def noting(self, subject: object = "the plugin's state") -> Iterator[None]:
        """Note an error of the block as a problem: it must not stop the rest of the recovery, or the start."""
        try:
            with guarded("recover", subject):
                yield
        except RootportError as error:
            self.problems.append(error)

    def __str__(self) -> str:
        parts = [f"{self.entries} prepared claims"]
        if self.set_aside:
            parts.append(f"corrupt checkpoint kept as {self.set_aside}")
        if self.rebuilt:
            parts.append(f"rebuilt from CDI specs: {', '.join(map(str, self.rebuilt))}")
        if self.restored:
            parts.append(f"files restored: {', '.join(map(str, self.restored))}")
        if self.removed:
            parts.append(f"removed: {', '.join(map(str, self.removed))}")
        if self.left:
            parts.append(f"left on the node's devices, to be undone: {', '.join(map(str, self.left))}")
        if self.forgotten:
            parts.append(f"of an earlier boot, and forgotten: effects of {', '.join(map(str, self.forgotten))}")
        parts += [f"problem: {problem}" for problem in self.problems]
        return "; ".join(parts)


def recover(store: ClaimStore) -> RecoveryReport:
    """Make the files fit the checkpoint. To be called at the start, before the kubelet can call; again is fine.

    Raises:
        NewerCheckpointError: A later version of Rootport wrote the checkpoint: do not start.
        NodeError: The state is not to be had at all: the lock is taken, or the folder cannot be read or written.
    """
    with store.opened() as state:
        report = RecoveryReport(
            entries=len(state.entries),
            rebuilt=tuple(entry.claim for entry in state.entries.values() if entry.state == "rebuilt"),
            set_aside=state.set_aside,
        )
        # Every write is made under the lock, so no other instance is at one of these now.
        _remove_temporary_files(store, report)
        _remove_without_entry(store, state, report)
        for entry in state.entries.values():
            with report.noting(entry.claim):
                if not _is_whole(entry, store):
                    state.restore(entry)
                    report.restored.append(entry.claim)
        # Before the hardware is looked at: what is not in the journal is taken for an administrator's partition, and
        # what is in that of an earlier boot is one.
        with report.noting():
            report.forgotten += store.journal.forget_earlier_boots(_boots(state))
        for entry in state.entries.values():
            with report.noting(entry.claim):
                if state.holds(entry):
                    complete_journal(store.journal, entry)
        with report.noting():
            report.left += [item.claim for uid, item in store.journal.all().items() if uid not in state.entries]
        # So that a checkpoint which goes missing later is not taken for a first start.
        with report.noting():
            if not store.checkpoint.path.exists():
                store.checkpoint.save(state.entries.values())
        _remove_old_notes(store, report)
    return report


def _boots(state: OpenStore) -> Callable[[str], str | None]:
    return lambda uid: state.entries[uid].boot_id if uid in state.entries else None


def _remove_temporary_files(store: ClaimStore, report: RecoveryReport) -> None:
    with report.noting():
        report.removed += remove_temporary_files(store.plugin_dir, lambda name: name.startswith(CHECKPOINT))
    with report.noting():
        report.removed += cdi_files.remove_leftovers(store.cdi_dir)
    with report.noting():
        report.removed += store.journal.remove_leftovers()
    with report.noting():
        for uid in claim_folders(store.metadata_dir):
            report.removed += remove_metadata_leftovers(uid, store.metadata_dir)


def _remove_without_entry(store: ClaimStore, state: OpenStore, report: RecoveryReport) -> None:
    """Remove the files of claims without an entry: their prepare was cut short, or their unprepare nearly done."""
    with report.noting():
        for uid in cdi_files.claim_uids(store.cdi_dir):
            if uid not in state.entries:
                cdi_files.remove_spec(uid, store.cdi_dir)
                report.removed.append(cdi_files.spec_path(uid, store.cdi_dir))
    with report.noting():
        for uid in claim_folders(store.metadata_dir):
            if uid not in state.entries:
                remove_metadata(uid, store.metadata_dir)
                report.removed.append(store.metadata_dir / uid)


def _is_whole(entry: Entry, store: ClaimStore) -> bool:
    paths = {cdi_files.spec_path(entry.uid, store.cdi_dir): entry.cdi_spec}
    paths |= {store.metadata_dir / file.path: file.content for file in entry.files}
    with os_errors_as_node_errors(f"claim {entry.claim}: its files cannot be read"):
        return all(file_holds(path, content.encode()) for path, content in paths.items())


def _remove_old_notes(store: ClaimStore, report: RecoveryReport) -> None:
    """Remove the notes of calls that a crash cut short, for claims that the kubelet never named again."""
    with report.noting():
        store.wanted.remove_older(time.time() - _NOTES_KEPT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileReport:
    """The result of :meth:`Reconciler.run_once`.

    Attributes:
        gone: Prepared claims that the API server no longer has, and for how many seconds it has not. They stay.
        removed: Claims that it no longer had for long enough, and that were rebuilt or of an earlier boot: removed.
        planned: Rebuilt or outdated claims that it still has: planned anew.
        unknown: The errors of claims that could not be read or planned; they are tried again the next time.
        mended: What was done about the effects of claims.
    """

    gone: tuple[tuple[ClaimReference, float], ...] = ()
    removed: tuple[ClaimReference, ...] = ()
    planned: tuple[ClaimReference, ...] = ()
    unknown: tuple[RootportError, ...] = ()
    mended: Mended = field(default_factory=Mended)


class Reconciler:
    """Compares what is prepared with the claims in the API and with the node's devices, now and then.

    A claim that is gone from the API is normally left alone: the kubelet writes into its own checkpoint which claims it
    wants before it asks for them, and unprepares each of them, after restarts too, once their pods are inactive
    (pkg/kubelet/cm/dra/manager.go of Kubernetes 1.36: prepareResources, reconcileLoop). A force-deleted pod's claim is
    gone while its containers still run, so only the kubelet knows when its devices are free.

    It never asks where it lost its own checkpoint (``dra_manager_state``; when it cannot read that, it tells the admin
    to drain the node and remove it). So two kinds of entries are removed once their claim is gone: rebuilt ones, since
    what damaged this checkpoint may have hit the kubelet's, which is in the same file system; and those of an earlier
    boot, since none of their containers can run.

    Args:
        store: The state on disk.
        preparer: Mends effects, and plans rebuilt claims anew.
        get_claim: Reads a claim from the API server.
        gone_after_s: Seconds for which a claim must be gone before it is reported or removed.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        *,
        store: ClaimStore,
        preparer: Preparer,
        get_claim: Callable[[ClaimReference], AllocatedClaim],
        gone_after_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._preparer = preparer
        self._get_claim = get_claim
        self._gone_after_s = gone_after_s
        self._clock = clock
        self._gone_since: dict[str, float] = {}

    def run_once(self) -> ReconcileReport:
        """Mend the effects of all claims, then ask the API server for every prepared claim once.

        Raises:
            NodeError: The state is not to be had.
        """
        mended = self._preparer.mend()
        with self._store.opened() as state:
            known = tuple(state.entries.values())
        gone: list[tuple[Entry, float]] = []
        unknown: list[RootportError] = []
        present: list[Entry] = []
        for entry in known:
            try:
                with guarded("reconcile", f"claim {entry.claim}"):
                    self._get_claim(entry.claim)
            except ClaimGoneError:
                since = self._gone_since.setdefault(entry.uid, self._clock())
                if (seconds := self._clock() - since) >= self._gone_after_s:
                    gone.append((entry, seconds))
            except RootportError as error:
                unknown.append(error)
            else:
                present.append(entry)
                self._gone_since.pop(entry.uid, None)
        self._gone_since = {entry.uid: self._gone_since[entry.uid] for entry in known if entry.uid in self._gone_since}
        removed = self._remove([entry for entry, _ in gone if not self._may_run(entry)], unknown)
        rebuilt = [entry.claim for entry in present if entry.state != "prepared"]
        answers = self._preparer.plan_anew(rebuilt) if rebuilt else {}
        unknown += [answer for answer in answers.values() if isinstance(answer, RootportError)]
        return ReconcileReport(
            gone=tuple((entry.claim, seconds) for entry, seconds in gone if self._may_run(entry)),
            removed=removed,
            planned=tuple(claim for claim in rebuilt if not isinstance(answers[claim.uid], RootportError)),
            unknown=tuple(unknown),
            mended=mended,
        )

    def _may_run(self, entry: Entry) -> bool:
        """Whether the kubelet has to be waited for."""
        return entry.state != "rebuilt" and entry.boot_id == self._store.boot_id

    def _remove(self, gone: list[Entry], unknown: list[RootportError]) -> tuple[ClaimReference, ...]:
        answers = self._preparer.remove(gone) if gone else {}
        unknown += [error for error in answers.values() if error is not None]
        return tuple(entry.claim for entry in gone if entry.uid in answers and answers[entry.uid] is None)
