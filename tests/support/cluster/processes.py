"""Starts and ends the programs of a cluster, on this computer or in a :class:`machine.Machine`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.cluster.machine import Machine

__all__ = ["Process", "Processes", "wait_until"]


def wait_until(what: str, done: Callable[[], bool], *, timeout_s: float = 60, step_s: float = 0.1) -> None:
    """Wait until ``done()``; TimeoutError names ``what`` was waited for."""
    end = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(step_s)


class Process:
    """A running program.

    Attributes:
        name: Its name, which its log file bears.
        log: What it wrote, both streams.
        pid: Its process id as this computer sees it, in a machine too.
    """

    def __init__(
        self, name: str, argv: Sequence[str | Path], log: Path, env: Mapping[str, str], *, nested: bool
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as file:
            self._popen = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )
        self.pid = _nested_pid(self._popen) if nested else self._popen.pid

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self._signal(signal.SIGKILL)
        self._popen.wait(20)

    def stop(self, timeout_s: float = 20) -> int:
        """Ask it to end, wait, and return its exit status."""
        self._signal(signal.SIGTERM)
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.name} did not end within {timeout_s:.0f} s of SIGTERM: see {self.log}") from None

    def hang_up(self) -> None:
        """Send SIGHUP, which the plugin takes for: look at the hardware now."""
        self._signal(signal.SIGHUP)

    def wait(self, timeout_s: float = 20) -> int:
        """Wait for its own end and return its exit status (of a killed one in a machine: 128 + the signal)."""
        return self._popen.wait(timeout_s)

    def rss_mib(self) -> float:
        """Its resident memory now, in MiB (VmRSS in proc_pid_status(5))."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def cpu_s(self) -> float:
        """The processor time that it has used, in seconds (utime and stime in proc_pid_stat(5))."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _signal(self, number: int) -> None:
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


class Processes:
    """The programs of one cluster.

    Args:
        logs: The folder of their log files.
        machine: Where they run; None for this computer.
        outlive: Whether those on this computer go on when this process ends.
    """

    def __init__(self, logs: Path, machine: Machine | None = None, *, outlive: bool = False) -> None:
        self.logs = logs
        self._machine = machine
        self._outlive = outlive
        self._running: list[Process] = []
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, *argv: str | Path, env: Mapping[str, str] | None = None) -> Process:
        """Start a program; its log is ``<logs>/<name>.log``, appended to."""
        log = self.logs / f"{name}.log"
        environment = {**os.environ, **(env or {})}
        if self._machine is not None:
            process = Process(name, self._machine.command(argv), log, environment, nested=True)
        else:
            prefix = () if self._outlive else ("setpriv", "--pdeathsig", "KILL")
            process = Process(name, [*prefix, *argv], log, environment, nested=False)
        self._running.append(process)
        return process

    def stop(self) -> None:
        """End all, the last started first."""
        while self._running:
            self._running.pop().kill()


def _nested_pid(nsenter: subprocess.Popen[bytes]) -> int:
    """The process that nsenter forked into the machine's process namespace."""
    children = Path(f"/proc/{nsenter.pid}/task/{nsenter.pid}/children")
    for _ in range(500):
        if found := children.read_text().split():
            return int(found[0])
        if nsenter.poll() is not None:
            raise RuntimeError(f"{nsenter.args!r} ended at once")
        time.sleep(0.01)
    raise RuntimeError(f"{nsenter.args!r} started nothing")
