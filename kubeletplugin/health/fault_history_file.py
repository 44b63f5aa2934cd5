"""The history of faults as a file that outlives the process: ``health.json`` in the plugin's folder."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from driver.adapters.files.durable_files import (
    file_signature,
    os_errors_as_node_errors,
    read_regular_file,
    remove_temporary_files,
    replace_file,
)
from driver.errors import RootportError
from driver.health.fault_history import HISTORY_VERSION, FaultHistory, UnreadableHistoryError, from_json, to_json
from kubeletplugin.state.migrations import newer_version

__all__ = ["HEALTH_FILE", "FaultHistoryFile"]

_LOG: Final = logging.getLogger(__name__)

HEALTH_FILE: Final = "health.json"
_MAX_BYTES: Final = 4 << 20


class FaultHistoryFile:
    """The history's file. Both instances of a rolling update write it as a whole, and read what the other wrote.

    Args:
        path: The file; its folder is made where it is missing.
        boot_id: The node's ``/proc/sys/kernel/random/boot_id``; what is of another boot is forgotten.
    """

    def __init__(self, path: Path, *, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id
        self._written = FaultHistory(boot_id=boot_id).write_key()  # of no file
        self._known: object = None

    def load(self) -> FaultHistory:
        """Return the history, empty if there is no file. A file that cannot be read is set aside with a warning."""
        memory = FaultHistory(boot_id=self._boot_id)
        # What a crash has left behind. Should the other instance be writing right now, it writes again.
        with suppress(RootportError):
            remove_temporary_files(self._path.parent, lambda name: name == self._path.name)
        content = b""
        try:
            # What is no file, or too long, is no JSON either.
            content = read_regular_file(self._path, _MAX_BYTES) or b""
            memory = from_json(content, boot_id=self._boot_id)
        except FileNotFoundError:
            return memory
        except (OSError, UnreadableHistoryError) as error:
            version = newer_version(content, HISTORY_VERSION)
            ending = "unreadable" if version is None else f"v{version}"
            aside = self._path.with_name(f"{self._path.name}.{ending}")
            _LOG.warning(
                "what was known of the devices' faults cannot be read, and is set aside: Xid errors of before are "
                "forgotten",
                extra={"path": self._path, "aside": aside, "error": error},
            )
            with suppress(OSError):  # it is written over then
                self._path.replace(aside)
            return memory
        self._written = memory.write_key()
        return memory

    def read_others(self) -> FaultHistory | None:
        """Return what the other instance has written since this one last read or wrote the file; None if nothing."""
        try:
            signature = file_signature(self._path)
            if signature == self._known:
                return None
            self._known = signature
            return from_json(read_regular_file(self._path, _MAX_BYTES) or b"", boot_id=self._boot_id)
        except (OSError, UnreadableHistoryError):
            return None  # it is told at a start, and written over

    def save(self, memory: FaultHistory) -> None:
        """Write it, if something of it counts that is not there yet.

        The folder is not synced: only a power cut can bring the former file back, and a boot ends all of it.

        Raises:
            NodeError: It could not be written.
        """
        key = memory.write_key()
        if key == self._written:
            return
        with os_errors_as_node_errors(f"what is known of the devices' faults cannot be written to {self._path}"):
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            replace_file(self._path, to_json(memory), mode=0o600, sync=False)
            self._known = file_signature(self._path)
        self._written = key
