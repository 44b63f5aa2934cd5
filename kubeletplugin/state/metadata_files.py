"""Writes and removes the files of claims: device metadata (KEP-5304) and what isolates shares. A folder per claim.

The files are not synced to disk: after a power cut every claim is planned and written anew before a container starts
(docs/design/checkpoint.md), and short of that the kernel loses nothing.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from driver.adapters.files.durable_files import (
    entries,
    file_holds,
    os_errors_as_node_errors,
    remove_temporary_files,
    replace_file,
    write_file,
)
from driver.api.claim_reference import ClaimReference
from driver.api.validation.errors import shown
from driver.errors import InputError
from driver.plan import check_claim_uid
from kubeletplugin.state.entry import EntryFile

__all__ = ["claim_folders", "remove_metadata", "remove_metadata_leftovers", "write_metadata"]

_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.[a-z]{1,16}", re.ASCII)
"""As :class:`driver.plan.isolation.ClaimFile` says: ``<request>.json``, ``hami-core.preload``."""


def write_metadata(claim: ClaimReference, files: Sequence[EntryFile], root: Path) -> None:
    """Write a claim's files; one that has the same content already is left as it is.

    Args:
        claim: Whose files they are.
        files: Their paths are ``<claim uid>/<name>``.
        root: The folder of all such files; made where missing.

    Raises:
        InputError: A path is none of that form.
        NodeError: A file could not be written.
    """
    new: set[Path] = set()
    for file in files:
        folder, _, name = file.path.partition("/")
        if folder != claim.uid or _NAME.fullmatch(name) is None:
            raise InputError(f"claim {claim}: {shown(file.path)} is not the path of a claim's file")
        path = _folder(claim.uid, root) / name
        content = file.content.encode()
        with os_errors_as_node_errors(f"claim {claim}: the file {path} cannot be written"):
            if path.parent in new or _is_new(path.parent):
                # Nobody reads it before the claim's CDI spec is there, and a crash leaves a claim without an entry.
                new.add(path.parent)
                write_file(path, content)
            elif not file_holds(path, content):
                replace_file(path, content, sync=False)


def _is_new(folder: Path) -> bool:
    """Make a claim's folder; whether it was not there."""
    try:
        os.mkdir(folder, 0o755)  # noqa: PTH102 - not of pathlib: every pod's start waits for it
    except FileExistsError:
        return False
    except FileNotFoundError:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return True


def remove_metadata(claim_uid: str, root: Path) -> None:
    """Remove a claim's folder of files with all that is in it. One that is not there is fine.

    Raises:
        InputError: ``claim_uid`` could not come from Kubernetes.
        NodeError: Something could not be removed.
    """
    folder = str(_folder(claim_uid, root))
    with (
        os_errors_as_node_errors(f"claim with UID {claim_uid}: the folder of its files {folder} cannot be removed"),
        suppress(FileNotFoundError),
    ):
        # Of the os module, and no stat: every pod's end waits for it. A link is not followed.
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            os.unlink(folder)  # noqa: PTH108 - paths are text here
            return
        try:
            for name in os.listdir(descriptor):  # noqa: PTH208 - a descriptor
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        os.rmdir(folder)  # noqa: PTH106 - as above


def claim_folders(root: Path) -> tuple[str, ...]:
    """Return the UIDs of the claims that have a folder of files, sorted.

    Raises:
        NodeError: The folder of all could not be read; one that is not there holds none.
    """
    with os_errors_as_node_errors(f"the folder of claims' files {root} cannot be read"):
        return tuple(sorted(path.name for path in entries(root) if _is_uid(path.name)))


def remove_metadata_leftovers(claim_uid: str, root: Path) -> tuple[Path, ...]:
    """Remove the temporary files in a claim's folder, and return them.

    Raises:
        NodeError: The folder could not be read, or a file not be removed.
    """
    return remove_temporary_files(_folder(claim_uid, root), lambda name: _NAME.fullmatch(name) is not None)


def _folder(claim_uid: str, root: Path) -> Path:
    check_claim_uid(claim_uid)  # so that what follows is one part of a path
    return root / claim_uid


def _is_uid(name: str) -> bool:
    try:
        check_claim_uid(name)
    except InputError:
        return False
    return True
