"""One lock over the plugin's state: between the threads of a process, and between two instances on one node.

During a rolling update two instances of the plugin share the state folder, and the kubelet may call either. The lock is
flock(2) on a file, which the kernel lets go when its holder dies, so a crash never leaves it taken.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from driver.adapters.files.durable_files import os_errors_as_node_errors
from driver.errors import NodeError

__all__ = ["FileLock"]

_FIRST_PAUSE_S: Final = 0.001
_LONGEST_PAUSE_S: Final = 0.02
_MAX_HOLDER: Final = 256


class FileLock:
    """A lock that one thread of one process holds at a time.

    Args:
        path: The lock's file; made, with its folder, where missing. Its content names the last holder, for messages.
        holder: The name of this process there.
        timeout_s: Seconds to wait for the lock. Far below the 45 s after which the kubelet gives a call up
            (pkg/kubelet/cm/dra/plugin of Kubernetes 1.36), so that it reads why.
    """

    def __init__(self, path: Path, *, holder: str, timeout_s: float = 10.0) -> None:
        self._path = path
        self._holder = holder.encode()[:_MAX_HOLDER]
        self._timeout_s = timeout_s
        self._threads = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for the body; not to be nested in one thread.

        Raises:
            NodeError: The lock was not to be had in time, or its file cannot be opened.
        """
        deadline = time.monotonic() + self._timeout_s
        if not self._threads.acquire(timeout=self._timeout_s):
            raise self.late()
        try:
            with os_errors_as_node_errors(f"the lock of the plugin's state {self._path} cannot be taken"):
                descriptor = self._taken(deadline)
            try:
                self._sign(descriptor)
                yield
            finally:
                os.close(descriptor)
        finally:
            self._threads.release()

    def late(self) -> NodeError:
        """Return the error of a thread that has waited too long for others of this process."""
        return self._late("another call to this instance")

    def _taken(self, deadline: float) -> int:
        """Return the locked file's descriptor; closing it unlocks."""
        pause = _FIRST_PAUSE_S
        while True:
            descriptor = self._open()
            taken = False
            try:
                taken = self._try(descriptor)
                if taken:
                    return descriptor
                if time.monotonic() >= deadline:
                    raise self._late(f"instance {self._last_holder(descriptor)}")
            finally:
                if not taken:
                    os.close(descriptor)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _try(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # A lock on a file that was removed meanwhile excludes nobody.
        return self._is_current(descriptor)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            return os.open(self._path, flags, 0o600)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _sign(self, descriptor: int) -> None:
        """Name the holder, for the message of whoever waits; a full disk is no reason not to hold the lock."""
        with suppress(OSError):
            if os.pread(descriptor, _MAX_HOLDER + 1, 0) != self._holder:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, self._holder, 0)

    def _last_holder(self, descriptor: int) -> str:
        with suppress(OSError):
            name = os.pread(descriptor, _MAX_HOLDER, 0).decode("utf-8", errors="replace")
            return name if name.isprintable() and name else "unknown"
        return "unknown"

    def _late(self, who: str) -> NodeError:
        return NodeError(
            f"the plugin's state is in use: {who} has held the lock {self._path} for more than {self._timeout_s:g} s",
            hint="the kubelet retries; if this stays, look for an instance of the plugin that hangs",
        )
