"""Opens the files that a user names: regular files alone, and every reason why one cannot be read is one message."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from driver.errors import InputError

__all__ = ["open_input", "path_name", "read_input", "unreadable"]

_MIB: Final = 1024**2


def path_name(path: Path) -> str:
    """A path for a message: as it is, or escaped where a terminal could not show it."""
    text = str(path)
    return text if text.isprintable() else repr(text)


def unreadable(path: Path, error: OSError, what: str) -> InputError:
    """The error for a path that the system does not let us read; ``what`` is what it should name."""
    return InputError(f"{path_name(path)}: cannot be read: {error.strerror or error}", hint=f"name {what}")


def open_input(path: Path, what: str) -> BinaryIO:
    """Open a regular file to read its bytes.

    Args:
        path: The file.
        what: What it should be, with its article, for messages: ``a file of manifests``.

    Raises:
        InputError: It cannot be opened, or is a folder, a pipe, a socket or a device.
    """
    try:
        # Asked before it is opened, as to open is an act on some devices; and after, as the name may mean another file.
        # A pipe without a writer would block, were it not for O_NONBLOCK, which means nothing to a regular file.
        regular = stat.S_ISREG(path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) if regular else None
        if descriptor is not None and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            descriptor = None
    except OSError as error:
        raise unreadable(path, error, what) from error
    except ValueError as error:  # a NUL character in the name
        raise InputError(f"{path_name(path)}: cannot be read: {error}", hint=f"name {what}") from error
    if descriptor is None:
        raise InputError(f"{path_name(path)}: not a regular file", hint=f"name {what}")
    return os.fdopen(descriptor, "rb")


def read_input(path: Path, limit: int, what: str, *, too_large: str | None = None) -> bytes:
    """All bytes of a regular file.

    Args:
        path: The file.
        limit: The most bytes that are read, in whole MiB.
        what: What it should be, with its article, for messages.
        too_large: What to do about a file that is larger, for the message.

    Raises:
        InputError: It cannot be read, is no regular file, or is larger than ``limit``.
    """
    try:
        with open_input(path, what) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise unreadable(path, error, what) from error
    if len(data) > limit:
        raise InputError(
            f"{path_name(path)}: larger than {limit // _MIB} MiB, the most that is read of {what}", hint=too_large
        )
    return data
