"""Tries whether a shared library loads, in a child process: its constructors may hang, crash, or take all memory.

It is loaded as HAMi-core is loaded in a container: by the dynamic linker, before a program starts (``LD_PRELOAD``),
with its functions bound when they are first called. What it needs of NVIDIA's is loaded before it from the host, by the
SONAME that it asks for (as in :mod:`kubeletplugin.node.nvml_library`). It runs as a user of its own, not as root.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from kubeletplugin.child_processes import bounded_output, ended, output_bytes

__all__ = ["loading_problem"]

TIMEOUT_S: Final = 3.0
"""A pod's start waits for it at most once after each change of the file; loading takes some hundredths of a second."""

_KILL_S: Final = 1.0
_MEMORY_BYTES: Final = 2 << 30  # of addresses; CUDA's library alone has hundreds of MiB
_CPU_S: Final = 10
_FILE_BYTES: Final = 1 << 20
_OUTPUT_LIMIT: Final = 16 * 1024
_SHOWN: Final = 300
_SIGNALLED: Final = 128  # as shells tell it
_ORPHANED_S: Final = 10  # when it ends although the plugin, which would have ended it, is gone
_PROGRAM: Final = "/bin/true"  # Python may lie where only root can read

_USER: Final = 65521
"""Nobody's: systemd and Debian give it to no one. ``nobody`` itself has processes on many nodes, which would count."""
_PROCESSES: Final = 16

# What the library's code leaves running ends with its process namespace, whose first process only waits for it. Where
# the kernel makes none, the process group is what is ended. The limit on processes comes after the change of the user:
# else the kernel would refuse to start the program where the limit is exceeded already.
_CONFINED: Final = f"""\
import ctypes, os, resource, signal, sys
for limit, value in (
    (resource.RLIMIT_AS, {_MEMORY_BYTES}),
    (resource.RLIMIT_CPU, {_CPU_S}),
    (resource.RLIMIT_FSIZE, {_FILE_BYTES}),
    (resource.RLIMIT_CORE, 0),
):
    resource.setrlimit(limit, (value, value))

def load():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid({_USER}, {_USER}, {_USER})
        os.setresuid({_USER}, {_USER}, {_USER})
        resource.setrlimit(resource.RLIMIT_NPROC, ({_PROCESSES}, {_PROCESSES}))
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    os.execve("{_PROGRAM}", ["{_PROGRAM}"], {{"LC_ALL": "C", "LIBCUDA_LOG_LEVEL": "0", "LD_PRELOAD": sys.argv[1]}})

def status(child):
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else {_SIGNALLED} - code

libc = ctypes.CDLL(None)
libc.unshare(0x20000000)  # CLONE_NEWPID
first = os.fork()
if first == 0:
    child = os.fork()
    if child == 0:
        load()
    os._exit(status(child))
for number in (signal.SIGTERM, signal.SIGALRM):
    signal.signal(number, lambda *_: os.kill(first, signal.SIGKILL))
signal.alarm({_ORPHANED_S})
os._exit(status(first))
"""


def loading_problem(library: Path, before: Sequence[Path] = (), *, timeout_s: float = TIMEOUT_S) -> str | None:
    """Return why a library does not load, for a message that names the file; None if it does.

    Args:
        library: The library, as this process sees it.
        before: Libraries that it may need, which are not installed where this process runs.
        timeout_s: When the attempt is given up.
    """
    with ExitStack() as stack, bounded_output(_OUTPUT_LIMIT) as output:
        handles = []
        try:
            for path in (*before, library):
                handles.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
                stack.callback(os.close, handles[-1])
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        # By its open file: a path could have a space or a colon in it, at which the linker would split it.
        names = [f"/proc/self/fd/{handle}" for handle in handles]
        try:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, and a program of our own
                [sys.executable, "-I", "-S", "-c", _CONFINED, ":".join(names)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={"LC_ALL": "C"},
                pass_fds=handles,
                start_new_session=True,
            )
        except OSError as error:
            return f"cannot be tried: no process can be started: {error.strerror}"
        if not _ends(process, timeout_s):
            return f"has not finished loading after {timeout_s:g} s"
        said = output_bytes(output).decode(errors="replace")
        refused = next((line for line in said.splitlines() if names[-1] in line and "cannot be preloaded" in line), "")
        if process.returncode == 0 and not refused:
            return None
        code = process.returncode if process.returncode >= 0 else _SIGNALLED - process.returncode
        signalled = _SIGNALLED < code <= _SIGNALLED + signal.NSIG
        status = f"signal {code - _SIGNALLED}" if signalled else f"exit status {code}"
        return f"does not load: {_shown(refused or said, names[-1]) or status}"


def _ends(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for the process, and end what it has started; whether it ended by itself in time."""
    handle = os.pidfd_open(process.pid)
    try:
        in_time = ended(handle, timeout_s)
        if not in_time:
            process.terminate()
        over = in_time or ended(handle, _KILL_S)
        # Also when all is well, and before it is waited for: until then the group's number is not another's.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if over or ended(handle, _KILL_S):
            process.wait()
        return in_time
    finally:
        os.close(handle)


def _shown(text: str, name: str) -> str:
    """Return the linker's words on one line, with the library's name for the handle that it was opened by."""
    line = " ".join(text.replace(name, "the library").split())[-_SHOWN:]
    return "".join(letter if letter.isprintable() else "?" for letter in line)
