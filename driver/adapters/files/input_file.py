"""Opens the files that a user names, regular files only, and turns every failure into one message."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from driver.errors import InputError

__all__ = ["open_input", "path_name", "read_all", "read_input", "read_text", "unreadable"]

_MIB: Final = 1024**2


def path_name(path: Path) -> str:
    """Return a path for a message, escaped if a terminal could not show it."""
    text = str(path)
    return text if text.isprintable() else repr(text)


def unreadable(path: Path, error: OSError, what: str) -> InputError:
    """Return the error for a path that cannot be read.

    ``what`` is what the user should name instead.
    """
    return InputError(f"{path_name(path)}: cannot be read: {error.strerror or error}", hint=f"name {what}")


def open_input(path: Path, what: str, *, pipe: bool = False) -> BinaryIO:
    """Open a regular file to read its bytes.

    Args:
        path: The file.
        what: What the file should be, with its article, for messages: ``a file of manifests``.
        pipe: Whether it may also be a pipe, which is read until its writers have closed it.

    Raises:
        InputError: The path cannot be opened, or is a folder, a pipe, a socket or a device.
    """
    try:
        # Checked before it is opened, since opening acts on some devices; and after, as the name may mean another file.
        # A pipe without a writer would block, were it not for O_NONBLOCK, which means nothing to a regular file.
        is_right = _can_be_read(path.stat().st_mode, pipe=pipe)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) if is_right else None
        if descriptor is not None and not _can_be_read(os.fstat(descriptor).st_mode, pipe=pipe):
            os.close(descriptor)
            descriptor = None
        if descriptor is not None and pipe:
            os.set_blocking(descriptor, True)
    except OSError as error:
        raise unreadable(path, error, what) from error
    except ValueError as error:  # a NUL character in the name
        raise InputError(f"{path_name(path)}: cannot be read: {error}", hint=f"name {what}") from error
    if descriptor is None:
        raise InputError(f"{path_name(path)}: not a regular file", hint=f"name {what}")
    return os.fdopen(descriptor, "rb")


def _can_be_read(mode: int, *, pipe: bool) -> bool:
    return stat.S_ISREG(mode) or (pipe and stat.S_ISFIFO(mode))


def read_input(path: Path, limit: int, what: str, *, too_large: str | None = None) -> bytes:
    """Return all bytes of a regular file.

    Args:
        path: The file.
        limit: The most bytes to read, in whole MiB.
        what: What the file should be, with its article, for messages.
        too_large: What to do about a larger file, for the message.

    Raises:
        InputError: The file cannot be read, is no regular file, or is larger than ``limit``.
    """
    try:
        with open_input(path, what) as stream:
            return read_all(stream, path_name(path), limit, what, too_large=too_large)
    except OSError as error:
        raise unreadable(path, error, what) from error


def read_all(stream: BinaryIO, source: str, limit: int, what: str, *, too_large: str | None = None) -> bytes:
    """Return all bytes of an open file.

    Args:
        stream: The file.
        source: Its name in messages.
        limit: The most bytes to read, in whole MiB.
        what: What the file should be, with its article, for messages.
        too_large: What to do about a larger file, for the message.

    Raises:
        InputError: The file is larger than ``limit``.
        OSError: The file cannot be read.
    """
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"{source}: larger than {limit // _MIB} MiB, the most that is read of {what}", hint=too_large)
    return data


def read_text(path: Path, limit: int, what: str) -> str:
    """Return a regular file's text; the arguments are those of :func:`read_input`.

    Raises:
        InputError: As for :func:`read_input`, and where the file is not UTF-8.
    """
    try:
        return read_input(path, limit, what).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path_name(path)}: not UTF-8 text: {error.reason}", hint=f"name {what}") from error
