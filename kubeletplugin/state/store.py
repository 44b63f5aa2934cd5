"""The plugin's state on disk: the checkpoint, a CDI spec and a folder of files per claim, all behind one lock.

The checkpoint is what counts; the other files follow from it. Preparing writes them first and the entry last,
unpreparing removes them first and the entry last, so a crash in between leaves either files without an entry (removed
at the next start) or an entry without files (written again at the next start). Callers that wait at the same time share
one write of the checkpoint. What claims do to the node beside files is in a journal of its own
(:mod:`kubeletplugin.claims.effects`). docs/design/checkpoint.md has it all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from driver.adapters.files import cdi_files
from driver.adapters.files.durable_files import os_errors_as_node_errors, read_regular_file
from driver.errors import RootportError
from kubeletplugin.state.checkpoint import MAX_BYTES, CheckpointFile, CorruptCheckpointError
from kubeletplugin.state.entry import Entry, EntryFile
from kubeletplugin.state.entry_in_spec import found_in_spec
from kubeletplugin.state.file_lock import FileLock
from kubeletplugin.state.journal import EffectJournal
from kubeletplugin.state.open_store import OpenStore
from kubeletplugin.state.turns import Turns
from kubeletplugin.state.wanted import WantedClaims

__all__ = ["AHEAD", "CHECKPOINT", "EFFECTS", "LOCK", "METADATA", "PREPARING", "STEPS", "ClaimStore", "OpenStore"]

AHEAD: Final = "ahead"
"""Holds an empty file for each claim that is prepared before the kubelet has asked for it: what nobody unprepares."""

CHECKPOINT: Final = "checkpoint.json"
EFFECTS: Final = "effects"
LOCK: Final = "state.lock"
METADATA: Final = "device-metadata"
PREPARING: Final = "preparing"
"""Holds an empty file for each claim that the kubelet wants prepared: :mod:`kubeletplugin.state.wanted`."""

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
_Answer = TypeVar("_Answer")


def _no_step(_: str) -> None:
    """Do nothing: the hook outside of tests."""


class ClaimStore:
    """Opens the state for one caller, or for those that wait at the same time, at a time.

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
        self.wanted = WantedClaims(plugin_dir / PREPARING)
        self.ahead = WantedClaims(plugin_dir / AHEAD)
        self._lock = FileLock(plugin_dir / LOCK, holder=instance, timeout_s=lock_timeout_s)
        self._turns = Turns(self.opened, timeout_s=lock_timeout_s, late=self._lock.late)

    @contextmanager
    def opened(self) -> Iterator[OpenStore]:
        """Hold the lock and know the entries; a checkpoint that is lost or corrupt is rebuilt first.

        Raises:
            NewerCheckpointError: A later version of Rootport wrote the checkpoint, or the CDI specs that stand for one.
            NodeError: The lock was not to be had, or the state could not be read.
        """
        with self._lock.held():
            yield OpenStore(self, *self._load())

    def together(
        self, work: Callable[[OpenStore], dict[str, _Answer | RootportError]]
    ) -> dict[str, _Answer | RootportError]:
        """Do some work on the state, with that of other callers that wait: their changes are in one write.

        Args:
            work: Returns the answers by claim UID. It may be called by another caller's thread; again by this one if it
                came to :meth:`OpenStore.before_long_work` there.

        Returns:
            The answers, once the checkpoint has the changes; the error of each claim of which it has not.

        Raises:
            RootportError: As for :meth:`opened`; or what the work raised.
        """
        caller = threading.get_ident()
        answers: dict[str, _Answer | RootportError] = {}
        failed: dict[str, RootportError] = {}

        def do(state: OpenStore) -> None:
            nonlocal answers, failed
            state.for_another = threading.get_ident() != caller
            failed = state.failed
            answers = work(state)

        self._turns.take(do)
        return answers | {uid: failed[uid] for uid in answers if uid in failed}

    def may_have(self, claim_uid: str) -> bool:
        """Whether there may be an entry of a claim, as far as can be known without the lock."""
        try:
            known = self.checkpoint.look()
        except RootportError:
            return True  # see opened()
        return known is None or claim_uid in known

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
