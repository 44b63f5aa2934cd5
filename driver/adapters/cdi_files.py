"""Writes and removes the CDI spec files that :mod:`driver.plan` decides on, and nothing else.

A runtime sees a whole file or none: it reads ``*.json`` and ``*.yaml`` of the folder whenever that changes, so a file
is made under another suffix and renamed (container-device-interface v1.1.1, pkg/cdi/spec-dirs.go and cache.go). Each
function can be called again after a crash at any instruction.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from driver.errors import NodeError
from driver.plan import CdiSpec, claim_uid_of, spec_file_name

__all__ = ["claim_uids", "remove_leftovers", "remove_spec", "write_spec"]

_TEMPORARY: Final = re.compile(r"\.(.+)\.[a-z0-9_]+\.tmp", re.ASCII)
"""What :func:`_replace` makes of a spec file's name."""

_MODE: Final = 0o644
_HINTS: Final = {
    errno.ENOSPC: "make space on that file system, then retry",
    errno.EDQUOT: "raise the quota on that file system, then retry",
    errno.EFBIG: "raise the process's limit on file sizes (RLIMIT_FSIZE), then retry",
    errno.EACCES: "let Rootport write to that folder, then retry",
    errno.EPERM: "let Rootport write to that folder, then retry",
    errno.EROFS: "mount that folder writable, then retry",
    errno.ENOTDIR: "name a folder",
    errno.EISDIR: "remove the folder that stands where the file belongs, then retry",
}


def write_spec(spec: CdiSpec, directory: Path) -> Path:
    """Write a claim's spec file, durably, and return its path. A file that already says the same is left as it is.

    Args:
        spec: What to write.
        directory: The runtime's folder for dynamic specs (``/var/run/cdi``), or any other; made where missing.

    Raises:
        NodeError: The file could not be written; what stood there before still stands, and nothing half written does.
    """
    path = directory / spec.file_name
    content = spec.to_json()
    with _told(f"claim {spec.claim}: the CDI spec {path} cannot be written"):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not _holds(path, content):
            _replace(path, content)
        # Also where nothing was written: the rename of a call that crashed may not be on disk yet.
        _sync_folder(directory)
    return path


def remove_spec(claim_uid: str, directory: Path) -> None:
    """Remove a claim's spec file, durably. A file that is not there is fine.

    Raises:
        InputError: ``claim_uid`` could not come from Kubernetes.
        NodeError: The file could not be removed.
    """
    path = directory / spec_file_name(claim_uid)
    with _told(f"claim with UID {claim_uid}: the CDI spec {path} cannot be removed"), suppress(FileNotFoundError):
        path.unlink(missing_ok=True)
        _sync_folder(directory)


def claim_uids(directory: Path) -> tuple[str, ...]:
    """The UIDs of the claims that have a spec file in the folder, sorted.

    Raises:
        NodeError: The folder could not be read; one that is not there holds none.
    """
    uids = (claim_uid_of(path.name) for path in _entries(directory))
    return tuple(sorted(uid for uid in uids if uid is not None))


def remove_leftovers(directory: Path) -> tuple[Path, ...]:
    """Remove the temporary files of writes that a crash cut short, and return them.

    Not to be called while another call may be writing to the folder: its file would be taken for a leftover.

    Raises:
        NodeError: The folder could not be read, or a file not be removed.
    """
    leftovers = tuple(sorted(path for path in _entries(directory) if _is_leftover(path.name)))
    for path in leftovers:
        with _told(f"the leftover {path} cannot be removed"):
            path.unlink(missing_ok=True)
    return leftovers


def _entries(directory: Path) -> list[Path]:
    with _told(f"the CDI folder {directory} cannot be read"), suppress(FileNotFoundError):
        return list(directory.iterdir())
    return []


def _is_leftover(name: str) -> bool:
    match = _TEMPORARY.fullmatch(name)
    return match is not None and claim_uid_of(match[1]) is not None


def _holds(path: Path, content: bytes) -> bool:
    """Whether the path is a regular file with this content. A link is not followed, so it gets replaced."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
    with os.fdopen(descriptor, "rb") as file:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and file.read(len(content) + 1) == content


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _MODE)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _sync_folder(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn an OSError into a NodeError that says what could not be done, why, and what helps."""
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "check the folder and its file system, then retry")
        raise NodeError(f"{what}: {error.strerror or error}", hint=hint) from error
