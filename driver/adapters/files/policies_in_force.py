"""Holds the administrator's policies in force: read from a file at start, and again when the file changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from driver.adapters.files.input_file import path_name
from driver.adapters.files.no_policies import file_version
from driver.adapters.files.policies_file import read_policies
from driver.api.policies import PoliciesDocument
from driver.errors import InputError

__all__ = ["PoliciesInForce"]

_LOG: Final = logging.getLogger(__name__)
_RELOAD_ANYWAY_S: Final = 60.0

P = TypeVar("P", bound=PoliciesDocument)


class PoliciesInForce(Generic[P]):
    """Keeps what a policies file says while it is valid, and its last valid content while it is not.

    A missing file in an existing folder means the defaults, as with a ConfigMap mounted as optional. (A missing folder
    is a wrong path.)

    Args:
        path: The file; None to use the defaults always.
        default: The defaults. Their type is the kind of policies that the file holds.
        flag: The flag that names the file, for messages.
        clock: Monotonic seconds.

    Raises:
        InputError: The file is not valid, or its folder does not exist.
    """

    def __init__(
        self, path: Path | None, *, default: P, flag: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._default = default
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
    def now(self) -> P:
        """The policies in force."""
        with self._lock:
            return self._now

    def reload(self) -> bool:
        """Read the file again if it has changed or a minute has passed.

        An invalid file is logged each time it is read, and the former policies stay in force.

        Returns:
            Whether other policies are in force now.
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
            _LOG.error("policies are wrong: what was in force stays", extra=self._fields | {"error": str(error)})
            return False
        with self._lock:
            changed = found != self._now
            self._now = found
        if changed:
            _LOG.info("other policies are in force", extra=self._fields | {"policies": len(found.policies)})
        return changed

    @property
    def _fields(self) -> dict[str, object]:
        return {"kind": self._default.KIND}

    def _read(self, path: Path) -> P:
        if not path.exists():
            _LOG.warning("no policies file: the defaults hold", extra=self._fields | {"file": str(path)})
            return self._default
        return read_policies(path, type(self._default))
