"""Holds the resource map in force: read from a file at start, and again when the file changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from driver.adapters.files.input_file import path_name
from driver.adapters.files.no_policies import file_version
from driver.adapters.files.resource_map_file import read_resource_map
from driver.convert import DEFAULT, Settings
from driver.errors import InputError

__all__ = ["ResourceMapInForce"]

_LOG: Final = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 1.0


class ResourceMapInForce:
    """Keeps what a resource map says while it is valid, and its last valid content while it is not. Thread-safe.

    A missing file in an existing folder maps nothing, as with a ConfigMap mounted as optional.

    Args:
        path: The file; None to map nothing.
        clock: Monotonic seconds.

    Raises:
        InputError: The file is not valid, or its folder does not exist.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = clock()
        self._version: object = None
        self._settings = DEFAULT
        if path is not None:
            if not path.parent.is_dir():
                raise InputError(f"--convert-resources {path_name(path)}: there is no folder {path_name(path.parent)}")
            self._version = file_version(path)
            self._settings = self._read(path)

    def settings(self) -> Settings:
        """Return how to convert now; the file is looked at once a second at most."""
        with self._lock:
            if self._path is not None and self._clock() >= self._looked_at + _LOOK_EVERY_S:
                self._looked_at = self._clock()
                version = file_version(self._path)
                if version != self._version:
                    self._version = version
                    self._renew(self._path)
            return self._settings

    def _renew(self, path: Path) -> None:
        try:
            self._settings = self._read(path)
        except InputError as error:
            _LOG.error("the resource map is wrong: what was in force stays", extra={"error": str(error)})
        else:
            _LOG.info("another resource map is in force", extra={"file": str(path)})

    @staticmethod
    def _read(path: Path) -> Settings:
        if not path.exists():
            _LOG.warning("no resource map: nothing is mapped", extra={"file": str(path)})
            return DEFAULT
        return read_resource_map(path)
