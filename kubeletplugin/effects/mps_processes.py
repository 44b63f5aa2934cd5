"""Finds and ends the processes of one MPS control daemon: the daemon, its servers, and commands to it that hang.

They are found by what the kernel reports of them, not by the daemon's pid file: that lies in the pipe folder, which a
client of the daemon's own user can write to, and a daemon that is just starting has none. A process is one of them if
it is NVIDIA's program by name, and its ``/`` is the folder of the host in which the pipe folder that it was started for
is this one. Nothing in a pod's container can pass for one; and a daemon is found after ``--device-root`` was changed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from kubeletplugin.child_processes import ended

__all__ = ["MpsProcesses", "mps_processes"]

_PROC: Final = Path("/proc")
_DAEMON: Final = b"nvidia-cuda-mps-control"
_SERVER: Final = b"nvidia-cuda-mps-server"
_VARIABLE: Final = b"CUDA_MPS_PIPE_DIRECTORY="
# Linux, TASK_COMM_LEN (include/linux/sched.h): /proc/<pid>/comm has the first 15 characters.
_COMM: Final = b"nvidia-cuda-mps"


class _Found(NamedTuple):
    handle: int
    program: bytes
    age_s: float


class MpsProcesses:
    """Processes that cannot be mistaken for others, even where their numbers are given again.

    Args:
        found: Of each its pidfd, its program, and for how many seconds it has run.

    Attributes:
        daemon: Whether the daemon itself, or a command to it, is among them; a server may outlive it.
        daemon_age_s: For how many seconds it has run; 0 where it is not.
    """

    def __init__(self, found: Collection[_Found]) -> None:
        self._handles = tuple(process.handle for process in found)
        # The oldest is the daemon: commands to it are the same program.
        daemons = [process for process in found if process.program == _DAEMON]
        self._daemon = max(daemons, key=lambda process: process.age_s, default=None)
        self.daemon = self._daemon is not None
        self.daemon_age_s = self._daemon.age_s if self._daemon else 0.0

    def __bool__(self) -> bool:
        """Whether there was any."""
        return bool(self._handles)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all have ended; return whether they have."""
        deadline = time.monotonic() + timeout_s
        return all(ended(handle, deadline - time.monotonic()) for handle in self._handles)

    def daemon_handle(self) -> int | None:
        """Return a pidfd of the daemon, which the caller closes; None where it does not run."""
        return os.dup(self._daemon.handle) if self._daemon else None

    def terminate(self) -> None:
        """Send SIGTERM to all."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to all."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for handle in self._handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)


@contextmanager
def mps_processes(pipe: Path) -> Iterator[MpsProcesses]:
    """Yield the processes of the daemon of a pipe folder.

    Args:
        pipe: The folder as this process sees it.
    """
    found = list(_find(os.fsencode(pipe)))
    try:
        yield MpsProcesses(found)
    finally:
        for process in found:
            os.close(process.handle)


def _find(pipe: bytes) -> Iterator[_Found]:
    for process in _PROC.iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):
            if (process / "comm").read_bytes().strip() != _COMM:
                continue
            # The handle first: what is read after that is of the process that the handle holds, or of none.
            handle = os.pidfd_open(int(process.name))
            try:
                program, age_s = _program(process, pipe), _age_s(process)
            except OSError:
                program, age_s = None, 0.0
            if program is None:
                os.close(handle)
            else:
                yield _Found(handle, program, age_s)


def _age_s(process: Path) -> float:
    """Return the seconds for which it has run (proc(5): field 22 of stat, since the boot)."""
    ticks = int((process / "stat").read_bytes().rpartition(b")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _program(process: Path, pipe: bytes) -> bytes | None:
    program = (process / "cmdline").read_bytes().partition(b"\0")[0].rpartition(b"/")[2]
    if program not in (_DAEMON, _SERVER):
        return None
    variables = (process / "environ").read_bytes().split(b"\0")
    seen = next((item.removeprefix(_VARIABLE) for item in variables if item.startswith(_VARIABLE)), b"")
    if not seen.startswith(b"/") or not pipe.endswith(seen):
        return None
    root = os.fsdecode(pipe.removesuffix(seen)) or "/"
    return program if (process / "root").samefile(root) else None
