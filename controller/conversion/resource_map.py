"""Holds the resource map in force: read from a file at start, and again when the file changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from driver.adapters.files.file_in_force import FileInForce
from driver.adapters.files.resource_map_file import read_resource_map
from driver.convert import DEFAULT, Settings

__all__ = ["ResourceMapInForce"]

_LOOK_EVERY_S: Final = 1.0


class ResourceMapInForce:
    """The resource map in force, for reviews in several threads.

    Args:
        path: The file; None to map nothing.
        clock: Monotonic seconds.

    Raises:
        InputError: The file is not valid, or its folder does not exist.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = FileInForce(
            path, default=DEFAULT, read=read_resource_map, kind="ResourceMap", flag="--convert-resources", clock=clock
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = clock()

    def settings(self) -> Settings:
        """Return how to convert now; the file is looked at once a second at most."""
        with self._lock:
            if self._clock() >= self._looked_at + _LOOK_EVERY_S:
                self._looked_at = self._clock()
                self._file.reload()
            return self._file.now
