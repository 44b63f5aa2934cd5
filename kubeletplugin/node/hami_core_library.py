"""HAMi-core on this node: its library, identified by a digest, since the file has no version."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Final

from driver.adapters.host import HostRoot
from driver.plan import HamiCoreLibrary

__all__ = ["HamiCoreFile"]

_LIMIT: Final = 64 * 1024 * 1024
_DIGITS: Final = 12


class HamiCoreFile:
    """The library's file; safe to use from several threads.

    Args:
        host: The host's ``/``.
        path: The library's path on the host.
    """

    def __init__(self, host: HostRoot, path: Path) -> None:
        self._host = host
        self._path = path
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, ...], HamiCoreLibrary] | None = None

    def found(self) -> HamiCoreLibrary | None:
        """Return the library as it is now, or None if it is not there. It is read again only after a change."""
        host = self._host.fresh()
        real = host.resolve(str(self._path).lstrip("/"))
        if real is None:
            return None
        try:
            status = (host.path / real).stat()
        except OSError:
            return None
        with self._lock:
            if self._known is None or self._known[0] != _signature(status):
                content = host.read_bytes(real, _LIMIT)
                if not content:
                    return None
                version = f"sha256:{hashlib.sha256(content).hexdigest()[:_DIGITS]}"
                self._known = (_signature(status), HamiCoreLibrary(host_path=f"/{real}", version=version))
            return self._known[1]


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
