"""Holds what an administrator's file says: read at start, and again when the file changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from driver.adapters.files.input_file import path_name
from driver.adapters.files.no_policies import file_version
from driver.errors import InputError

__all__ = ["FileInForce"]

_LOG: Final = logging.getLogger(__name__)
_RELOAD_ANYWAY_S: Final = 60.0

T = TypeVar("T")


class FileInForce(Generic[T]):
    """Keeps what a file says while it is valid, and its last valid content while it is not.

    A missing file in an existing folder means the default, as with a ConfigMap mounted as optional. (A missing folder
    is a wrong path.)

    Args:
        path: The file; None to use the default always.
        default: What holds without a file.
        read: Reads the file; raises InputError if it is not valid.
        kind: The kind of the object in the file, for the log.
        flag: The flag that names the file, for messages.
        clock: Monotonic seconds.

    Raises:
        InputError: The file is not valid, or its folder does not exist.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        default: T,
        read: Callable[[Path], T],
        kind: str,
        flag: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._default = default
        self._read_file = read
        self._fields = {"kind": kind, "file": str(path)}
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = clock()
        self._mark: object = None
        self._now = default
        if path is not None:
            if not path.parent.is_dir():
                raise InputError(f"{flag} {path_name(path)}: there is no folder {path_name(path.parent)}")
            self._mark = file_version(path)
            self._now = self._read(path)

    @property
    def now(self) -> T:
        """What is in force."""
        with self._lock:
            return self._now

    def reload(self) -> bool:
        """Read the file again if it has changed or a minute has passed. Not thread-safe.

        An invalid file is logged each time it is read, and what was in force stays.

        Returns:
            Whether something else is in force now.
        """
        if self._path is None:
            return False
        mark, now = file_version(self._path), self._clock()
        if mark == self._mark and now - self._read_at < _RELOAD_ANYWAY_S:
            return False
        self._mark, self._read_at = mark, now
        try:
            found = self._read(self._path)
        except InputError as error:
            _LOG.error("the file is wrong: what was in force stays", extra=self._fields | {"error": str(error)})
            return False
        with self._lock:
            changed = found != self._now
            self._now = found
        if changed:
            _LOG.info("what the file says now is in force", extra=self._fields)
        return changed

    def _read(self, path: Path) -> T:
        if not path.exists():
            _LOG.warning("there is no such file: the default holds", extra=self._fields)
            return self._default
        return self._read_file(path)
