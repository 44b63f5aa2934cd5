"""Runs the programs of the plugin's own image that change the network: ``ip``, ``rdma`` and ``nsenter``.

Never a shell, and no environment but PATH. Each has a time limit: the kernel's lock over all network interfaces can be
held for long by others. A network namespace is handed over as an open file: a path could come to mean another one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver.adapters.host import HostRoot
from driver.errors import NodeError
from kubeletplugin.child_processes import bounded_output, ended, output_bytes

__all__ = ["Netns", "ProgramFailedError", "netns_if_there", "opened_netns", "run_program"]

_PACKAGES: Final = {"ip": "iproute2", "rdma": "iproute2", "nsenter": "util-linux"}
_NS_GET_NSTYPE: Final = 0xB703  # linux/nsfs.h
_CLONE_NEWNET: Final = 0x40000000  # linux/sched.h
_SHOWN: Final = 400
_KILL_S: Final = 1.0
_OUTPUT_LIMIT: Final = 4 << 20
"""Bytes: some thousand interfaces. A pod with CAP_NET_ADMIN can make more in its own network namespace."""


class ProgramFailedError(NodeError):
    """A program ran and failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Netns:
    """An open network namespace; it stays alive while it is open.

    Attributes:
        path: By which it was found.
        descriptor: Of the open file.
        identity: The file's device and inode, which the kernel may use again once the namespace has ended.
    """

    path: str
    descriptor: int
    identity: tuple[int, int]

    @property
    def file(self) -> str:
        """The path by which a program that was started by :func:`run_program` finds it."""
        return f"/proc/self/fd/{self.descriptor}"


@contextmanager
def opened_netns(path: str | Path, *, host: HostRoot | None = None, doing: str) -> Iterator[Netns]:
    """Open a network namespace for the body.

    Args:
        path: Such as ``/var/run/netns/cni-…``: the runtime's, or the plugin's own; never a claim author's.
        host: Where the host's ``/`` is, for a path that the host's runtime told; a process's own file in ``/proc``, and
            what is not there, is looked for as this process sees it.
        doing: Begins the message: claim, device and pod.

    Raises:
        NodeError: There is none, or it cannot be opened.
    """
    netns = _open(str(path), host, doing)
    if netns is None:
        hint = "the plugin's container must see it: mount the host's / with propagation HostToContainer"
        raise NodeError(f"{doing}: there is no network namespace {path}", hint=hint)
    try:
        yield netns
    finally:
        os.close(netns.descriptor)


@contextmanager
def netns_if_there(path: str | Path, *, host: HostRoot | None = None, doing: str) -> Iterator[Netns | None]:
    """As :func:`opened_netns`; None where the path leads to no network namespace any more."""
    netns = _open(str(path), host, doing)
    try:
        yield netns
    finally:
        if netns is not None:
            os.close(netns.descriptor)


def _open(path: str, host: HostRoot | None, doing: str) -> Netns | None:
    if not path.startswith("/") or "\0" in path:
        raise NodeError(f"{doing}: {path!r} is no path of a network namespace", hint="this is the runtime's mistake")
    try:
        # Whatever stands there is not waited for.
        descriptor = os.open(_seen(path, host), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return None
    except OSError as error:
        reason = f"{doing}: the network namespace {path} cannot be opened: {error.strerror}"
        raise NodeError(reason, hint="the plugin needs CAP_SYS_ADMIN and CAP_SYS_PTRACE") from error
    is_netns = False
    try:
        status = os.fstat(descriptor)
        with suppress(OSError):
            is_netns = stat.S_ISREG(status.st_mode) and fcntl.ioctl(descriptor, _NS_GET_NSTYPE) == _CLONE_NEWNET
        if is_netns:
            return Netns(path=path, descriptor=descriptor, identity=(status.st_dev, status.st_ino))
    finally:
        if not is_netns:
            os.close(descriptor)
    return None  # the file that a mount of a namespace has left behind


def _seen(path: str, host: HostRoot | None) -> str | Path:
    if host is None or path.startswith("/proc/"):
        return path
    real = host.fresh().resolve(path.lstrip("/"))
    return path if real is None else host.path / real


def run_program(
    program: str, arguments: Sequence[str], *, inside: Netns, others: Sequence[Netns] = (), doing: str, timeout_s: float
) -> str:
    """Run a program in a network namespace, and return what it printed.

    Args:
        program: Its name; found on PATH.
        arguments: What follows the name.
        inside: Where it runs.
        others: Namespaces that the arguments name by :attr:`Netns.file`.
        doing: Names claim, device, pod and what is being done, for the errors.
        timeout_s: When it is killed.

    Raises:
        ProgramFailedError: It ended with an error.
        NodeError: It, or nsenter, is not installed; or it did not end in time.
    """
    for name in ("nsenter", program):
        if shutil.which(name) is None:
            hint = f"install the package {_PACKAGES[name]} where the plugin runs; Rootport's image has it"
            raise NodeError(f"{doing}: there is no program {name} on the plugin's PATH", hint=hint)
    with bounded_output(_OUTPUT_LIMIT) as output, bounded_output(_OUTPUT_LIMIT) as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - fixed programs, no shell, checked names
                ["nsenter", f"--net={inside.file}", "--", program, *arguments],  # noqa: S607 - the image's own PATH
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                pass_fds=[inside.descriptor, *(other.descriptor for other in others)],
                # Of its own: what signals the plugin leaves it alone.
                start_new_session=True,
            )
        except OSError as error:
            reason = f"{doing}: {program} cannot be started: {error.strerror}"
            raise NodeError(reason, hint="it is tried again") from error
        if not _ended(process, timeout_s):
            hint = "the kernel's network lock or the NIC's driver hangs: see dmesg on the node"
            raise NodeError(f"{doing}: {program} did not end within {timeout_s:g} s", hint=hint)
        if process.returncode != 0:
            reason = f"{doing}: {_line(output_bytes(errors)) or 'no reason given'}"
            raise ProgramFailedError(reason, hint=f"the command was: {' '.join([program, *arguments])}")
        return output_bytes(output).decode("utf-8", errors="replace")


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for a program and kill one that is late; return whether it ended in time."""
    handle = os.pidfd_open(process.pid)
    try:
        in_time = ended(handle, timeout_s)
        if not in_time:
            process.kill()
        if in_time or ended(handle, _KILL_S):
            process.wait()
        return in_time
    finally:
        os.close(handle)


def _line(text: bytes) -> str:
    """Return the end of a program's output, on one line, for a message."""
    words = " ".join(text.decode("utf-8", errors="replace").split())
    return "".join(letter if letter.isprintable() else "?" for letter in words[-_SHOWN:])
