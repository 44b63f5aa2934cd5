"""A machine in a machine: namespaces in which a kubelet finds its usual paths, and nothing of the host is changed.

Processes started in it see their own /var, /etc, /run, /dev, network, host name and process ids. Its first process is
:mod:`tests.support.cluster.machine_init`; when that ends, the kernel ends all others, however they were started.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["Machine", "missing_for_machines"]

_INIT: Final = Path(__file__).parent / "machine_init.py"
_TOOLS: Final = ("unshare", "nsenter", "setpriv", "ip", "mount", "openssl")


def missing_for_machines() -> str | None:
    """What this computer lacks for a :class:`Machine`, or None."""
    if os.geteuid() != 0:
        return "a real node needs root, for namespaces and device nodes"
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"a real node needs {', '.join(absent)} on PATH" if absent else None


class Machine:
    """Namespaces with their own file system view, made below ``folder``.

    Args:
        folder: Empty or new; everything that the machine writes goes below it.
        host_name: What ``hostname`` says in it.
        outlive: Whether it goes on when this process ends (``make cluster``); tests never do.

    Attributes:
        address: The machine's IPv4 address, reachable from this computer.
        gateway: This computer's address on the link between both.
    """

    def __init__(self, folder: Path, *, host_name: str, outlive: bool = False) -> None:
        self.folder = folder
        self.host_name = host_name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "machine.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(() if outlive else ("setpriv", "--pdeathsig", "KILL")),
                    *("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL"),
                    *("--mount-proc", "--propagation", "private", sys.executable, _INIT, folder, host_name),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line != b"ready\n":
            raise RuntimeError(f"the machine did not start: {(folder / 'machine.log').read_text()}")
        self.pid = _child(self._process.pid)
        (folder / "machine.pid").write_text(f"{self.pid}\n")
        self.gateway, self.address = self._connect()

    def command(self, argv: Sequence[str | Path]) -> list[str | Path]:
        """The command that runs ``argv`` in the machine."""
        namespaces = ("--mount", "--net", "--pid", "--uts", "--ipc")
        return ["nsenter", f"--target={self.pid}", *namespaces, "--wdns=/", "--", *argv]

    def run(
        self, *argv: str | Path, check: bool = True, env: Mapping[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine to its end and return what it wrote."""
        return subprocess.run(self.command(argv), check=check, text=True, capture_output=True, env=env, timeout=timeout)

    def path(self, inside: str) -> Path:
        """Where a path of the machine lies for this process."""
        return Path(f"/proc/{self.pid}/root") / inside.lstrip("/")

    def stop(self) -> None:
        """End every process in the machine, and with them its mounts and its network."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait(10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _connect(self) -> tuple[str, str]:
        """A link between this computer and the machine, on a /30 of its own."""
        link = f"rootport{self.pid}"
        subprocess.run(
            ["ip", "link", "add", "name", link, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid)],
            check=True,
        )
        # 198.18.0.0/15 is for tests between networks (RFC 2544): no real network uses it.
        block = self.pid % 16384 * 4
        gateway, address = (f"198.18.{(block + n) >> 8}.{(block + n) & 255}" for n in (1, 2))
        for words in (("addr", "add", f"{gateway}/30", "dev", link), ("link", "set", link, "up")):
            subprocess.run(["ip", *words], check=True)
        for words in (
            ("addr", "add", f"{address}/30", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", gateway),
        ):
            self.run("ip", *words)
        return gateway, address


def _child(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (child,) = children
    return int(child)
