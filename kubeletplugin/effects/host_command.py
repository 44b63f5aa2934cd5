"""Runs NVIDIA's own programs of the host: ``nvidia-smi`` and ``nvidia-cuda-mps-control``.

They must be the driver's own, with the driver's libraries. So they run with the folder that has the driver as their
``/``: the host's, or the driver's container's. ``chroot`` (coreutils) gets them there. A function between fork and
exec (``preexec_fn``) could deadlock in a process with threads, ``posix_spawn`` cannot change the root, and entering the
host's namespaces would leave nothing that a test could stand in for.

Never a shell, and no environment but what is given here. Nothing that a claim's author wrote becomes an argument.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from driver.adapters.host import HostRoot
from driver.errors import InputError, NodeError
from kubeletplugin.child_processes import bounded_output, ended, output_bytes
from kubeletplugin.node.roots import Roots

__all__ = ["Finished", "HostPrograms", "NoProgramError"]

# Where distributions, driver containers and NVIDIA's installer keep programs.
_FOLDERS: Final = ("usr/bin", "usr/sbin", "usr/local/bin", "bin", "sbin", "opt/bin", "run/current-system/sw/bin")
_ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_OUTPUT_LIMIT: Final = 64 * 1024
_SHOWN: Final = 500
_KILL_S: Final = 1.0


class NoProgramError(NodeError):
    """The host has no such program, so that no driver is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The result of a program.

    Attributes:
        status: The exit status; negative for the signal that ended it.
        output: What it printed on both streams; what is over 64 KiB was refused.
    """

    status: int
    output: str

    def __str__(self) -> str:
        """Return the end of the output on one line, for a message."""
        words = " ".join(self.output.split())
        text = "".join(letter if letter.isprintable() else "?" for letter in words[-_SHOWN:])
        return f"exit status {self.status}, {text!r}" if text else f"exit status {self.status}, no output"


@dataclass(frozen=True, slots=True)
class HostPrograms:
    """NVIDIA's programs of this host.

    Attributes:
        roots: Where the host and its driver are.
    """

    roots: Roots

    @property
    def root(self) -> Path:
        """The folder that the programs see as ``/``."""
        return self.roots.host.path / self.roots.driver_root.lstrip("/")

    def seen(self, folder: str) -> str:
        """Return the path by which the programs see a folder of the host.

        Raises:
            NodeError: They cannot see it, for it is not in the driver's root.
        """
        inside = folder.removeprefix(self.roots.driver_root)
        if inside == folder and self.roots.driver_root:
            raise NodeError(
                f"NVIDIA's programs run in {self.roots.driver_root} and cannot see {folder}",
                hint="the claim was prepared with another --device-root; delete its pods and start them again",
            )
        return inside

    def run(
        self,
        program: str,
        arguments: Sequence[str] = (),
        *,
        doing: str,
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float,
    ) -> Finished:
        """Run a program and wait until it ends. What it leaves running in the background is not waited for.

        Args:
            program: Its name, without a folder.
            arguments: What follows the name.
            doing: Names the device and what is being done, for the errors: ``gpu-… (GPU-…): setting the time slice``.
            environment: Variables beside PATH and LC_ALL.
            stdin: What it can read.
            timeout_s: When it is killed.

        Raises:
            NoProgramError: The program, or the driver's root, is not there.
            NodeError: It cannot be started, or did not end in time.
        """
        command = self._command(program, doing)
        # Files in memory: no pipe that a daemon left behind holds open, nothing that fills, no thread to read.
        with _stdin(stdin) as given, bounded_output(_OUTPUT_LIMIT) as output:
            try:
                process = subprocess.Popen(  # noqa: S603 - a fixed program, arguments of the driver's own making
                    [*command, *arguments],
                    stdin=given,
                    stdout=output,
                    stderr=output,
                    cwd="/",
                    env={**_ENVIRONMENT, **(environment or {})},
                    # Of its own: what signals the plugin leaves it alone, and a timeout ends its children too.
                    start_new_session=True,
                    umask=0o022,
                )
            except OSError as error:
                reason = f"{doing}: {program} cannot be started: {error.strerror}"
                raise NodeError(reason, hint=f"check that {self.root} has NVIDIA's driver and its programs") from error
            handle = os.pidfd_open(process.pid)
            try:
                in_time = ended(handle, timeout_s)
                if not in_time:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    if not ended(handle, _KILL_S):
                        # In the kernel, in a call to the driver that does not return; it cannot even be waited for.
                        raise NodeError(
                            f"{doing}: {program} hangs and cannot be killed",
                            hint="the GPU or its driver hangs: see dmesg for NVRM and Xid lines; reboot the node",
                        )
                status = process.wait()
            finally:
                os.close(handle)
            finished = Finished(status=status, output=output_bytes(output).decode(errors="replace"))
        if not in_time:
            raise NodeError(
                f"{doing}: {program} did not end within {timeout_s:g} s and was killed; {finished}",
                hint="see dmesg for NVRM and Xid lines, and try the program by hand on the node",
            )
        return finished

    def _command(self, program: str, doing: str) -> list[str]:
        try:
            root = HostRoot(self.root)
        except InputError as error:
            hint = "wait until the driver's container runs, or check --host-root and --device-root"
            raise NoProgramError(f"{doing}: the driver's root is not there: {error.message}", hint=hint) from error
        for folder in _FOLDERS:
            if root.resolve(f"{folder}/{program}") is not None:
                path = f"/{folder}/{program}"
                return [path] if str(self.root) == "/" else ["chroot", str(self.root), path]
        raise NoProgramError(
            f"{doing}: {self.root} has no {program} (looked in {', '.join(f'/{folder}' for folder in _FOLDERS)})",
            hint="install it with NVIDIA's driver: the packages with it are called nvidia-utils, nvidia-compute-utils,"
            " nvidia-driver-cuda or alike",
        )


def _stdin(content: str) -> BinaryIO:
    file = os.fdopen(os.memfd_create("stdin"), "r+b", buffering=0)
    file.write(content.encode())
    file.seek(0)
    return file
