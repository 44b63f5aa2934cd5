"""An MPS daemon that claims need is started again when it has ended; less and less often where it ends again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.errors import NodeError
from driver.plan.effects import Effect, RunMpsDaemon
from kubeletplugin.effects import mps_watch
from kubeletplugin.effects.mps import MpsDaemons
from kubeletplugin.effects.mps_processes import mps_processes
from kubeletplugin.effects.mps_watch import MpsWatch
from tests.unit.kubeletplugin.effects.host import Host
from tests.unit.kubeletplugin.effects.test_mps import GPU, OTHER, effect, folder

LOOK_S = 2.0


class Watched:
    """A watch that looks every 2 s of a time of its own, and the times at which it started daemons."""

    def __init__(self, host: Host, daemons: MpsDaemons) -> None:
        self.daemons = daemons
        self.effects: list[Effect] = []
        self.now_s = 0.0
        self.starts: list[float] = []
        self.refuses = False
        self.watch = MpsWatch(host.roots, effects=lambda: self.effects, start=self._start, clock=lambda: self.now_s)

    def _start(self, daemon: RunMpsDaemon) -> None:
        self.starts.append(self.now_s)
        if self.refuses:
            raise NodeError("NVIDIA's program refuses")
        self.daemons.do(daemon)

    def check(self, times: int = 3) -> int:
        """Look some times; how many daemons it has started in all."""
        for _ in range(times):
            self.watch.check()
            self.now_s += LOOK_S
        return len(self.starts)

    def waits(self) -> list[float]:
        """The seconds between two starts."""
        return [after - before for before, after in zip(self.starts, self.starts[1:], strict=False)]


@pytest.fixture
def daemons(host: Host) -> MpsDaemons:
    return MpsDaemons(host.roots, set_compute_mode=lambda *_, **__: None)


@pytest.fixture
def watched(host: Host, daemons: MpsDaemons) -> Iterator[Watched]:
    before = open_files()
    made = Watched(host, daemons)
    yield made
    for each in made.effects:
        assert isinstance(each, RunMpsDaemon)
        daemons.undo(each)
    made.effects = []
    made.check()
    assert open_files() == before, "it holds no process any more"


def crash(host: Host, gpu: str = GPU) -> None:
    """A GPU's daemon dies, if it runs, and leaves everything lying."""
    with mps_processes(folder(host, gpu) / "pipe") as processes:
        processes.kill()
        assert processes.wait(5)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_daemon_that_has_ended_is_started_at_once(host: Host, daemons: MpsDaemons, watched: Watched) -> None:
    watched.effects = [effect(host)]
    daemons.do(effect(host))
    assert watched.check() == 0
    crash(host)
    assert watched.check() == 1


def test_a_daemon_that_is_not_there_at_first_is_started_at_once(host: Host, watched: Watched) -> None:
    watched.effects = [effect(host), effect(host, OTHER)]
    watched.check(1)
    assert watched.starts == [0.0, 0.0]
    assert watched.check() == 2


def test_a_daemon_that_ends_again_and_again_is_started_less_and_less_often(host: Host, watched: Watched) -> None:
    watched.effects = [effect(host)]
    while watched.now_s < 3600:
        before = len(watched.starts)
        if watched.check(1) > before:
            watched.check(1)
            crash(host)
    assert watched.waits()[:3] == [8.0, 12.0, 20.0], "4 s, 8 s, 16 s after the look 4 s later that notices the end"
    assert watched.waits()[-1] >= 300
    assert len(watched.starts) < 20


def test_a_daemon_that_ends_before_it_is_seen_is_tried_again_as_well(host: Host, watched: Watched) -> None:
    watched.effects = [effect(host)]
    watched.check(1)
    crash(host)
    assert watched.check(3) == 2
    crash(host)
    assert watched.check(6) == 3


def test_one_that_cannot_be_started_is_told_with_the_error_and_looked_for_only_when_it_is_tried(
    host: Host, watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = []
    real = mps_watch.mps_processes
    monkeypatch.setattr(mps_watch, "mps_processes", lambda pipe: looks.append(watched.now_s) or real(pipe))
    watched.effects = [effect(host)]
    watched.refuses = True
    watched.check(150)
    assert watched.waits() == [4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    assert set(looks) == set(watched.starts), "all of /proc is read for it"
    told = [record for record in caplog.records if record.message == "an MPS daemon could not be started"]
    assert [vars(record)["error"] for record in told] == ["NVIDIA's program refuses"] * len(watched.starts)


def test_a_daemon_that_keeps_ending_does_not_make_another_wait(
    host: Host, daemons: MpsDaemons, watched: Watched
) -> None:
    watched.effects = [effect(host), effect(host, OTHER)]
    daemons.do(effect(host, OTHER))
    for _ in range(30):
        watched.check()
        crash(host)
    assert watched.waits()[-1] > 30
    before = watched.check(1)
    crash(host, OTHER)
    now_s = watched.now_s
    watched.check(1)
    assert watched.starts[before:] == [now_s]


def test_after_it_has_run_for_long_it_is_started_at_once_again(host: Host, watched: Watched) -> None:
    watched.effects = [effect(host)]
    for _ in range(3):
        watched.check(20)
        crash(host)
    watched.check(200)
    before = watched.check(1)
    crash(host)
    now_s = watched.now_s
    watched.check(1)
    assert watched.starts[before:] == [now_s]


def test_a_daemon_that_no_claim_needs_any_more_is_not_started(
    host: Host, daemons: MpsDaemons, watched: Watched
) -> None:
    watched.effects = [effect(host)]
    daemons.do(effect(host))
    assert watched.check() == 0
    watched.effects = []
    daemons.undo(effect(host))
    assert watched.check() == 0


def test_without_mps_no_process_is_looked_at(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", lambda _: pytest.fail("it looked"))
    assert watched.check() == 0
