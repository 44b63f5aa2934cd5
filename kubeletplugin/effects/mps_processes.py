"""Finds and ends the processes of one MPS control daemon: the daemon, its servers, and commands to it that hang.

They are found by what the kernel says of them, not by the daemon's pid file: that lies in the pipe folder, which a
client of the daemon's own user can write to, and a daemon that is just starting has none. A process is one of them if
it is NVIDIA's program by name, was started for this pipe folder, and has the driver's root for its ``/`` (so that
nothing in a pod's container can pass for one).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kubeletplugin.effects.host_command import ended

__all__ = ["MpsProcesses", "mps_processes"]

_PROC: Final = Path("/proc")
_DAEMON: Final = b"nvidia-cuda-mps-control"
_SERVER: Final = b"nvidia-cuda-mps-server"
# Linux, TASK_COMM_LEN (include/linux/sched.h): /proc/<pid>/comm has the first 15 characters.
_COMM: Final = b"nvidia-cuda-mps"


class MpsProcesses:
    """Processes that cannot be mistaken for others, even where their numbers are given again.

    Args:
        handles: Their pidfds, each with its program.

    Attributes:
        daemon: Whether the daemon itself, or a command to it, is among them; a server may outlive it.
    """

    def __init__(self, handles: Collection[tuple[int, bytes]]) -> None:
        self._handles = tuple(handle for handle, _ in handles)
        self.daemon = any(program == _DAEMON for _, program in handles)

    def __bool__(self) -> bool:
        """Whether there was any."""
        return bool(self._handles)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all have ended; True where they have."""
        deadline = time.monotonic() + timeout_s
        return all(ended(handle, deadline - time.monotonic()) for handle in self._handles)

    def kill(self) -> None:
        """Send SIGKILL to all."""
        for handle in self._handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)


@contextmanager
def mps_processes(root: Path, pipe: str) -> Iterator[MpsProcesses]:
    """The processes of the daemon of a pipe folder.

    Args:
        root: What they have for ``/``.
        pipe: The folder as they see it: their CUDA_MPS_PIPE_DIRECTORY.
    """
    handles = list(_find(root, f"CUDA_MPS_PIPE_DIRECTORY={pipe}".encode()))
    try:
        yield MpsProcesses(handles)
    finally:
        for handle, _ in handles:
            os.close(handle)


def _find(root: Path, variable: bytes) -> Iterator[tuple[int, bytes]]:
    for process in _PROC.iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):
            if (process / "comm").read_bytes().strip() != _COMM:
                continue
            # The handle first: what is read after that is of the process that the handle holds, or of none.
            handle = os.pidfd_open(int(process.name))
            try:
                program = _program(process, root, variable)
            except OSError:
                program = None
            if program is None:
                os.close(handle)
            else:
                yield handle, program


def _program(process: Path, root: Path, variable: bytes) -> bytes | None:
    program = (process / "cmdline").read_bytes().partition(b"\0")[0].rpartition(b"/")[2]
    ours = (
        program in (_DAEMON, _SERVER)
        and variable in (process / "environ").read_bytes().split(b"\0")
        and (process / "root").samefile(root)
    )
    return program if ours else None
