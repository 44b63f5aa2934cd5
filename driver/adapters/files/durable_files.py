"""Writes and removes single files so that a crash, a full disk or a power cut leaves the old file or the new one.

A file is written under a temporary name that no reader takes for its own, synced, and renamed into place; then the
folder is synced, since the rename itself is only on disk after that (rename(2), fsync(2)). What cannot be done is told
as a NodeError: which file, why, and what helps.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from driver.errors import NodeError

__all__ = [
    "entries",
    "file_holds",
    "file_signature",
    "read_regular_file",
    "remove_file",
    "remove_temporary_files",
    "replace_file",
    "sync_folder",
    "told",
]

_TEMPORARY: Final = re.compile(r"\.(.+)\.[a-z0-9_]+\.tmp", re.ASCII)
"""What :func:`replace_file` makes of a file's name."""

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


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn an OSError into a NodeError that says what could not be done, why, and what helps.

    Args:
        what: A clause such as ``claim a/b (uid c): the CDI spec /x cannot be written``.

    Raises:
        NodeError: In place of any OSError of the body.
    """
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "check the folder and its file system, then retry")
        raise NodeError(f"{what}: {error.strerror or error}", hint=hint) from error


def replace_file(path: Path, content: bytes, *, mode: int = _MODE, sync: bool = True) -> None:
    """Make ``path`` a file with this content: the whole of it or, after an error, what was there before.

    The folder is not synced: see :func:`sync_folder`, once for several files.

    Args:
        path: Its folder exists. A link or a FIFO in its place is replaced, never followed.
        content: All of it.
        mode: Permissions, whatever the umask.
        sync: Whether the content must be on disk before the name. Without it a power cut, and nothing less, may leave
            an empty file.

    Raises:
        OSError: The file could not be written; the temporary file is gone.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            if sync:
                os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def remove_file(path: Path) -> None:
    """Remove a file, durably. One that is not there, or whose folder is not, is fine.

    Raises:
        OSError: The file could not be removed.
    """
    with suppress(FileNotFoundError):
        path.unlink(missing_ok=True)
        sync_folder(path.parent)


def sync_folder(directory: Path) -> None:
    """Put the names in a folder on disk.

    Raises:
        OSError: The folder is not there or could not be synced.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular_file(path: Path, limit: int) -> bytes | None:
    """The first ``limit`` bytes of a regular file, or None where something else stands in its place.

    Nothing but a regular file is read: a link is not followed, and a FIFO does not block.

    Raises:
        FileNotFoundError: There is nothing.
        OSError: It could not be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            return None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def file_holds(path: Path, content: bytes) -> bool:
    """Whether the path is a regular file with exactly this content.

    Raises:
        OSError: It is there and could not be read.
    """
    try:
        return read_regular_file(path, len(content) + 1) == content
    except FileNotFoundError:
        return False


def file_signature(path: Path) -> tuple[int, ...] | None:
    """What changes when another file stands in a path's place, or its content; None where there is nothing.

    Raises:
        OSError: It could not be found out.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def entries(directory: Path) -> list[Path]:
    """What is in a folder, in no order; nothing where there is no folder.

    Raises:
        OSError: The folder could not be read.
    """
    with suppress(FileNotFoundError):
        return list(directory.iterdir())
    return []


def remove_temporary_files(directory: Path, is_ours: Callable[[str], bool]) -> tuple[Path, ...]:
    """Remove what writes that a crash cut short have left in a folder, and return it, sorted.

    Not to be called while another call may be writing to the folder: its file would be taken for a leftover.

    Args:
        directory: The folder; one that is not there holds none.
        is_ours: Whether a file of that final name is the caller's to write.

    Raises:
        NodeError: The folder could not be read, or a file not be removed.
    """
    with told(f"the folder {directory} cannot be read"):
        found = [
            path for path in entries(directory) if (match := _TEMPORARY.fullmatch(path.name)) and is_ours(match[1])
        ]
    for path in found:
        with told(f"the leftover {path} cannot be removed"):
            path.unlink(missing_ok=True)
    return tuple(sorted(found))
