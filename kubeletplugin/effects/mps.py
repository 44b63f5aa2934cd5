"""Runs NVIDIA's MPS control daemon for a GPU: one daemon a GPU, with a folder of pipes of its own.

The daemon is a process of its own session that outlives the plugin's process: on a host where the plugin is a plain
process, a plugin that starts again finds it and keeps it. In the DaemonSet it lives in the plugin's container and ends
with it. The plugin that comes next starts another one; but the programs that computed through the old one have failed
by then. So drain pods with MPS shares before the plugin is updated.

NVIDIA's rules (docs.nvidia.com/deploy/mps): clients find the daemon by CUDA_MPS_PIPE_DIRECTORY; the daemon starts a
server with the user ID of its first client, and a client of another user waits until that server has no clients left.
That server opens the pipes as that user, so that all users must be able to search the folders above (0755); the daemon
itself makes the sockets and pipes writable for all. The compute mode EXCLUSIVE_PROCESS leaves the GPU to the server: a
program that finds no daemon then fails, instead of computing without limits.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from driver.errors import NodeError
from driver.plan.effects import RunMpsDaemon
from kubeletplugin.effects.compute_mode import ComputeModes
from kubeletplugin.effects.host_command import Finished, HostPrograms
from kubeletplugin.effects.mps_processes import mps_processes
from kubeletplugin.roots import Roots

__all__ = ["MpsDaemons", "SetComputeMode"]

_LOG: Final = logging.getLogger(__name__)
_CONTROL: Final = "nvidia-cuda-mps-control"
# Together less than the 20 s that one effect may take (kubeletplugin.effects.host_effects).
_DEAF_S: Final = 3.0
_START_S: Final = 4.0
_READY_S: Final = 6.0
_ASK_S: Final = 2.0
_SERVERS_END_S: Final = 3
_QUIT_S: Final = 5.0
_KILL_S: Final = 2.0
_LOG_SHOWN: Final = 1000
_LOG_LINES: Final = 5


class SetComputeMode(Protocol):
    """Sets a GPU's compute mode: :class:`~kubeletplugin.effects.compute_mode.ComputeModes`."""

    def __call__(self, gpu: str, uuid: str, *, exclusive_process: bool) -> None:
        """Set EXCLUSIVE_PROCESS or DEFAULT; raises NodeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Daemon:
    """A GPU's daemon: its folder as the host knows it, and as this process sees it."""

    label: str
    uuid: str
    host_folder: str
    folder: Path

    @property
    def pipe(self) -> Path:
        return self.folder / "pipe"


class MpsDaemons:
    """Does and undoes :class:`RunMpsDaemon`; both as often as one likes, and from wherever a crash has left them.

    Args:
        roots: Where the host and its driver are.
        set_compute_mode: How to set a GPU's compute mode; by default, by NVML.
    """

    def __init__(self, roots: Roots, *, set_compute_mode: SetComputeMode | None = None) -> None:
        self._roots = roots
        self._programs = HostPrograms(roots)
        self._set_compute_mode: SetComputeMode = set_compute_mode or ComputeModes(roots)

    def refuse_others(self, effect: RunMpsDaemon) -> None:
        """Nobody else makes them."""

    def do(self, effect: RunMpsDaemon) -> None:
        """Have a daemon that answers: the one that runs already, or a new one.

        Raises:
            NodeError: NVIDIA's program is not there or refuses, the daemon does not answer in time, or the GPU's
                compute mode cannot be set.
        """
        daemon = self._daemon(effect)
        environment = self._environment(daemon)
        self._set_compute_mode(effect.gpu, effect.uuid, exclusive_process=True)
        if self._answers(daemon) or self._wakes(daemon):
            return
        try:
            _make_folders(daemon)
        except OSError as error:
            raise _folder_error(daemon, "prepared", error) from error
        finished = self._programs.run(
            _CONTROL,
            ["-d"],
            doing=f"{daemon.label}: starting the MPS daemon",
            environment={**environment, "CUDA_VISIBLE_DEVICES": daemon.uuid},
            timeout_s=_START_S,
        )
        # Where another plugin was faster, this one is refused and that one's answers.
        if not self._answers_within(daemon, _READY_S if finished.status == 0 else 0):
            raise self._not_started(daemon, finished)
        _LOG.info("started an MPS daemon", extra={"device": effect.gpu, "folder": effect.folder})

    def undo(self, effect: RunMpsDaemon) -> None:
        """Have no daemon, no folder, and the compute mode DEFAULT. Programs that still compute through it fail.

        Raises:
            NodeError: The daemon cannot be ended, its folder not removed, or the GPU's compute mode not set.
        """
        daemon = self._daemon(effect)
        with mps_processes(daemon.pipe) as processes:
            if processes.daemon and self._quits(daemon) and processes.wait(_QUIT_S):
                _LOG.info("stopped an MPS daemon", extra={"device": effect.gpu})
        self._kill(daemon)
        try:
            _remove(daemon.folder)
        except OSError as error:
            raise _folder_error(daemon, "removed", error) from error
        self._set_compute_mode(effect.gpu, effect.uuid, exclusive_process=False)

    def _daemon(self, effect: RunMpsDaemon) -> _Daemon:
        label = f"{effect.gpu} ({effect.uuid})"
        folder = Path(effect.folder)
        # It is removed with all that is in it: a journal that somebody edited must not name any folder.
        if not folder.is_absolute() or ".." in folder.parts or folder.parts[-2:] != ("mps", effect.gpu):
            raise NodeError(
                f"{label}: {effect.folder!r} is not the folder of its MPS daemon",
                hint="the plugin's effect journal is damaged; see docs/design/isolation.md",
            )
        return _Daemon(
            label=label,
            uuid=effect.uuid,
            host_folder=effect.folder,
            folder=self._roots.host.path / effect.folder.lstrip("/"),
        )

    def _environment(self, daemon: _Daemon) -> dict[str, str]:
        seen = self._programs.seen(daemon.host_folder)
        return {"CUDA_MPS_PIPE_DIRECTORY": f"{seen}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{seen}/log"}

    def _tell(self, daemon: _Daemon, command: str, *, timeout_s: float) -> Finished:
        return self._programs.run(
            _CONTROL,
            doing=f"{daemon.label}: telling the MPS daemon {command!r}",
            environment=self._environment(daemon),
            stdin=f"{command}\n",
            timeout_s=timeout_s,
        )

    def _answers(self, daemon: _Daemon) -> bool:
        if not (daemon.pipe / "control").is_socket():
            return False
        try:
            finished = self._tell(daemon, "get_default_active_thread_percentage", timeout_s=_ASK_S)
            return finished.status == 0 and float(finished.output) >= 0
        except (NodeError, ValueError):
            return False

    def _answers_within(self, daemon: _Daemon, timeout_s: float) -> bool:
        deadline, pause_s = time.monotonic() + timeout_s, 0.005
        while not self._answers(daemon):
            if time.monotonic() + pause_s > deadline:
                return False
            time.sleep(pause_s)  # NVIDIA's daemon has nothing that tells when it is ready
            pause_s = min(2 * pause_s, 0.2)
        return True

    def _quits(self, daemon: _Daemon) -> bool:
        """Whether the daemon was told to quit; its servers are given some seconds to let their clients go."""
        try:
            return self._tell(daemon, f"quit -t {_SERVERS_END_S}", timeout_s=_SERVERS_END_S + 1).status == 0
        except NodeError:
            return False  # then it is killed; also where it runs in the driver's root of another --device-root

    def _wakes(self, daemon: _Daemon) -> bool:
        """Whether a daemon that does not answer was just starting; what is left of one that is gone is ended.

        One that runs and does not answer is left alone: other claims may compute through it, and the node may just be
        slow. It is ended with the last of them, or at once where there is no other (:meth:`undo`).
        """
        with mps_processes(daemon.pipe) as processes:
            if processes.daemon:
                if self._answers_within(daemon, _DEAF_S):
                    return True
                raise NodeError(
                    f"{daemon.label}: its MPS daemon runs and does not answer; its log ends: {_log_end(daemon)}",
                    hint="it is left alone, since other claims may use it; it is ended with the last of them. Where it "
                    "hangs for good, end the pods that share this GPU",
                )
        self._kill(daemon)
        return False

    def _kill(self, daemon: _Daemon) -> None:
        # Again and again: while a daemon was looked for, it may have started a server.
        for _ in range(3):
            with mps_processes(daemon.pipe) as processes:
                if not processes:
                    return
                _LOG.warning("killing an MPS daemon that does not answer", extra={"device": daemon.label})
                processes.kill()
                if not processes.wait(_KILL_S):
                    break
        raise NodeError(
            f"{daemon.label}: the MPS daemon cannot be killed",
            hint="it hangs in NVIDIA's driver: see dmesg for NVRM and Xid lines; the node needs a reboot",
        )

    def _not_started(self, daemon: _Daemon, finished: Finished) -> NodeError:
        what = "does not answer" if finished.status == 0 else f"could not be started ({finished})"
        return NodeError(
            f"{daemon.label}: the MPS daemon {what}; its log ends: {_log_end(daemon)}",
            hint="MPS needs NVIDIA's driver in order and no other MPS daemon or CUDA program on this GPU;"
            " nvidia-smi on the node shows both",
        )


def _make_folders(daemon: _Daemon) -> None:
    """New, empty folders that every user may search, whatever the umask.

    The folders stay where they are and only what is in them goes: containers that run have them mounted.
    """
    runtime_root = daemon.folder.parent.parent
    runtime_root.mkdir(parents=True, exist_ok=True)
    for folder in (runtime_root, daemon.folder.parent, daemon.folder, daemon.pipe, daemon.folder / "log"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    for entry in daemon.pipe.iterdir():
        _remove(entry)


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _folder_error(daemon: _Daemon, what: str, error: OSError) -> NodeError:
    return NodeError(
        f"{daemon.label}: the MPS daemon's folder {daemon.folder} cannot be {what}: {error.strerror}",
        hint="check that the plugin can write there: the DaemonSet mounts /run/rootport for it",
    )


def _log_end(daemon: _Daemon) -> str:
    try:
        # No link is followed, and no pipe waited for.
        file = os.open(daemon.folder / "log/control.log", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"(no log: {error.strerror})"
    with os.fdopen(file, "rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_SHOWN))
        lines = log.read(_LOG_SHOWN).decode("utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    return " | ".join("".join(letter if letter.isprintable() else "?" for letter in line) for line in lines)
