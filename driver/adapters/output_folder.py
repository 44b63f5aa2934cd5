"""Writes a whole folder of results, or nothing of it.

The files are written into a new folder beside the target and take its place by rename, so that a reader, or the next
run after a crash, never sees half a result. A folder that was not made by this module is never replaced.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from driver.errors import InputError, NodeError

__all__ = ["MARKER", "check_replaceable", "replace_folder"]

MARKER: Final = ".made-by-rootport"
"""A file that says that the folder's content may be replaced."""


def check_replaceable(target: Path) -> None:
    """Refuse a target whose content is not ours, before any work is done for it.

    Raises:
        InputError: The target is a file, a link, or a folder with content that this module did not write.
    """
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"--out {target}: not a folder", hint="name a new or empty folder")
    try:
        foreign = target.is_dir() and not (target / MARKER).exists() and any(target.iterdir())
    except OSError as error:
        raise InputError(f"--out {target}: cannot be read: {error.strerror}") from error
    if foreign:
        raise InputError(
            f"--out {target}: holds files that rootport did not write; it would have to delete them",
            hint="name a new or empty folder",
        )


def replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Make ``target`` hold exactly these files.

    Args:
        target: The folder; parents are made.
        files: Relative path → content. The paths are the caller's own making, never a claim's text.

    Raises:
        InputError: As :func:`check_replaceable`.
        NodeError: Something could not be written (full disk, no permission); the target is as it was.
    """
    check_replaceable(target)
    target = target.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
    except OSError as error:
        raise NodeError(f"--out {target}: cannot be made: {error.strerror}") from error
    try:
        (fresh / MARKER).touch()
        for name, content in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        fresh.chmod(0o755)  # mkdtemp makes it 0700
        _swap(fresh, target)
    except OSError as error:
        raise NodeError(f"--out {target}: cannot be written: {error.strerror}; it is as it was before") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _swap(fresh: Path, target: Path) -> None:
    """Put ``fresh`` in the target's place; what was there is gone afterwards."""
    if not target.exists():
        fresh.rename(target)
        return
    # A folder cannot be renamed over one that has content. Between these two renames a crash leaves no target, but
    # both the old and the new content whole, under their temporary names.
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old-", dir=target.parent))
    target.rename(old / target.name)
    try:
        fresh.rename(target)
    except OSError:
        (old / target.name).rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
