"""The plugin's state on disk: the checkpoint, a CDI spec and a folder of files per claim, all behind one lock.

The checkpoint is what counts; the other files follow from it. Preparing writes them first and the entry last,
unpreparing removes them first and the entry last, so a crash in between leaves either files without an entry (removed
at the next start) or an entry without files (written again at the next start). What claims do to the node beside files
is in a journal of its own (:mod:`kubeletplugin.claims.effects`). docs/design/checkpoint.md has it all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from driver.adapters.files import cdi_files
from driver.adapters.files.durable_files import os_errors_as_node_errors, read_regular_file
from driver.api.resource_v1 import ClaimReference
from driver.errors import RootportError
from driver.plan import check_claim_uid
from kubeletplugin.state.checkpoint import MAX_BYTES, CheckpointFile, CorruptCheckpointError
from kubeletplugin.state.entry import Entry, EntryFile
from kubeletplugin.state.entry_in_spec import found_in_spec
from kubeletplugin.state.file_lock import FileLock
from kubeletplugin.state.journal import EffectJournal
from kubeletplugin.state.metadata_files import remove_metadata, write_metadata

__all__ = ["CHECKPOINT", "EFFECTS", "LOCK", "METADATA", "PREPARING", "STEPS", "ClaimStore", "OpenStore"]

CHECKPOINT: Final = "checkpoint.json"
EFFECTS: Final = "effects"
LOCK: Final = "state.lock"
METADATA: Final = "device-metadata"
PREPARING: Final = "preparing"
"""Holds an empty file for each claim that the kubelet wants prepared, named by its UID; see OpenStore.begin."""

STEPS: Final = (
    "prepare: begun",
    "prepare: journal written",
    "prepare: effect done",
    "prepare: metadata written",
    "prepare: CDI spec written",
    "prepare: checkpoint written",
    "unprepare: CDI spec removed",
    "unprepare: metadata removed",
    "unprepare: checkpoint written",
    "unprepare: effect undone",
    "unprepare: journal removed",
)
"""What :class:`ClaimStore` calls its hook with, each time after what the name says; the journal and the effects only
for claims that have effects."""

_LOG: Final = logging.getLogger(__name__)


def _no_step(_: str) -> None:
    """Do nothing: the hook outside of tests."""


class ClaimStore:
    """Opens the state for one caller at a time.

    Args:
        plugin_dir: The plugin's folder (``/var/lib/kubelet/plugins/rootport.dev``); made where missing.
        cdi_dir: The runtime's folder for dynamic CDI specs (``/var/run/cdi``).
        instance: The name of this instance of the plugin in messages.
        boot_id: The node's ``/proc/sys/kernel/random/boot_id``.
        lock_timeout_s: Seconds to wait for another caller or instance.
        step: Called with the names of :data:`STEPS`, so that tests can kill the process there.
    """

    def __init__(
        self,
        *,
        plugin_dir: Path,
        cdi_dir: Path,
        instance: str,
        boot_id: str,
        lock_timeout_s: float = 10.0,
        step: Callable[[str], None] = _no_step,
    ) -> None:
        self.plugin_dir = plugin_dir
        self.cdi_dir = cdi_dir
        self.metadata_dir = plugin_dir / METADATA
        self.boot_id = boot_id
        self.step = step
        self.journal = EffectJournal(plugin_dir / EFFECTS, boot_id=boot_id)
        self.checkpoint = CheckpointFile(plugin_dir / CHECKPOINT)
        self._lock = FileLock(plugin_dir / LOCK, holder=instance, timeout_s=lock_timeout_s)

    @contextmanager
    def opened(self) -> Iterator[OpenStore]:
        """Hold the lock and know the entries; a checkpoint that is lost or corrupt is rebuilt first.

        Raises:
            NewerCheckpointError: A later version of Rootport wrote the checkpoint, or the CDI specs that stand for one.
            NodeError: The lock was not to be had, or the state could not be read.
        """
        with self._lock.held():
            yield OpenStore(self, *self._load())

    def _load(self) -> tuple[dict[str, Entry], Path | None]:
        aside = None
        try:
            found = self.checkpoint.load()
        except CorruptCheckpointError as error:
            aside = self.checkpoint.set_aside()
            _LOG.warning("%s; kept as %s, and rebuilt from the CDI specs in %s", error.message, aside, self.cdi_dir)
            found = None
        if found is None:
            found = self._rebuilt()
            if found or aside:
                self.checkpoint.save(found.values())
        return found, aside

    def _rebuilt(self) -> dict[str, Entry]:
        """Return the entries from the CDI specs; a spec without one is left out."""
        found = {}
        for uid in cdi_files.claim_uids(self.cdi_dir):
            path = cdi_files.spec_path(uid, self.cdi_dir)
            with os_errors_as_node_errors(f"the CDI spec {path} cannot be read"):
                content = read_regular_file(path, MAX_BYTES) or b""
            known = found_in_spec(content, uid)
            if known is None:
                _LOG.warning("the CDI spec %s is damaged, or another program wrote it: it counts for nothing", path)
                continue
            found[uid] = Entry(
                uid=uid,
                namespace=known.namespace,
                name=known.name,
                state="rebuilt",
                boot_id=known.boot_id,
                devices=known.devices,
                effects=known.effects,
                cdi_spec=content.decode(),
                files=tuple(self._files(known.files)),
            )
        if found:
            _LOG.warning("the checkpoint was rebuilt from the CDI specs of claims %s", ", ".join(found))
        return found

    def _files(self, paths: tuple[str, ...]) -> Iterator[EntryFile]:
        for path in paths:
            # One that cannot be read is written anew when its claim is planned anew.
            with suppress(OSError, UnicodeDecodeError):
                content = read_regular_file(self.metadata_dir / path, MAX_BYTES)
                if content is not None:
                    yield EntryFile(path=path, content=content.decode())


class OpenStore:
    """The state while the lock is held; of no use after that.

    Attributes:
        entries: The prepared claims by UID.
        set_aside: Where a corrupt checkpoint was kept when this was opened, if one was found.
    """

    def __init__(self, store: ClaimStore, entries: dict[str, Entry], set_aside: Path | None) -> None:
        self._store = store
        self._entries = entries
        self.set_aside = set_aside

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

    def outdate(self, entry: Entry) -> None:
        """Mark a claim to be planned anew before it is answered again.

        Raises:
            NodeError: The checkpoint could not be written.
        """
        after = self._entries | {entry.uid: entry.model_copy(update={"state": "outdated"})}
        self._store.checkpoint.save(after.values())
        self._entries = after

    def begin(self, claim: ClaimReference) -> None:
        """Note that the kubelet wants a claim prepared, before the lock is let go to read the claim from the API.

        The kubelet gives a call up when its pod is deleted, and may have the claim unprepared, by this instance or
        another, while the call still waits for the API: preparing it after that would hold its devices for good.

        Raises:
            InputError: The claim's UID could not come from Kubernetes.
            NodeError: It could not be noted.
        """
        path = self._note(claim.uid)
        with os_errors_as_node_errors(f"claim {claim}: {path} cannot be made"):
            path.parent.mkdir(mode=0o750, exist_ok=True)
            path.touch()
        self._store.step("prepare: begun")

    def has_begun(self, claim: ClaimReference) -> bool:
        """Whether the kubelet still wants the claim: False where it was unprepared since :meth:`begin`."""
        return self._note(claim.uid).exists()

    def end(self, claim: ClaimReference) -> None:
        """Forget what :meth:`begin` noted.

        Raises:
            NodeError: It could not be removed.
        """
        path = self._note(claim.uid)
        with os_errors_as_node_errors(f"claim {claim}: {path} cannot be removed"):
            path.unlink(missing_ok=True)

    def add(self, entry: Entry) -> None:
        """Write a claim's files and its entry, all of it or nothing. That it may have its devices is checked before.

        Raises:
            NodeError: Something could not be written; what was written is undone.
        """
        store = self._store
        try:
            write_metadata(entry.claim, entry.files, store.metadata_dir)
            store.step("prepare: metadata written")
            cdi_files.write_spec(entry.claim, entry.cdi_spec.encode(), store.cdi_dir)
            store.step("prepare: CDI spec written")
            after = self._entries | {entry.uid: entry}
            store.checkpoint.save(after.values())
        except BaseException:
            self._undo(entry)
            raise
        self._entries = after
        store.step("prepare: checkpoint written")
        self.end(entry.claim)

    def remove(self, claim: ClaimReference) -> None:
        """Remove a claim's files and its entry; what is not there is fine. Its effects are undone after this.

        Raises:
            InputError: The claim's UID could not come from Kubernetes.
            NodeError: Something could not be removed; the entry is still there, so a retry goes on.
        """
        store = self._store
        cdi_files.remove_spec(claim.uid, store.cdi_dir)
        store.step("unprepare: CDI spec removed")
        remove_metadata(claim.uid, store.metadata_dir)
        store.step("unprepare: metadata removed")
        if claim.uid in self._entries:
            after = {uid: entry for uid, entry in self._entries.items() if uid != claim.uid}
            store.checkpoint.save(after.values())
            self._entries = after
        store.step("unprepare: checkpoint written")
        self.end(claim)

    def restore(self, entry: Entry) -> None:
        """Write a claim's files again if they are missing or have another content.

        Raises:
            NodeError: They could not be written.
        """
        write_metadata(entry.claim, entry.files, self._store.metadata_dir)
        cdi_files.write_spec(entry.claim, entry.cdi_spec.encode(), self._store.cdi_dir)

    def _undo(self, entry: Entry) -> None:
        """Take back what :meth:`add` wrote; what cannot be taken back now is so at the next start."""
        store = self._store
        try:
            before = self._entries.get(entry.uid)
            if before is not None:
                self.restore(before)
            else:
                cdi_files.remove_spec(entry.uid, store.cdi_dir)
                remove_metadata(entry.uid, store.metadata_dir)
        except RootportError as error:
            _LOG.warning("claim %s: a failed prepare could not be undone as a whole: %s", entry.claim, error)

    def _note(self, claim_uid: str) -> Path:
        check_claim_uid(claim_uid)  # so that what follows is one part of a path
        return self._store.plugin_dir / PREPARING / claim_uid
