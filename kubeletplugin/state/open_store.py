"""The plugin's state while its lock is held: the entries, and what changes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from driver.adapters.files import cdi_files
from driver.api.claim_reference import ClaimReference
from driver.errors import RootportError
from kubeletplugin.internal_errors import guarded
from kubeletplugin.state.checkpoint import CheckpointFile
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.metadata_files import remove_metadata, write_metadata
from kubeletplugin.state.turns import HandedBack
from kubeletplugin.state.wanted import WantedClaims

__all__ = ["OpenStore", "StoreFiles"]

_LOG: Final = logging.getLogger(__name__)


class StoreFiles(Protocol):
    """The files that hold the state: :class:`kubeletplugin.state.store.ClaimStore`."""

    cdi_dir: Path
    metadata_dir: Path
    boot_id: str
    checkpoint: CheckpointFile
    wanted: WantedClaims
    step: Callable[[str], None]


class OpenStore:
    """The state while the lock is held; of no use after that.

    Claims are added and removed in memory and in their own files at once, and in the checkpoint by :meth:`commit`, for
    all of them in one write. Nothing counts before that: the kubelet must not have an answer.

    Args:
        store: The files.
        entries: What the checkpoint has.
        set_aside: As the attribute.

    Attributes:
        set_aside: Where a corrupt checkpoint was kept when this was opened, if one was found.
        failed: By UID, why a claim's change is not in the checkpoint; what it had written is undone.
        for_another: Whether the work under way is another caller's, which this thread does for it: see
            :meth:`before_long_work`.
    """

    def __init__(self, store: StoreFiles, entries: dict[str, Entry], set_aside: Path | None) -> None:
        self._store = store
        self._entries = entries
        self._written = entries
        self._changed: dict[str, ClaimReference] = {}
        self.set_aside = set_aside
        self.failed: dict[str, RootportError] = {}
        self.for_another = False

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The prepared claims by UID."""
        return self._entries

    def current(self, claim_uid: str) -> Entry | None:
        """Return the claim's entry if it can be the answer to the kubelet: prepared since the node's last boot."""
        entry = self._entries.get(claim_uid)
        return entry if entry is not None and entry.state == "prepared" and self.holds(entry) else None

    def holds(self, entry: Entry) -> bool:
        """Whether an entry holds devices and effects: none that was prepared in an earlier boot does."""
        return entry.boot_id == self._store.boot_id

    def before_long_work(self) -> None:
        """Commit what others wait for; to be called before effects are done or undone, and before anything is changed.

        Raises:
            HandedBack: This is done for a caller that waits for its own turn: it is to do it itself.
        """
        if self.for_another:
            raise HandedBack
        self.commit()

    def outdate(self, entry: Entry) -> None:
        """Mark a claim to be planned anew before it is answered again, in the checkpoint as well.

        Raises:
            NodeError: The checkpoint could not be written.
        """
        self._change(entry.claim, replace(entry, state="outdated"))
        self.commit()
        self._raise_failed(entry.uid)

    def add(self, entry: Entry) -> None:
        """Write a claim's files and add its entry. That it may have its devices is checked before.

        Raises:
            NodeError: Something could not be written; what was written is undone.
        """
        store = self._store
        try:
            write_metadata(entry.claim, entry.files, store.metadata_dir)
            store.step("prepare: metadata written")
            cdi_files.write_spec(entry.claim, entry.cdi_spec.encode(), store.cdi_dir)
            store.step("prepare: CDI spec written")
        except BaseException:
            self._undo(entry)
            raise
        self._change(entry.claim, entry)

    def add_now(self, entry: Entry) -> None:
        """As :meth:`add`, in the checkpoint as well: for claims with effects, which are undone without an entry.

        Raises:
            NodeError: As for :meth:`add`.
        """
        self.add(entry)
        self.commit()
        self._raise_failed(entry.uid)

    def remove(self, claim: ClaimReference) -> None:
        """Remove a claim's files and its entry; what is not there is fine.

        Raises:
            InputError: The claim's UID could not come from Kubernetes.
            NodeError: Something could not be removed; the entry is still there, so a retry goes on.
        """
        store = self._store
        cdi_files.remove_spec(claim.uid, store.cdi_dir)
        store.step("unprepare: CDI spec removed")
        remove_metadata(claim.uid, store.metadata_dir)
        store.step("unprepare: metadata removed")
        self._change(claim, None)

    def remove_now(self, claim: ClaimReference) -> None:
        """As :meth:`remove`, in the checkpoint as well: for claims with effects, which are undone after this.

        Raises:
            InputError: As for :meth:`remove`.
            NodeError: Likewise.
        """
        self.remove(claim)
        self.commit()
        self._raise_failed(claim.uid)

    def restore(self, entry: Entry) -> None:
        """Write a claim's files again if they are missing or have another content.

        Raises:
            NodeError: They could not be written.
        """
        write_metadata(entry.claim, entry.files, self._store.metadata_dir)
        cdi_files.write_spec(entry.claim, entry.cdi_spec.encode(), self._store.cdi_dir)

    def commit(self) -> None:
        """Write the checkpoint if entries were added or removed since it was written.

        Whose change cannot be written is in :attr:`failed`, and then undone: an added entry with its files. A removed
        entry is back, so that the kubelet's retry goes on.
        """
        changed, self._changed = self._changed, {}
        if not changed:
            return
        try:
            if any(self._entries.get(uid) is not self._written.get(uid) for uid in changed):
                # What was removed needs no sync: only a power cut can bring it back, and it counts for nothing then.
                self._save(self._entries, sync=any(uid in self._entries for uid in changed))
        except RootportError as error:
            self._commit_each(changed, error)
        for uid, claim in changed.items():
            if uid not in self.failed:
                self._store.step(f"{'prepare' if uid in self._entries else 'unprepare'}: checkpoint written")
                self._store.wanted.remove(claim)

    def _change(self, claim: ClaimReference, entry: Entry | None) -> None:
        self._entries = {uid: known for uid, known in self._entries.items() if uid != claim.uid}
        if entry is not None:
            self._entries[claim.uid] = entry
        self._changed[claim.uid] = claim
        self.failed.pop(claim.uid, None)

    def _commit_each(self, changed: Mapping[str, ClaimReference], error: RootportError) -> None:
        """Write what can be written: a claim that is too much for the disk must not be in another one's way.

        The removed ones go first, since those that were added may have their devices.
        """
        wanted, self._entries = self._entries, dict(self._written)
        added = [uid for uid in changed if uid in wanted]
        removed = [uid for uid in changed if uid not in wanted]
        if len(changed) == 1:
            self.failed[next(iter(changed))] = error
        elif not removed or self._saved({uid: each for uid, each in self._written.items() if uid not in removed}):
            for uid in added:
                self._saved(self._written | {uid: wanted[uid]}, uid)
        else:
            self.failed |= dict.fromkeys(changed, error)
        for uid in added:
            if uid in self.failed:
                self._undo(wanted[uid])

    def _saved(self, entries: dict[str, Entry], *claim_uids: str) -> bool:
        try:
            self._save(entries)
        except RootportError as error:
            self.failed |= dict.fromkeys(claim_uids, error)
            return False
        self._entries = dict(entries)
        return True

    def _save(self, entries: dict[str, Entry], *, sync: bool = True) -> None:
        with guarded("checkpoint", "the checkpoint"):
            self._store.checkpoint.save(entries.values(), sync=sync)
        self._written = entries

    def _raise_failed(self, claim_uid: str) -> None:
        error = self.failed.pop(claim_uid, None)
        if error is not None:
            raise error

    def _undo(self, entry: Entry) -> None:
        """Take back what :meth:`add` wrote; what cannot be taken back now is so at the next start."""
        store = self._store
        try:
            before = self._written.get(entry.uid)
            if before is not None:
                self.restore(before)
            else:
                cdi_files.remove_spec(entry.uid, store.cdi_dir)
                remove_metadata(entry.uid, store.metadata_dir)
        except RootportError as error:
            _LOG.warning("claim %s: a failed prepare could not be undone as a whole: %s", entry.claim, error)
