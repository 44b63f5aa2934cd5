"""The administrator's policies in force: read from a file at the start, and again when the file changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from driver.adapters.files.input_file import path_name
from driver.adapters.files.policies_file import read_policies
from driver.api.policies import PoliciesDocument
from driver.errors import InputError

__all__ = ["PoliciesInForce"]

_LOG: Final = logging.getLogger(__name__)
_LOOK_ANYWAY_S: Final = 60.0

P = TypeVar("P", bound=PoliciesDocument)


class PoliciesInForce(Generic[P]):
    """What a file says, as long as it is right; what it said last, while it is wrong.

    A file that is not there in a folder that is there means the defaults: so is a ConfigMap mounted that is optional.
    (A folder that is not there either is a wrong path.)

    Args:
        path: The file; None for the defaults, always.
        default: The defaults. They say as well which kind of policies the file holds.
        flag: The flag by which a person names the file, for messages.
        clock: Monotonic seconds.

    Raises:
        InputError: The file is wrong, or its folder is not there.
    """

    def __init__(
        self, path: Path | None, *, default: P, flag: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._default = default
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = clock()
        self._mark: object = None
        self._now = default
        if path is not None:
            if not path.parent.is_dir():
                raise InputError(f"{flag} {path_name(path)}: there is no folder {path_name(path.parent)}")
            self._mark = _mark(path)
            self._now = self._read(path)

    @property
    def now(self) -> P:
        """What is in force."""
        with self._lock:
            return self._now

    def look(self) -> bool:
        """Read the file if it is another one than before, or a minute has passed; whether other rules are in force now.

        A wrong file is logged each time it is read, and what was in force stays.
        """
        if self._path is None:
            return False
        mark, now = _mark(self._path), self._clock()
        if mark == self._mark and now - self._looked_at < _LOOK_ANYWAY_S:
            return False
        self._mark, self._looked_at = mark, now
        try:
            found = self._read(self._path)
        except InputError as error:
            _LOG.error("policies are wrong: what was in force stays", extra=self._told | {"error": str(error)})
            return False
        with self._lock:
            changed = found != self._now
            self._now = found
        if changed:
            _LOG.info("other policies are in force", extra=self._told | {"policies": len(found.policies)})
        return changed

    @property
    def _told(self) -> dict[str, object]:
        return {"kind": self._default.KIND}

    def _read(self, path: Path) -> P:
        if not path.exists():
            _LOG.warning("no policies file: the defaults hold", extra=self._told | {"file": str(path)})
            return self._default
        return read_policies(path, type(self._default))


def _mark(path: Path) -> object:
    """What tells one file from another; a ConfigMap's file is a link to a folder that is swapped."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
