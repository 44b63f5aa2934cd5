"""Removes a folder that a container could write to, whatever is in it: links, deep trees, a million files."""

from __future__ import annotations

import errno
import os
import secrets
import time
from pathlib import Path
from typing import Final

from driver.errors import NodeError

__all__ = ["remove_foreign"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_foreign(path: Path, *, keep_folder: bool = False, timeout_s: float) -> None:
    """Remove a folder with all that is in it, or a file or link in its place. One that is not there is fine.

    No link is followed. What is nested is lifted to the top before it is removed, so that depth costs neither recursion
    nor open files (a tree may be deeper than any path can be long).

    Args:
        path: Below folders that nobody else can write to.
        keep_folder: Whether only what is in it is to go.
        timeout_s: When to stop; a later call goes on.

    Raises:
        NodeError: There is more in it than can be removed in that time.
        OSError: Something cannot be removed.
    """
    deadline = time.monotonic() + timeout_s
    try:
        top = os.open(path, _FOLDER)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):  # a file; a link
            raise
        path.unlink(missing_ok=True)
        return
    try:
        while _remove_entries(top, deadline, path):
            pass
    finally:
        os.close(top)
    if not keep_folder:
        path.rmdir()


def _remove_entries(top: int, deadline: float, path: Path) -> bool:
    """Remove what is seen in a folder in one pass; whether there was anything."""
    found = False
    with os.scandir(top) as entries:
        for entry in entries:
            found = True
            if time.monotonic() > deadline:
                raise NodeError(
                    f"{path} has more files in it than can be removed at once",
                    hint="a container has put them there; it is gone on with when this is tried again",
                )
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=top)
            elif _lift_folders(top, entry.name, deadline):
                os.rmdir(entry.name, dir_fd=top)
    return found


def _lift_folders(top: int, name: str, deadline: float) -> bool:
    """Empty a folder, whose own folders go to the top; whether it is empty, in time."""
    folder = os.open(name, _FOLDER, dir_fd=top)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if time.monotonic() > deadline:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    os.rename(entry.name, f".{secrets.token_hex(8)}", src_dir_fd=folder, dst_dir_fd=top)
                else:
                    os.unlink(entry.name, dir_fd=folder)
        with os.scandir(folder) as entries:  # a pass over a folder that changes may leave something out
            return next(entries, None) is None
    finally:
        os.close(folder)
