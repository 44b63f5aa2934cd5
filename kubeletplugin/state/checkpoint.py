"""The checkpoint of prepared claims: one file, versioned and checksummed, whole or not there.

The file is JSON: ``{"version": 4, "checksum": "<sha256 of the canonical data>", "data": {"claims": [...]}}``. Canonical
is JSON with sorted keys and no spaces, so a pretty-printed copy still checks. The reasons: docs/design/checkpoint.md.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from driver.adapters.files.durable_files import (
    entries,
    file_signature,
    os_errors_as_node_errors,
    read_regular_file,
    replace_file,
    sync_folder,
)
from driver.api.strict import StrictError, read, write
from driver.bounded_json import JsonError, parse_json
from driver.errors import NodeError
from driver.wording import plural
from kubeletplugin.state.entry import Entry, lists_all_fields
from kubeletplugin.state.migrations import MIGRATIONS, Migration

__all__ = [
    "MAX_BYTES",
    "VERSION",
    "CheckpointFile",
    "CorruptCheckpointError",
    "NewerCheckpointError",
    "decode",
    "encode",
]

VERSION: Final = 4

MAX_BYTES: Final = 16 << 20
"""A claim takes a few KiB, 8 GPUs with their driver's libraries some 50; a node has some hundreds of claims."""

_CORRUPT_KEPT: Final = 3


class NewerCheckpointError(NodeError):
    """A later version of Rootport wrote the checkpoint: this one must not touch it. Nothing but a person can help."""

    retry_helps = False


class CorruptCheckpointError(NodeError):
    """The checkpoint's file has no checkpoint in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    claims: tuple[Entry, ...]


def encode(claims: Iterable[Entry]) -> bytes:
    """Return the file's content: the same bytes for the same entries, in any order."""
    return _file_of({entry.uid: _encoded(entry) for entry in claims})


def _encoded(entry: Entry) -> bytes:
    return _canonical(write(entry))


def _file_of(encoded: Mapping[str, bytes]) -> bytes:
    """Return the file's content from the entries' own, by their UIDs."""
    data = b'{"claims":[%s]}' % b",".join(encoded[uid] for uid in sorted(encoded))
    return b'{"version": %d, "checksum": "%s", "data": %s}\n' % (VERSION, _checksum(data).encode(), data)


def decode(content: bytes, *, migrations: Mapping[int, Migration] = MIGRATIONS) -> tuple[dict[str, Entry], int]:
    """Return the entries by UID, and the version that the content was written in.

    Raises:
        NewerCheckpointError: A later version of Rootport wrote it.
        CorruptCheckpointError: It is no checkpoint, or not what was written.
    """
    try:
        document = parse_json(content, max_bytes=MAX_BYTES)
    except JsonError as error:
        raise CorruptCheckpointError(f"it is {error}") from None
    if not isinstance(document, dict) or document.keys() != {"version", "checksum", "data"}:
        raise CorruptCheckpointError("it is not an object of version, checksum and data")
    written, data = document["version"], document["data"]
    if type(written) is not int or not isinstance(data, dict):
        raise CorruptCheckpointError("its version is not a number, or its data not an object")
    if written > VERSION:
        # Before the checksum: how a later version computes it is not known here.
        raise NewerCheckpointError(
            f"it has version {written}, and this Rootport knows versions up to {VERSION}",
            hint="install the Rootport that wrote it, or a later one; to go back to this one, drain the node, end the "
            "plugin, remove the file, then start this version",
        )
    if document["checksum"] != _checksum(_canonical(data)):
        raise CorruptCheckpointError("its checksum does not fit its data")
    for step in range(written, VERSION):
        migration = migrations.get(step)
        if migration is None:
            raise CorruptCheckpointError(f"there is no way from version {step} to {step + 1}")
        try:
            data = migration(data)
        except Exception as error:
            raise CorruptCheckpointError(
                f"it cannot be brought from version {step} to {step + 1}: {error!r}"
            ) from error
    return _validated(data), written


def _validated(data: dict[str, Any]) -> dict[str, Entry]:
    try:
        claims = read(_Data, data).claims
    except StrictError as error:
        raise CorruptCheckpointError(f"{error}; {plural(len(error.errors), 'error')} in all") from None
    for entry, written in zip(claims, data["claims"], strict=True):
        if not lists_all_fields(entry.devices, written):
            raise CorruptCheckpointError(f"claim {entry.claim}: a device lacks a field")
    found = {entry.uid: entry for entry in claims}
    if len(found) != len(claims):
        raise CorruptCheckpointError("it has two entries for one claim")
    return found


def _canonical(data: object) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class CheckpointFile:
    """The checkpoint on disk. Every call but :meth:`look` must be made under the plugin's lock.

    Args:
        path: The file; its folder exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[tuple[int, ...], dict[str, Entry]] | None = None
        self._encoded: dict[str, tuple[Entry, bytes]] = {}

    def load(self) -> dict[str, Entry] | None:
        """Return the entries by UID, read anew if another process wrote since; None if there is no file.

        A file of an older version is brought up to date on disk; it is kept as ``checkpoint.json.v<N>``.

        Raises:
            NewerCheckpointError: As for :func:`decode`; the file is untouched.
            CorruptCheckpointError: As for :func:`decode`; the file is untouched: see :meth:`set_aside`.
            NodeError: The file could not be read.
        """
        return self._read(is_locked=True)

    def look(self) -> dict[str, Entry] | None:
        """As :meth:`load`, but nothing is written; may be called without the lock, from any thread.

        Raises:
            NewerCheckpointError: As for :meth:`load`.
            CorruptCheckpointError: Likewise.
            NodeError: Likewise.
        """
        return self._read(is_locked=False)

    def _read(self, *, is_locked: bool) -> dict[str, Entry] | None:
        with os_errors_as_node_errors(f"the checkpoint {self.path} cannot be read"):
            signature = file_signature(self.path)
            if signature is None:
                if is_locked:
                    self._known = None
                return None
            known = self._known
            if known is not None and known[0] == signature:
                return dict(known[1])
            content = read_regular_file(self.path, MAX_BYTES + 1)
        if content is None:
            raise CorruptCheckpointError(f"the checkpoint {self.path} cannot be used: it is not a file")
        if len(content) > MAX_BYTES:
            raise CorruptCheckpointError(
                f"the checkpoint {self.path} cannot be used: it is over {MAX_BYTES} bytes long"
            )
        try:
            found, written = decode(content)
        except (NewerCheckpointError, CorruptCheckpointError) as error:
            raise type(error)(f"the checkpoint {self.path} cannot be used: {error.message}", hint=error.hint) from error
        if not is_locked:
            return found  # neither remembered nor brought up to date: a save may have come between
        if written != VERSION:
            with os_errors_as_node_errors(f"the checkpoint {self.path} of version {written} cannot be kept"):
                replace_file(self.path.with_name(f"{self.path.name}.v{written}"), content, mode=0o600)
            self.save(found.values())
        else:
            self._known = (signature, found)
        return dict(found)

    def save(self, claims: Iterable[Entry], *, sync: bool = True) -> None:
        """Write the entries; a process that ends at any instruction leaves the old file or the new one, whole.

        The content is on disk before the name changes. The folder is not synced after it, which would double the time
        that every pod's start waits: only a power cut can bring the file before this one back, and then all of its
        entries are of an earlier boot, which count for nothing (OpenStore.current).

        Args:
            claims: All of them. What an entry looks like in the file is remembered with the object.
            sync: Whether the content is to be on disk at all. Without it a power cut may, on some file systems, leave a
                file that is none; then it is rebuilt, of entries that count for nothing. Enough to forget claims.

        Raises:
            NodeError: They could not be written, or are too many; what was there still is.
        """
        found = {entry.uid: entry for entry in claims}
        encoded = {}
        for uid, entry in found.items():
            known = self._encoded.get(uid)
            encoded[uid] = known if known is not None and known[0] is entry else (entry, _encoded(entry))
        content = _file_of({uid: data for uid, (_, data) in encoded.items()})
        if len(content) > MAX_BYTES:
            raise NodeError(
                f"the checkpoint {self.path} would be {len(content)} bytes long for {len(found)} claims, and at most "
                f"{MAX_BYTES} are allowed",
                hint="end pods on this node",
            )
        with os_errors_as_node_errors(f"the checkpoint {self.path} cannot be written"):
            replace_file(self.path, content, mode=0o600, sync=sync)
            signature = file_signature(self.path)
            self._known = (signature, found) if signature else None
        self._encoded = encoded

    def set_aside(self) -> Path:
        """Rename a corrupt checkpoint, so that a person can inspect it; the last few are kept.

        Returns:
            Its new path: ``checkpoint.json.corrupt-<time>``.

        Raises:
            NodeError: It could not be renamed.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
        with os_errors_as_node_errors(f"the corrupt checkpoint {self.path} cannot be renamed to {aside}"):
            self.path.rename(aside)
            self._known = None
            sync_folder(self.path.parent)
            kept = sorted(
                path for path in entries(self.path.parent) if path.name.startswith(f"{self.path.name}.corrupt-")
            )
        for path in kept[:-_CORRUPT_KEPT]:
            # Housekeeping: what cannot be removed now is so the next time.
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        return aside
