"""MPS daemons: real processes of the program that stands for NVIDIA's, with real sockets, below a host's root."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import socket
import stat
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.errors import NodeError
from driver.plan.effects import RunMpsDaemon
from kubeletplugin.effects import EffectHangsError, mps, mps_processes
from kubeletplugin.effects.host_command import Finished, HostPrograms
from kubeletplugin.effects.mps import MpsDaemons
from kubeletplugin.state.store import ClaimStore
from tests.support.cluster.processes import wait_until
from tests.support.stub_nvidia import InstalledPrograms
from tests.unit.kubeletplugin.effects.host import Host

GPU = "gpu-0000-1b-00-0"
OTHER = "gpu-0000-2c-00-0"
CONTROL = "nvidia-cuda-mps-control"
SERVER = "nvidia-cuda-mps-server"


class ComputeModes:
    """The GPUs' compute modes, by name."""

    def __init__(self) -> None:
        self.exclusive: dict[str, bool] = {}
        self.error: NodeError | None = None

    def __call__(self, gpu: str, uuid: str, *, exclusive_process: bool) -> None:
        if self.error:
            raise self.error
        assert uuid == f"GPU-of-{gpu}"
        self.exclusive[gpu] = exclusive_process


@pytest.fixture
def modes() -> ComputeModes:
    return ComputeModes()


@pytest.fixture
def daemons(host: Host, modes: ComputeModes) -> MpsDaemons:
    return MpsDaemons(host.roots, set_compute_mode=modes)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of what never comes need not wait for it as long as the plugin does."""
    for name in ("_READY_S", "_ASK_S", "_TERMINATE_S"):
        monkeypatch.setattr(mps, name, 0.2)


def effect(host: Host, gpu: str = GPU) -> RunMpsDaemon:
    return RunMpsDaemon(gpu=gpu, uuid=f"GPU-of-{gpu}", folder=f"{host.runtime_root}/mps/{gpu}")


def folder(host: Host, gpu: str = GPU) -> Path:
    return host.root / effect(host, gpu).folder.lstrip("/")


def ask_daemon(host: Host, command: str, gpu: str = GPU, *, user: int = 0) -> str:
    """What a person on the node, with the driver's root, is told by the daemon."""
    pipe = f"/run/rootport/mps/{gpu}/pipe"
    root = host.root / host.roots.driver_root.lstrip("/")
    answer = subprocess.run(
        ["chroot", f"--userspec={user}:{user}", root, f"/usr/bin/{CONTROL}"],
        input=command,
        env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": pipe},
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )
    return answer.stdout


def daemon_process(host: Host) -> int:
    (found,) = (process for process, name in host.programs.processes().items() if name == CONTROL)
    return found


def crash(host: Host) -> None:
    """The daemon dies and leaves everything lying; so does a machine that is switched off."""
    os.kill(daemon_process(host), signal.SIGKILL)
    wait_until(
        "the daemon is gone", lambda: CONTROL not in host.programs.processes().values(), timeout_s=5, step_s=0.01
    )


def test_a_daemon_is_started_for_its_gpu_alone_and_stopped_without_a_trace(
    host: Host, daemons: MpsDaemons, modes: ComputeModes
) -> None:
    daemons.do(effect(host))
    assert host.programs.mps_starts() == [(f"GPU-of-{GPU}", f"/run/rootport/mps/{GPU}/pipe")]
    assert ask_daemon(host, "get_default_active_thread_percentage\n") == "100.0\n"
    assert modes.exclusive == {GPU: True}
    daemons.undo(effect(host))
    assert host.programs.processes() == {}
    assert not folder(host).exists()
    assert modes.exclusive == {GPU: False}


def test_doing_twice_keeps_the_daemon_and_undoing_twice_is_nothing(host: Host, daemons: MpsDaemons) -> None:
    daemons.undo(effect(host))
    daemons.do(effect(host))
    first = daemon_process(host)
    daemons.do(effect(host))
    assert daemon_process(host) == first
    daemons.undo(effect(host))
    daemons.undo(effect(host))
    daemons.do(effect(host))
    assert daemon_process(host) != first
    daemons.undo(effect(host))
    assert len(host.programs.mps_starts()) == 2


def test_the_daemons_of_two_gpus_know_nothing_of_each_other(host: Host, daemons: MpsDaemons) -> None:
    daemons.do(effect(host))
    daemons.do(effect(host, OTHER))
    ask_daemon(host, "set_default_active_thread_percentage 25\n", OTHER)
    daemons.undo(effect(host))
    assert ask_daemon(host, "get_default_active_thread_percentage\n", OTHER) == "25.0\n"
    assert not folder(host).exists()
    assert list(host.programs.processes().values()) == [CONTROL]
    daemons.undo(effect(host, OTHER))


def test_every_user_can_reach_the_daemon_whatever_the_umask(host: Host, daemons: MpsDaemons) -> None:
    before = os.umask(0o077)
    try:
        daemons.do(effect(host))
    finally:
        os.umask(before)
    for path in (folder(host).parent.parent, folder(host).parent, folder(host), folder(host) / "pipe"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755, path
    assert ask_daemon(host, "get_default_active_thread_percentage\n", user=65534) == "100.0\n"
    daemons.undo(effect(host))


def test_a_daemon_outlives_the_process_that_started_it_and_the_next_one_keeps_it(
    host: Host, daemons: MpsDaemons
) -> None:
    plugin = os.fork()
    if plugin == 0:
        try:
            daemons.do(effect(host))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(plugin, 0)
    process = daemon_process(host)
    assert os.getsid(process) not in (os.getsid(0), plugin)
    files = Path(f"/proc/{process}/fd")
    assert all(
        file.resolve().is_relative_to("/dev") or file.resolve().is_relative_to(host.root) or _is_socket(file)
        for file in files.iterdir()
    )
    daemons.do(effect(host))
    assert daemon_process(host) == process
    daemons.undo(effect(host))


@pytest.mark.parametrize("with_server", [False, True], ids=["no-server", "with-a-server"])
def test_after_a_crash_of_the_daemon_a_new_one_replaces_it(
    host: Host, daemons: MpsDaemons, *, with_server: bool
) -> None:
    daemons.do(effect(host))
    if with_server:
        ask_daemon(host, "start_server -uid 0\n")
    crash(host)
    assert sorted(host.programs.processes().values()) == ([SERVER] if with_server else [])
    pipe = (folder(host) / "pipe").stat().st_ino
    daemons.do(effect(host))
    assert ask_daemon(host, "get_server_list\n") == ""
    assert list(host.programs.processes().values()) == [CONTROL]
    assert (folder(host) / "pipe").stat().st_ino == pipe, "containers have this folder mounted"
    daemons.undo(effect(host))


@pytest.mark.parametrize("with_server", [False, True], ids=["no-server", "with-a-server"])
def test_a_daemon_that_crashed_is_undone(host: Host, daemons: MpsDaemons, *, with_server: bool) -> None:
    daemons.do(effect(host))
    if with_server:
        ask_daemon(host, "start_server -uid 0\n")
    crash(host)
    daemons.undo(effect(host))
    assert host.programs.processes() == {}
    assert not folder(host).exists()


def test_a_daemon_that_takes_its_time_is_waited_for(host: Host, daemons: MpsDaemons) -> None:
    host.programs.mps_behaves("slow")
    daemons.do(effect(host))
    assert len(host.programs.mps_starts()) == 1
    daemons.undo(effect(host))


def test_a_daemon_that_is_just_starting_is_not_started_again(host: Host, daemons: MpsDaemons) -> None:
    """The plugin was killed after it had started the daemon, and before that answered."""
    host.programs.mps_behaves("slow")
    first = threading.Thread(target=daemons.do, args=[effect(host)])
    first.start()
    wait_until("the daemon is started", lambda: bool(host.programs.mps_starts()), timeout_s=5, step_s=0.01)
    assert not (folder(host) / "pipe/control").exists()
    daemons.do(effect(host))
    first.join()
    assert len(host.programs.mps_starts()) == 1
    daemons.undo(effect(host))


@pytest.mark.usefixtures("impatient")
def test_a_daemon_that_does_not_answer_is_left_to_those_who_use_it_until_the_last(
    host: Host, daemons: MpsDaemons
) -> None:
    """A node may just be slow, and its programs must not die of that."""
    host.programs.mps_behaves("mute")
    with pytest.raises(NodeError, match=rf"{GPU} \(GPU-of-{GPU}\): the MPS daemon does not answer; .*Starting control"):
        daemons.do(effect(host))
    mute = daemon_process(host)
    host.programs.mps_behaves()
    with pytest.raises(NodeError, match="MPS daemon runs and does not answer"):
        daemons.do(effect(host))
    assert daemon_process(host) == mute
    daemons.undo(effect(host))
    daemons.do(effect(host))
    assert daemon_process(host) != mute
    daemons.undo(effect(host))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("behaviour", ["stubborn", "mute"])
def test_a_daemon_that_does_not_end_is_killed_with_its_server(
    host: Host, daemons: MpsDaemons, modes: ComputeModes, behaviour: str
) -> None:
    host.programs.mps_behaves(behaviour)
    if behaviour == "mute":
        with pytest.raises(NodeError):
            daemons.do(effect(host))
    else:
        daemons.do(effect(host))
        ask_daemon(host, "start_server -uid 0\n")
        assert sorted(host.programs.processes().values()) == [CONTROL, SERVER]
    daemons.undo(effect(host))
    assert host.programs.processes() == {}
    assert not folder(host).exists()
    assert modes.exclusive == {GPU: False}


def test_what_the_daemon_says_when_it_cannot_start_is_told(host: Host, daemons: MpsDaemons) -> None:
    host.programs.mps_behaves("fail")
    with pytest.raises(NodeError) as raised:
        daemons.do(effect(host))
    for part in (GPU, f"GPU-of-{GPU}", "exit status 1", "Cannot start the control daemon", "the GPU is in use"):
        assert part in str(raised.value)
    daemons.undo(effect(host))
    assert not folder(host).exists()


def test_without_the_program_there_is_no_daemon_but_one_that_runs_can_be_stopped(
    host: Host, daemons: MpsDaemons
) -> None:
    daemons.do(effect(host))
    (host.programs.folder / CONTROL).unlink()
    daemons.undo(effect(host))
    assert host.programs.processes() == {}
    with pytest.raises(NodeError, match=rf"{GPU} .*has no nvidia-cuda-mps-control"):
        daemons.do(effect(host))
    daemons.undo(effect(host))


def test_no_daemon_where_the_compute_mode_cannot_be_set(host: Host, daemons: MpsDaemons, modes: ComputeModes) -> None:
    modes.error = NodeError("NVML says no")
    with pytest.raises(NodeError, match="NVML says no"):
        daemons.do(effect(host))
    assert host.programs.mps_starts() == []
    with pytest.raises(NodeError, match="NVML says no"):
        daemons.undo(effect(host))


@pytest.mark.parametrize("undo", [False, True], ids=["then-done-again", "then-undone"])
@pytest.mark.parametrize("of", ["do", "undo"])
def test_a_crash_between_any_two_steps_is_got_over(
    host: Host, daemons: MpsDaemons, modes: ComputeModes, monkeypatch: pytest.MonkeyPatch, of: str, *, undo: bool
) -> None:
    """Each call that changes something is the last one, before it and after it."""
    points = _crash_points(monkeypatch, daemons, host, of)
    assert points >= 6
    for point in range(points):
        if of == "undo":
            daemons.do(effect(host))
        with monkeypatch.context() as context:
            _crash_at(context, daemons, point)
            with pytest.raises(_CrashError):
                getattr(daemons, of)(effect(host))
        if not undo:
            daemons.do(effect(host))
            assert ask_daemon(host, "get_default_active_thread_percentage\n") == "100.0\n"
            assert list(host.programs.processes().values()) == [CONTROL]
            assert modes.exclusive == {GPU: True}
        daemons.undo(effect(host))
        assert host.programs.processes() == {}
        assert not folder(host).exists()
        assert modes.exclusive == {GPU: False}


def _is_socket(file: Path) -> bool:
    return stat.S_ISSOCK(file.stat().st_mode)


class _CrashError(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def _crash_points(monkeypatch: pytest.MonkeyPatch, daemons: MpsDaemons, host: Host, of: str) -> int:
    if of == "undo":
        daemons.do(effect(host))
    with monkeypatch.context() as context:
        count = _crash_at(context, daemons, None)
        getattr(daemons, of)(effect(host))
    daemons.undo(effect(host))
    return len(count)


def _crash_at(context: pytest.MonkeyPatch, daemons: MpsDaemons, point: int | None) -> list[str]:
    passed: list[str] = []

    def watched(name: str, call):  # type: ignore[no-untyped-def]
        def step() -> None:
            passed.append(name)
            if len(passed) - 1 == point:
                raise _CrashError

        def run(*arguments, **keywords):  # type: ignore[no-untyped-def]
            step()
            result = call(*arguments, **keywords)
            step()
            return result

        return run

    context.setattr(daemons, "_set_compute_mode", watched("compute mode", daemons._set_compute_mode))
    context.setattr(mps, "_make_folders", watched("make folders", mps._make_folders))
    context.setattr(mps, "remove_foreign", watched("remove", mps.remove_foreign))
    context.setattr(mps.HostPrograms, "run", watched("run", mps.HostPrograms.run))
    found = mps_processes.MpsProcesses
    context.setattr(found, "terminate", watched("terminate", found.terminate))
    context.setattr(found, "kill", watched("kill", found.kill))
    return passed


@pytest.mark.parametrize(
    "path", ["/", "/run/rootport/mps", f"/run/../mps/{GPU}", f"mps/{GPU}", f"/run/rootport/mps/{OTHER}", "/etc"]
)
def test_no_other_folder_is_ever_removed(host: Host, daemons: MpsDaemons, path: str) -> None:
    wrong = RunMpsDaemon(gpu=GPU, uuid="GPU-1", folder=path)
    for act in (daemons.do, daemons.undo):
        with pytest.raises(NodeError, match=f"{GPU} .*is not the folder of its MPS daemon"):
            act(wrong)


def test_a_daemon_of_another_device_root_is_ended_and_none_is_started(
    host: Host, daemons: MpsDaemons, modes: ComputeModes
) -> None:
    """An administrator has changed --device-root under a prepared claim: the GPU must become free all the same."""
    daemons.do(effect(host))
    others = MpsDaemons(replace(host.roots, driver_root="/run/elsewhere"), set_compute_mode=modes)
    with pytest.raises(NodeError, match="prepared with another --device-root"):
        others.do(effect(host))
    others.undo(effect(host))
    assert host.programs.processes() == {}
    assert not folder(host).exists()
    assert modes.exclusive == {GPU: False}


def test_what_a_container_puts_into_the_pipe_folder_leads_nowhere(host: Host, daemons: MpsDaemons) -> None:
    """A root user's container can write there: links, a false pid file, a false socket."""
    victim = host.root / "victim"
    victim.mkdir()
    (victim / "precious").touch()
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        daemons.do(effect(host))
        pipe = folder(host) / "pipe"
        (pipe / "link").symlink_to(victim)
        (pipe / "folder").mkdir()
        (pipe / f"{CONTROL}.pid").write_text(f"{bystander.pid}\n")
        crash(host)
        daemons.do(effect(host))
        assert not (pipe / "link").is_symlink()
        (pipe / "link").symlink_to(victim)
        (pipe / f"{CONTROL}.pid").write_text(f"{bystander.pid}\n")
        daemons.undo(effect(host))
        assert bystander.poll() is None
        assert (victim / "precious").exists()
    finally:
        bystander.kill()
        bystander.wait()


def link_to_other(host: Host) -> None:
    """What a container that is root does in its own pipe folder."""
    control = folder(host) / "pipe/control"
    control.unlink(missing_ok=True)
    control.symlink_to(f"../../{OTHER}/pipe/control")


def test_a_link_to_the_socket_of_another_gpus_daemon_does_not_end_that(host: Host, daemons: MpsDaemons) -> None:
    daemons.do(effect(host, OTHER))
    other = daemon_process(host)
    daemons.do(effect(host))
    link_to_other(host)
    daemons.undo(effect(host))
    assert daemon_process(host) == other
    assert ask_daemon(host, "get_default_active_thread_percentage\n", OTHER) == "100.0\n"
    daemons.undo(effect(host, OTHER))


def test_nothing_is_asked_through_a_link(
    host: Host, daemons: MpsDaemons, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemons.do(effect(host, OTHER))
    daemons.do(effect(host))
    monkeypatch.setattr(mps_processes, "_age_s", lambda _: 3600.0)
    link_to_other(host)
    commands.clear()
    with pytest.raises(EffectHangsError, match="runs and does not answer"):
        daemons.do(effect(host))
    assert commands == []
    for gpu in (GPU, OTHER):
        daemons.undo(effect(host, gpu))


@pytest.mark.parametrize("link", ["before", "after-the-look"])
def test_another_gpus_daemon_is_not_believed_for_ones_own(
    host: Host, daemons: MpsDaemons, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    daemons.do(effect(host))
    crash(host)
    daemons.do(effect(host, OTHER))
    link_to_other(host)
    if link == "after-the-look":
        looks = iter([True])  # the container puts the link in the socket's place once
        look = mps._has_socket
        monkeypatch.setattr(mps, "_has_socket", lambda daemon: next(looks, False) or look(daemon))
    daemons.do(effect(host))
    assert list(host.programs.processes().values()) == [CONTROL, CONTROL]
    assert not (folder(host) / "pipe/control").is_symlink()
    assert ask_daemon(host, "get_default_active_thread_percentage\n") == "100.0\n"
    for gpu in (GPU, OTHER):
        daemons.undo(effect(host, gpu))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("behaviour", ["", "stubborn"])
def test_a_daemon_is_killed_only_where_it_does_not_end_by_itself(
    host: Host, daemons: MpsDaemons, caplog: pytest.LogCaptureFixture, behaviour: str
) -> None:
    host.programs.mps_behaves(behaviour)
    daemons.do(effect(host))
    ask_daemon(host, "start_server -uid 0\n")
    daemons.undo(effect(host))
    assert host.programs.processes() == {}
    assert ("killing" in caplog.text) == (behaviour == "stubborn")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What NVIDIA's program was told from now on."""
    told: list[str] = []
    run = HostPrograms.run

    def watched(programs: HostPrograms, program: str, *arguments: Any, **options: Any) -> Finished:
        told.append(options.get("stdin", "").strip() or program)
        return run(programs, program, *arguments, **options)

    monkeypatch.setattr(HostPrograms, "run", watched)
    return told


def test_a_control_socket_that_a_container_keeps_silent_is_asked_once_and_then_left_for_a_while(
    host: Host, daemons: MpsDaemons, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it happens under the lock that every other claim of the node waits for."""
    daemons.do(effect(host))
    monkeypatch.setattr(mps_processes, "_age_s", lambda _: 3600.0)
    control = folder(host) / "pipe/control"
    control.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        with contextlib.chdir(control.parent):
            silent.bind("control")
        silent.listen()
        commands.clear()
        for _ in range(4):
            with pytest.raises(EffectHangsError, match="runs and does not answer"):
                daemons.do(effect(host))
        assert commands == ["get_default_active_thread_percentage"]
        daemons.undo(effect(host))
        assert len(commands) == 1, "it is ended, and not told so over the socket"
    assert host.programs.processes() == {}
    daemons.do(effect(host))
    daemons.undo(effect(host))


def test_a_daemon_that_was_silent_is_asked_again_after_a_while(
    host: Host, daemons: MpsDaemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemons.do(effect(host))
    monkeypatch.setattr(mps_processes, "_age_s", lambda _: 3600.0)
    control = folder(host) / "pipe/control"
    control.rename(control.with_name("hidden"))
    with pytest.raises(EffectHangsError):
        daemons.do(effect(host))
    control.with_name("hidden").rename(control)
    with pytest.raises(EffectHangsError):
        daemons.do(effect(host))
    monkeypatch.setattr(mps, "_NOT_ASKED_AGAIN_S", 0.0)
    daemons.do(effect(host))
    daemons.undo(effect(host))


def test_what_others_wait_for_under_the_lock_is_shorter_than_they_wait() -> None:
    waits_s = inspect.signature(ClaimStore).parameters["lock_timeout_s"].default
    assert waits_s > mps._ASK_S + mps._START_S + mps._READY_S + mps._REMOVE_S
    assert waits_s > mps._TERMINATE_S + mps._KILL_S + mps._REMOVE_S


def test_a_tree_deeper_than_any_path_in_the_pipe_folder_is_removed(host: Host, daemons: MpsDaemons) -> None:
    daemons.do(effect(host))
    inside = os.open(folder(host) / "pipe", os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=inside)
        os.close(os.open("f", os.O_CREAT, dir_fd=inside))
        os.symlink("/", "l", dir_fd=inside)
        deeper = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=inside)
        os.close(inside)
        inside = deeper
    os.close(inside)
    for _ in range(100):  # a slow machine may need more than one try, as the reconciler makes them
        with contextlib.suppress(NodeError):
            daemons.undo(effect(host))
            break
    assert not folder(host).exists()


def test_a_pipe_folder_with_more_files_than_can_be_removed_at_once_is_gone_on_with(
    host: Host, daemons: MpsDaemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemons.do(effect(host))
    for number in range(10):
        (folder(host) / f"pipe/{number}").touch()
    with monkeypatch.context() as hurried:
        hurried.setattr(mps, "_REMOVE_S", -1.0)
        with pytest.raises(NodeError, match="more files in it than can be removed at once"):
            daemons.undo(effect(host))
    assert host.programs.processes() == {}
    daemons.undo(effect(host))
    assert not folder(host).exists()


def test_a_process_of_another_root_is_not_taken_for_the_daemon(host: Host, daemons: MpsDaemons, tmp_path: Path) -> None:
    daemons.do(effect(host))
    other = InstalledPrograms(tmp_path)
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / f"run/rootport/mps/{GPU}/pipe").mkdir(parents=True)
    (tmp_path / "usr/bin" / CONTROL).write_bytes((host.programs.folder / CONTROL).read_bytes())
    (tmp_path / "usr/bin" / CONTROL).chmod(0o755)
    try:
        subprocess.run(
            ["chroot", tmp_path, f"/usr/bin/{CONTROL}", "-d"],
            env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": f"/run/rootport/mps/{GPU}/pipe"},
            check=True,
        )
        daemons.undo(effect(host))
        assert list(other.processes().values()) == [CONTROL]
    finally:
        other.kill_all()
