"""What prepared claims do to the node, written down before it is begun and forgotten after it is undone.

A file per claim, ``<claim uid>.json``: ``{"version": 2, "claim": {...}, "effects": [...]}``. It outlives the
checkpoint's entry: what could not be undone when a claim was unprepared stays here until it is. All but
:meth:`EffectJournal.own_partitions` must be called under the plugin's lock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from driver.adapters.durable_files import (
    entries,
    file_holds,
    file_signature,
    read_regular_file,
    remove_file,
    remove_temporary_files,
    replace_file,
    sync_folder,
    told,
)
from driver.api.resource_v1 import ClaimReference
from driver.errors import InputError
from driver.plan import spec_file_name
from driver.plan.effects import CreateMigDevice, Effect

__all__ = ["EffectJournal", "JournalEntry"]

_LOG: Final = logging.getLogger(__name__)
_VERSION: Final = 2
"""Version 1 knew no effects on NICs, and is else the same."""
_MAX_BYTES: Final = 1 << 20
"""An effect takes some 200 bytes, and a claim has 32 devices at most."""
_DAMAGED_KEPT: Final = 3
_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """What one claim does, or did, to the node.

    Attributes:
        claim: Whose effects they are.
        effects: In the order in which they are done.
    """

    claim: ClaimReference
    effects: tuple[Effect, ...]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Claim(_Model):
    uid: str
    namespace: str
    name: str


class _File(_Model):
    version: int
    claim: _Claim
    effects: tuple[Effect, ...]


class _Version(BaseModel):
    version: int


class EffectJournal:
    """The journal of all claims.

    Args:
        folder: Where the files are; made where missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[tuple[int, ...], JournalEntry | None]] = {}

    def write(self, claim: ClaimReference, effects: Sequence[Effect]) -> None:
        """Write down a claim's effects, durably, in place of what was written of it before.

        Raises:
            InputError: The claim's UID could not come from Kubernetes.
            NodeError: It could not be written; what was there still is.
        """
        path = self._path(claim.uid)
        file = _File(
            version=_VERSION,
            claim=_Claim(uid=claim.uid, namespace=claim.namespace, name=claim.name),
            effects=tuple(effects),
        )
        content = file.model_dump_json(indent=2).encode() + b"\n"
        with told(f"claim {claim}: the journal of its effects {path} cannot be written"):
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
                sync_folder(self.folder.parent)
            if not file_holds(path, content):
                replace_file(path, content, mode=0o600)
            # Also where nothing was written: the rename of a call that crashed may not be on disk yet.
            sync_folder(self.folder)

    def read(self, claim_uid: str) -> JournalEntry | None:
        """What is written of a claim; None where nothing is, or nothing that can be read: that is set aside.

        Raises:
            InputError: ``claim_uid`` could not come from Kubernetes.
            NodeError: The file could not be read.
        """
        return self._read(self._path(claim_uid), claim_uid, mend=True)

    def all(self) -> dict[str, JournalEntry]:
        """What is written of all claims, by UID, sorted. What cannot be read is set aside.

        Raises:
            NodeError: The folder or a file could not be read.
        """
        return self._all(mend=True)

    def remove(self, claim_uid: str) -> None:
        """Forget a claim's effects, durably. Nothing written of it is fine.

        Raises:
            InputError: ``claim_uid`` could not come from Kubernetes.
            NodeError: The file could not be removed.
        """
        path = self._path(claim_uid)
        with told(f"claim with UID {claim_uid}: the journal of its effects {path} cannot be removed"):
            if os.path.lexists(path):
                remove_file(path)

    def own_partitions(self) -> frozenset[tuple[str, int, int]]:
        """The places of the MIG devices that are Rootport's own: (the GPU's name, NVML's profile id, first slice).

        It may be called without the lock and from any thread.

        Raises:
            NodeError: The folder or a file could not be read.
        """
        return frozenset(
            (effect.gpu, effect.profile_id, effect.start)
            for entry in self._all(mend=False).values()
            for effect in entry.effects
            if isinstance(effect, CreateMigDevice)
        )

    def remove_leftovers(self) -> tuple[Path, ...]:
        """Remove the temporary files of writes that a crash cut short, and return them.

        Raises:
            NodeError: The folder could not be read, or a file not be removed.
        """
        return remove_temporary_files(self.folder, lambda name: _claim_uid_of(name) is not None)

    def _all(self, *, mend: bool) -> dict[str, JournalEntry]:
        with told(f"the folder of journals {self.folder} cannot be read"):
            paths = sorted(entries(self.folder))
        there = set(paths)
        found = {}
        for path in paths:
            uid = _claim_uid_of(path.name)
            if uid is not None and (entry := self._read(path, uid, mend=mend)) is not None:
                found[uid] = entry
        with self._lock:
            self._known = {path: known for path, known in self._known.items() if path in there}
        return found

    def _read(self, path: Path, claim_uid: str, *, mend: bool) -> JournalEntry | None:
        with told(f"claim with UID {claim_uid}: the journal of its effects {path} cannot be read"):
            signature = file_signature(path)
            if signature is None:
                return None
            with self._lock:
                known = self._known.get(path)
            if known is not None and known[0] == signature:
                return known[1]
            try:
                content = read_regular_file(path, _MAX_BYTES + 1)
            except FileNotFoundError:
                return None
        try:
            entry = _decoded(content, claim_uid, path)
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
        with told(f"the damaged journal {path} cannot be renamed to {aside}"):
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
        spec_file_name(claim_uid)  # refuses what could not be a UID, so what follows is one part of a path
        return self.folder / f"{claim_uid}{_SUFFIX}"


def _decoded(content: bytes | None, claim_uid: str, path: Path) -> JournalEntry | None:
    """What a file says; None where a later version of Rootport wrote it.

    Raises:
        ValueError: It is no journal of this claim.
    """
    if content is None or len(content) > _MAX_BYTES:
        raise ValueError(f"it is no file, or over {_MAX_BYTES} bytes long")
    try:
        version = _Version.model_validate_json(content).version
        if version > _VERSION:
            _LOG.warning(
                "the journal %s is of version %d, and this Rootport knows version %d: what its claim did to the node's "
                "devices is not undone until the Rootport that wrote it is installed again",
                path,
                version,
                _VERSION,
            )
            return None
        file = _File.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if not 1 <= file.version <= _VERSION or file.claim.uid != claim_uid:
        raise ValueError("its version or its claim is not what its name says")
    claim = ClaimReference(namespace=file.claim.namespace, name=file.claim.name, uid=file.claim.uid)
    return JournalEntry(claim=claim, effects=file.effects)


def _claim_uid_of(name: str) -> str | None:
    uid = name.removesuffix(_SUFFIX)
    try:
        spec_file_name(uid)
    except InputError:
        return None
    return uid if uid != name else None
