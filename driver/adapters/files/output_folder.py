"""Writes a whole folder of results, or leaves the old one as it is.

The files are written into a new folder beside the target and take its place by rename, so that a reader, or the next
run after a crash, never sees half a result. A folder that holds anything not made by this module is never replaced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from driver.errors import InputError, NodeError

__all__ = ["MARKER", "check_replaceable", "replace_folder"]

MARKER: Final = ".made-by-rootport"
"""A file that lists the folder's files that may be replaced: one relative path a line, sorted."""

_MAX_MARKER: Final = 64 << 20
"""Bytes. A longer marker is none of ours: a result of a million files has a shorter one."""

_BAD_NAME: Final = frozenset({errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR})
"""The errors that mean that no folder can ever have this name: the user's mistake, not the node's state."""

_NOT_MOVABLE: Final = frozenset({errno.EBUSY, errno.EXDEV})
"""The errors of rename(2) for a mount point."""


def check_replaceable(target: Path) -> None:
    """Refuse a target whose content this module did not write, before any work is done for it.

    Raises:
        InputError: The target is a file, a link, the current folder or one above it, a folder with content that this
            module did not write, or it cannot be read.
    """
    here = _current_folder(target)
    place = _located(target)
    try:
        status = place.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"--out {target}: cannot be read: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise InputError(f"--out {target}: not a folder", hint="name a new or empty folder")
    try:
        around = any(os.path.samestat(status, folder.stat()) for folder in (here, *here.parents))
        foreign = None if around else _foreign(place)
    except OSError as error:
        raise InputError(f"--out {target}: cannot be read: {error.strerror}") from error
    if around:
        raise InputError(f"--out {target}: is (or holds) the current folder", hint="name a folder below it")
    if foreign is not None:
        raise InputError(
            f"--out {target}: holds {foreign}, which rootport did not write; it would have to delete it",
            hint="name a new or empty folder",
        )


def replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Make ``target`` hold exactly these files.

    Args:
        target: The folder; parents are made.
        files: Relative path → content. The paths are the caller's own making, never a claim's text.

    Raises:
        InputError: As :func:`check_replaceable`, or no folder can have this name.
        NodeError: Something could not be written (full disk, no permission, a mount point). The target is as it was,
            or, where even that failed, the message names the folder that has its content.
    """
    check_replaceable(target)
    target = _located(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
    except OSError as error:
        kind = InputError if error.errno in _BAD_NAME else NodeError
        raise kind(f"--out {target}: cannot be made in {target.parent}: {error.strerror}") from error
    try:
        (fresh / MARKER).write_bytes(_marker(files))
        for name, content in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        fresh.chmod(0o755)  # mkdtemp makes it 0700
        _swap(fresh, target)
    except OSError as error:
        if error.errno in _NOT_MOVABLE:
            raise NodeError(
                f"--out {target}: is a mount point, which cannot be replaced; it is as it was before",
                hint="name a folder below it",
            ) from error
        raise NodeError(f"--out {target}: cannot be written: {error.strerror}; it is as it was before") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _current_folder(target: Path) -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise InputError(
            f"--out {target}: the current folder cannot be found: {error.strerror}",
            hint="change to a folder that exists",
        ) from error


def _located(target: Path) -> Path:
    """The target's absolute path, without links or ``..`` on the way; its last part may be a link."""
    try:
        return target.resolve() if target.name == ".." else target.parent.resolve() / target.name
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        raise InputError(f"--out {target}: cannot be resolved: {error}") from error


def _marker(names: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(f"{name}\n") for name in sorted(str(PurePosixPath(name)) for name in names))


def _listed(folder: Path) -> frozenset[str]:
    """Return the relative paths that the folder's marker allows, itself among them; none without a marker."""
    marker = folder / MARKER
    try:
        status = marker.lstat()
    except FileNotFoundError:
        return frozenset()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_MARKER:
        return frozenset()
    return frozenset({MARKER, *os.fsdecode(marker.read_bytes()).split("\n")})


def _foreign(folder: Path) -> str | None:
    """Return the first path below the folder that its marker does not list.

    A folder that leads to no listed file is foreign itself and is not entered, so the marker bounds the walk.
    """
    files = _listed(folder)
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            name = path.relative_to(folder).as_posix()
            is_folder = stat.S_ISDIR(path.lstat().st_mode)
            if name not in (folders if is_folder else files):
                return name
            if is_folder:
                waiting.append(path)
    return None


def _swap(fresh: Path, target: Path) -> None:
    """Put ``fresh`` in the target's place; the former content is deleted afterwards."""
    if not target.exists():
        fresh.rename(target)
        return
    # A folder cannot be renamed over one that has content. Between these two renames a crash leaves no target, but
    # both the old and the new content whole, under their temporary names.
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old-", dir=target.parent))
    former = old / target.name
    try:
        target.rename(former)
        fresh.rename(target)
    except BaseException:
        _restore(former, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _restore(former: Path, target: Path) -> None:
    """Put the former result back, if it was moved away at all."""
    try:
        if former.exists():
            former.rename(target)
    except OSError as error:
        raise NodeError(
            f"--out {target}: could neither be replaced nor put back: {error.strerror}; its former content is {former}",
            hint=f"move it back to {target}",
        ) from error
    with contextlib.suppress(OSError):
        former.parent.rmdir()  # not rmtree: content must stay, after any error
