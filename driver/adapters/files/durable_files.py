"""Writes and removes single files so that a crash, a full disk or a power cut leaves the old file or the new one.

A file is written under a temporary name that no reader takes for its own, synced, and renamed into place; then the
folder is synced, since the rename itself is only on disk after that (rename(2), fsync(2)). Who can restore a file after
a power cut leaves the syncs out. A failure becomes a NodeError that names the file, the reason and what helps.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from driver.errors import NodeError

__all__ = [
    "entries",
    "file_holds",
    "file_signature",
    "os_errors_as_node_errors",
    "read_regular_file",
    "remove_file",
    "remove_temporary_files",
    "replace_file",
    "sync_folder",
    "write_file",
]

_TEMPORARY: Final = re.compile(r"\.(.+)\.[a-z0-9_]+\.tmp", re.ASCII)
"""The names of the temporary files that :func:`replace_file` makes."""

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
def os_errors_as_node_errors(what: str) -> Iterator[None]:
    """Turn an OSError into a NodeError that says what could not be done, why, and what helps.

    Args:
        what: What failed, as a clause such as ``claim a/b (uid c): the CDI spec /x cannot be written``.

    Raises:
        NodeError: The body raised an OSError.
    """
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "check the folder and its file system, then retry")
        raise NodeError(f"{what}: {error.strerror or error}", hint=hint) from error


def replace_file(path: Path, content: bytes, *, mode: int = _MODE, sync: bool = True) -> None:
    """Replace a file by one with this content, or leave the old one in place if that fails.

    The folder is not synced: see :func:`sync_folder`, once for several files.

    Args:
        path: Its folder exists. A link or a FIFO in its place is replaced, never followed.
        content: The new content.
        mode: The permissions, independent of the umask.
        sync: Whether the content must be on disk before the name. Without it a power cut, and nothing less, may leave
            an empty file.

    Raises:
        OSError: The file could not be written; the temporary file is gone.
    """
    folder, name = os.path.split(path)
    # Not of the tempfile module, which takes several times as long: every pod's start waits for it.
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.tmp")  # noqa: PTH118 - paths are text here
    try:
        write_file(temporary, content, mode=mode, sync=sync)
        os.replace(temporary, path)  # noqa: PTH105 - as above
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - as above
        raise


def write_file(path: Path | str, content: bytes, *, mode: int = _MODE, sync: bool = False) -> None:
    """Write a file that is not there. A failure or a crash leaves a part of it.

    Args:
        path: Its folder exists.
        content: The content.
        mode: The permissions, independent of the umask.
        sync: Whether the content is to be on disk.

    Raises:
        FileExistsError: Something is there.
        OSError: It could not be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:  # by the umask
            os.fchmod(descriptor, mode)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_file(path: Path, *, sync: bool = True) -> None:
    """Remove a file. One that is not there, or whose folder is not, is fine.

    Args:
        path: The file.
        sync: Whether it must be gone from the disk as well. Without it a power cut, and nothing less, may bring it
            back.

    Raises:
        OSError: The file could not be removed.
    """
    with suppress(FileNotFoundError):
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - not of pathlib, which takes several times as long
        if sync:
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
    """Return the first ``limit`` bytes of a regular file, or None if the path is something else.

    A link is not followed, and a FIFO does not block.

    Raises:
        FileNotFoundError: The file does not exist.
        OSError: The file could not be read.
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
        OSError: The file exists and could not be read.
    """
    try:
        return read_regular_file(path, len(content) + 1) == content
    except FileNotFoundError:
        return False


def file_signature(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes with the file's identity or content; None if there is no file.

    Raises:
        OSError: The file's status could not be read.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def entries(directory: Path) -> list[Path]:
    """Return what a folder contains, in no order; nothing if the folder does not exist.

    Raises:
        OSError: The folder could not be read.
    """
    with suppress(FileNotFoundError):
        return list(directory.iterdir())
    return []


def remove_temporary_files(directory: Path, is_ours: Callable[[str], bool]) -> tuple[Path, ...]:
    """Remove the temporary files that a crash left in a folder, and return them, sorted.

    Must not run while another call writes to the folder: its file would be taken for a leftover.

    Args:
        directory: The folder; it need not exist.
        is_ours: Whether the caller owns files of that final name.

    Raises:
        NodeError: The folder could not be read, or a file not be removed.
    """
    with os_errors_as_node_errors(f"the folder {directory} cannot be read"):
        found = [
            path for path in entries(directory) if (match := _TEMPORARY.fullmatch(path.name)) and is_ours(match[1])
        ]
    for path in found:
        with os_errors_as_node_errors(f"the leftover {path} cannot be removed"):
            path.unlink(missing_ok=True)
    return tuple(sorted(found))
