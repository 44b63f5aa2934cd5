"""Holds the settings of the conversion that the administrator's resource map makes, as its file changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from driver.adapters.files.file_in_force import FileInForce
from driver.adapters.files.resource_map_file import read_map
from driver.api import API_VERSION
from driver.api.resource_map import ResourceMap
from driver.convert import Settings
from driver.convert.resource_map import settings_of

__all__ = ["ResourceMapInForce"]


class ResourceMapInForce:
    """Called, gives the settings; looks each time whether the file has changed. Thread-safe.

    Args:
        path: The file; None for the defaults always.
        flag: The flag that names the file, for messages.
        clock: Monotonic seconds.

    Raises:
        InputError: The file is not valid, or its folder does not exist.
    """

    def __init__(self, path: Path | None, *, flag: str, clock: Callable[[], float] = time.monotonic) -> None:
        empty = ResourceMap.model_validate({"apiVersion": API_VERSION, "kind": ResourceMap.KIND})
        self._file = FileInForce(path, read=read_map, default=empty, flag=flag, kind=ResourceMap.KIND, clock=clock)
        self._lock = threading.Lock()
        self._settings = settings_of(self._file.now)

    def __call__(self) -> Settings:
        """Return the settings in force: the same object until they change."""
        with self._lock:
            if self._file.reload():
                self._settings = settings_of(self._file.now)
            return self._settings
