"""The journal of effects: each is written down before it is begun and forgotten after it is undone.

A file per claim, ``<claim uid>.json`` (:mod:`kubeletplugin.state.journal_format`). It outlives the checkpoint's entry:
what could not be undone when a claim was unprepared stays here until it is. All but
:meth:`EffectJournal.own_partitions` must be called under the plugin's lock.

No effect outlives a reboot: MIG devices, time slices, compute modes and the settings of virtual functions are gone with
the driver that had them, daemons as processes, and interfaces are back on the host. What stands in the same place later
is somebody else's. So a journal of an earlier boot says nothing, and is removed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from driver.adapters.files.durable_files import (
    entries,
    file_holds,
    file_signature,
    os_errors_as_node_errors,
    read_regular_file,
    remove_file,
    remove_temporary_files,
    replace_file,
    sync_folder,
)
from driver.api.claim_reference import ClaimReference
from driver.errors import InputError, NodeError
from driver.plan import check_claim_uid
from driver.plan.effects import CreateMigDevice, Effect
from kubeletplugin.state.journal_format import (
    MAX_BYTES,
    JournalEntry,
    NewerJournalError,
    decode,
    encode,
    newer_partitions,
)

__all__ = ["EffectJournal"]

_LOG: Final = logging.getLogger(__name__)
_DAMAGED_KEPT: Final = 3
_SUFFIX: Final = ".json"


class EffectJournal:
    """The journal of all claims.

    Args:
        folder: Where the files are; made where missing.
        boot_id: The node's ``/proc/sys/kernel/random/boot_id``; what is written of another boot is not read.
    """

    def __init__(self, folder: Path, *, boot_id: str) -> None:
        self.folder = folder
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[tuple[int, ...], JournalEntry]] = {}
        self._newer: set[Path] = set()  # of which was warned

    def write(self, claim: ClaimReference, effects: Sequence[Effect]) -> None:
        """Write down a claim's effects, durably, in place of what was written of it before.

        Raises:
            InputError: The claim's UID could not come from Kubernetes.
            NewerJournalError: There is one of a later version; it is untouched.
            NodeError: It could not be written; what was there still is.
        """
        path = self._path(claim.uid)
        self._refuse_newer(path, claim.uid)
        content = encode(claim, effects, self._boot_id)
        with os_errors_as_node_errors(f"claim {claim}: the journal of its effects {path} cannot be written"):
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
                sync_folder(self.folder.parent)
            if not file_holds(path, content):
                replace_file(path, content, mode=0o600)
            # Also where nothing was written: the rename of a call that crashed may not be on disk yet.
            sync_folder(self.folder)

    def read(self, claim_uid: str) -> JournalEntry | None:
        """Return what is written of a claim; None if nothing is. A file that cannot be read is set aside.

        Raises:
            InputError: ``claim_uid`` could not come from Kubernetes.
            NewerJournalError: A later version of Rootport wrote it.
            NodeError: The file could not be read.
        """
        return self._of_this_boot(self._read(self._path(claim_uid), claim_uid, mend=True))

    def has_file(self, claim_uid: str) -> bool:
        """Whether there is a file for a claim, that can be read or not.

        Raises:
            InputError: ``claim_uid`` could not come from Kubernetes.
        """
        return os.path.lexists(self._path(claim_uid))

    def all(self) -> dict[str, JournalEntry]:
        """Return what is written of all claims, by UID, sorted. Files that cannot be read are set aside.

        What a later version of Rootport wrote is left out, with a warning: it keeps its own claim waiting.

        Raises:
            NodeError: The folder or a file could not be read.
        """
        found, _ = self._all(mend=True)
        return {uid: entry for uid, entry in found.items() if self._of_this_boot(entry)}

    def forget_earlier_boots(self, boot_of: Callable[[str], str | None]) -> tuple[ClaimReference, ...]:
        """Remove what is of an earlier boot, and write down the boot where an older version of Rootport did not.

        Args:
            boot_of: Returns the boot in which a claim was prepared, by its UID; None if it is unknown, and taken to be
                this one.

        Returns:
            The claims whose journals were removed.

        Raises:
            NodeError: A file could not be read, written or removed.
        """
        found, _ = self._all(mend=True)
        earlier = {uid for uid, entry in found.items() if (entry.boot_id or boot_of(uid)) not in (self._boot_id, None)}
        for uid in earlier:
            self.remove(uid)
        for uid, entry in found.items():
            if entry.boot_id is None and uid not in earlier:
                self.write(entry.claim, entry.effects)
        return tuple(entry.claim for uid, entry in found.items() if uid in earlier)

    def remove(self, claim_uid: str) -> None:
        """Forget a claim's effects, durably. Nothing written of it is fine.

        Raises:
            InputError: ``claim_uid`` could not come from Kubernetes.
            NewerJournalError: A later version of Rootport wrote it; it is untouched.
            NodeError: The file could not be removed.
        """
        path = self._path(claim_uid)
        self._refuse_newer(path, claim_uid)
        with os_errors_as_node_errors(
            f"claim with UID {claim_uid}: the journal of its effects {path} cannot be removed"
        ):
            if os.path.lexists(path):
                remove_file(path)

    def own_partitions(self) -> frozenset[tuple[str, int, int]]:
        """Return the places of Rootport's own MIG devices: (the GPU's name, NVML's profile id, first slice).

        Those of a later version's journals are among them, as far as this version finds them there. It may be called
        without the lock and from any thread.

        Raises:
            NodeError: The folder or a file could not be read.
        """
        found, newer = self._all(mend=False)
        known = frozenset(
            (effect.gpu, effect.profile_id, effect.start)
            for entry in found.values()
            for effect in entry.effects
            if self._of_this_boot(entry) and isinstance(effect, CreateMigDevice)
        )
        return known.union(*(newer_partitions(error.content, self._boot_id) for error in newer))

    def remove_leftovers(self) -> tuple[Path, ...]:
        """Remove the temporary files of writes that a crash cut short, and return them.

        Raises:
            NodeError: The folder could not be read, or a file not be removed.
        """
        return remove_temporary_files(self.folder, lambda name: _claim_uid_of(name) is not None)

    def _all(self, *, mend: bool) -> tuple[dict[str, JournalEntry], list[NewerJournalError]]:
        with os_errors_as_node_errors(f"the folder of journals {self.folder} cannot be read"):
            paths = sorted(entries(self.folder))
        there = set(paths)
        found, newer = {}, []
        for path in paths:
            uid = _claim_uid_of(path.name)
            if uid is None:
                continue
            try:
                entry = self._read(path, uid, mend=mend)
            except NewerJournalError as error:
                self._warn_once(path, error)
                newer.append(error)
                continue
            if entry is not None:
                found[uid] = entry
        with self._lock:
            self._known = {path: known for path, known in self._known.items() if path in there}
        return found, newer

    def _refuse_newer(self, path: Path, claim_uid: str) -> None:
        """Refuse to write over, or remove, what a later version wrote."""
        try:
            self._read(path, claim_uid, mend=False)
        except NewerJournalError:
            raise
        except NodeError:
            pass  # the operation itself reports what is in the way

    def _of_this_boot(self, entry: JournalEntry | None) -> JournalEntry | None:
        return entry if entry is not None and entry.boot_id in (self._boot_id, None) else None

    def _warn_once(self, path: Path, error: NewerJournalError) -> None:
        with self._lock:
            is_new = path not in self._newer
            self._newer.add(path)
        if is_new:
            _LOG.warning("%s", error)

    def _read(self, path: Path, claim_uid: str, *, mend: bool) -> JournalEntry | None:
        with os_errors_as_node_errors(f"claim with UID {claim_uid}: the journal of its effects {path} cannot be read"):
            signature = file_signature(path)
            if signature is None:
                return None
            with self._lock:
                known = self._known.get(path)
            if known is not None and known[0] == signature:
                return known[1]
            try:
                content = read_regular_file(path, MAX_BYTES + 1)
            except FileNotFoundError:
                return None
        try:
            entry = decode(content, claim_uid, path)
        except ValueError as error:
            if mend:
                self._set_aside(path, str(error))
            return None
        with self._lock:
            self._known[path] = (signature, entry)
        return entry

    def _set_aside(self, path: Path, why: str) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        aside = path.with_name(f"{path.name}.damaged-{stamp}")
        with os_errors_as_node_errors(f"the damaged journal {path} cannot be renamed to {aside}"):
            path.rename(aside)
            sync_folder(self.folder)
        _LOG.warning(
            "the journal %s is damaged and kept as %s; what its claim did to the node's devices is known from its "
            "entry alone, if it has one: %s",
            path,
            aside,
            why,
        )
        kept = sorted(path for path in entries(self.folder) if f"{_SUFFIX}.damaged-" in path.name)
        for old in sorted(kept, key=lambda item: item.name.rpartition("-")[2])[:-_DAMAGED_KEPT]:
            # Housekeeping: what cannot be removed now is so the next time.
            with suppress(OSError):
                old.unlink()

    def _path(self, claim_uid: str) -> Path:
        check_claim_uid(claim_uid)  # so that what follows is one part of a path
        return self.folder / f"{claim_uid}{_SUFFIX}"


def _claim_uid_of(name: str) -> str | None:
    uid = name.removesuffix(_SUFFIX)
    try:
        check_claim_uid(uid)
    except InputError:
        return None
    return uid if uid != name else None
