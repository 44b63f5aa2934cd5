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
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver.errors import NodeError
from driver.plan.effects import RunMpsDaemon
from kubeletplugin.effects.compute_mode import ComputeModes
from kubeletplugin.effects.effector import EffectHangsError
from kubeletplugin.effects.foreign_folder import remove_foreign
from kubeletplugin.effects.host_command import Finished, HostPrograms
from kubeletplugin.effects.mps_processes import mps_processes
from kubeletplugin.node.roots import Roots

__all__ = ["MpsDaemons"]

_LOG: Final = logging.getLogger(__name__)
_CONTROL: Final = "nvidia-cuda-mps-control"
# All of it happens under the lock of the plugin's state, for which other calls wait 10 s at most: together it is less.
# A client that is root can have the control socket never answer. What it can make others wait for is one question, and
# no other for a while after it.
_ASK_S: Final = 1.5
_NOT_ASKED_AGAIN_S: Final = 15.0
_START_S: Final = 3.0
_READY_S: Final = 4.0
_TERMINATE_S: Final = 1.5  # its containers have ended by then
_KILL_S: Final = 2.0
_REMOVE_S: Final = 1.0
_LEAST_S: Final = 0.2
_LOG_SHOWN: Final = 1000
_LOG_LINES: Final = 5


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
    """Does and undoes :class:`RunMpsDaemon`; both may be repeated, and after a crash at any point.

    Args:
        roots: Where the host and its driver are.
        set_compute_mode: Sets a GPU's compute mode; by default, with NVML.
    """

    def __init__(self, roots: Roots, *, set_compute_mode: ComputeModes | None = None) -> None:
        self._roots = roots
        self._programs = HostPrograms(roots)
        self._set_compute_mode = set_compute_mode or ComputeModes(roots)
        self._silent_since: dict[str, float] = {}  # by GPU; of the daemon that did not answer when it was asked last

    def do(self, effect: RunMpsDaemon) -> None:
        """Have a daemon that answers: the one that runs already, or a new one.

        Raises:
            EffectHangsError: There is one that does not answer.
            NodeError: NVIDIA's program is not there or refuses, a new daemon does not answer in time, or the GPU's
                compute mode cannot be set.
        """
        daemon = self._daemon(effect)
        self._refuse_silent(daemon)
        environment = self._environment(daemon)
        self._set_compute_mode(effect.gpu, effect.uuid, exclusive_process=True)
        if self._answers(daemon, _ASK_S) or self._wakes(daemon):
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
        self._silent_since.pop(daemon.uuid, None)
        self._terminate(daemon)
        self._kill(daemon)
        try:
            remove_foreign(daemon.folder, timeout_s=_REMOVE_S)
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

    def _answers(self, daemon: _Daemon, timeout_s: float) -> bool:
        """Whether the daemon runs and answers.

        The control socket lies where a container that is root can write, and NVIDIA's program follows links: what
        answers may be another GPU's daemon, by a link that was put there after the look at it. So nothing that changes
        a daemon is ever sent over the socket, and no answer is believed without a daemon of this very folder.
        """
        if not _has_socket(daemon):
            return False
        try:
            finished = self._ask(daemon, timeout_s)
            is_answer = finished.status == 0 and float(finished.output) >= 0
        except (NodeError, ValueError):
            return False
        if not is_answer:
            return False
        with mps_processes(daemon.pipe) as processes:
            return processes.daemon

    def _ask(self, daemon: _Daemon, timeout_s: float) -> Finished:
        question = "get_default_active_thread_percentage"
        return self._programs.run(
            _CONTROL,
            doing=f"{daemon.label}: asking the MPS daemon {question!r}",
            environment=self._environment(daemon),
            stdin=f"{question}\n",
            timeout_s=timeout_s,
        )

    def _answers_within(self, daemon: _Daemon, timeout_s: float) -> bool:
        deadline, pause_s = time.monotonic() + timeout_s, 0.005
        while not self._answers(daemon, max(_LEAST_S, min(_ASK_S, deadline - time.monotonic()))):
            if time.monotonic() + pause_s > deadline:
                return False
            time.sleep(pause_s)  # NVIDIA's daemon has nothing that tells when it is ready
            pause_s = min(2 * pause_s, 0.2)
        return True

    def _wakes(self, daemon: _Daemon) -> bool:
        """Whether a daemon that does not answer was just starting; what is left of one that is gone is ended.

        One that runs and does not answer is left alone: other claims may compute through it, and the node may just be
        slow. It is ended with the last of them, or at once where there is no other (:meth:`undo`).
        """
        with mps_processes(daemon.pipe) as processes:
            if processes.daemon:
                just_started_s = _START_S + _READY_S - processes.daemon_age_s
                if just_started_s > 0 and self._answers_within(daemon, just_started_s):
                    return True
                self._silent_since[daemon.uuid] = time.monotonic()
                raise _silent(daemon)
        self._kill(daemon)
        return False

    def _refuse_silent(self, daemon: _Daemon) -> None:
        """Do not ask again, and have others wait for it, what did not answer a moment ago."""
        since = self._silent_since.get(daemon.uuid)
        if since is None:
            return
        if time.monotonic() - since < _NOT_ASKED_AGAIN_S:
            raise _silent(daemon)
        del self._silent_since[daemon.uuid]

    def _terminate(self, daemon: _Daemon) -> None:
        """Send SIGTERM to the daemon and its servers, and wait a moment for their end.

        NVIDIA's command "quit" goes to whatever the control socket leads to, and may end another GPU's daemon. What a
        signal does to NVIDIA's daemon and its servers is not documented: so each gets it, and what remains is killed.
        """
        with mps_processes(daemon.pipe) as processes:
            if not processes:
                return
            processes.terminate()
            if processes.wait(_TERMINATE_S):
                _LOG.info("stopped an MPS daemon", extra={"device": daemon.label})

    def _kill(self, daemon: _Daemon) -> None:
        # Again and again: while a daemon was looked for, it may have started a server.
        for _ in range(3):
            with mps_processes(daemon.pipe) as processes:
                if not processes:
                    return
                _LOG.warning("killing what is left of an MPS daemon", extra={"device": daemon.label})
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


def _has_socket(daemon: _Daemon) -> bool:
    try:
        return stat.S_ISSOCK((daemon.pipe / "control").lstat().st_mode)
    except OSError:
        return False


def _make_folders(daemon: _Daemon) -> None:
    """Make empty folders that every user may search, independently of the umask.

    The folders stay where they are and only what is in them goes: containers that run have them mounted.
    """
    runtime_root = daemon.folder.parent.parent
    runtime_root.mkdir(parents=True, exist_ok=True)
    for folder in (runtime_root, daemon.folder.parent, daemon.folder, daemon.pipe, daemon.folder / "log"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    remove_foreign(daemon.pipe, keep_folder=True, timeout_s=_REMOVE_S)


def _silent(daemon: _Daemon) -> EffectHangsError:
    return EffectHangsError(
        f"{daemon.label}: its MPS daemon runs and does not answer; its log ends: {_log_end(daemon)}",
        hint="it is left alone, since other claims may use it; it is ended with the last of them. Where it hangs for "
        "good, end the pods that share this GPU",
    )


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
