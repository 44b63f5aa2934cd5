"""Threads that do one thing again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from driver.errors import NodeError
from kubeletplugin.loop import Loop, ProcessOutdatedError

Make = Callable[..., Loop]


class Counted:
    """An action whose runs can be waited for."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self._ran = threading.Semaphore(0)

    def __call__(self) -> None:
        self._ran.release()
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error

    def wait_run(self, timeout_s: float = 10) -> bool:
        return self._ran.acquire(timeout=timeout_s)


@pytest.fixture
def make() -> Iterator[Make]:
    loops: list[Loop] = []

    def make_loop(action: Callable[[], None], **options: object) -> Loop:
        loop = Loop("test", action, **{"interval_s": 3600, "max_delay_s": 0.01, "on_crash": lambda: None} | options)
        loops.append(loop)
        return loop

    yield make_loop
    for loop in loops:
        assert loop.stop(5)


def test_it_runs_at_once_and_then_when_woken(make: Make) -> None:
    action = Counted()
    loop = make(action)
    loop.start()
    assert action.wait_run()
    assert loop.wait_once(5)
    assert not action.wait_run(0.05)
    loop.wake()
    assert action.wait_run()


def test_wake_ups_soon_after_each_other_make_one_run(make: Make) -> None:
    action = Counted()
    loop = make(action, settle_s=1.5)
    loop.start()
    assert action.wait_run()
    for _ in range(5):
        loop.wake()
    assert not action.wait_run(0.2)
    assert action.wait_run()
    assert not action.wait_run(0.3)


def test_it_runs_every_interval(make: Make) -> None:
    action = Counted()
    make(action, interval_s=0.01).start()
    assert all(action.wait_run() for _ in range(5))


def test_a_failure_is_told_once_while_it_stays_the_same_and_so_is_its_end(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    away, other = NodeError("away"), NodeError("other")
    action = Counted(away, away, other, None)
    with caplog.at_level(logging.DEBUG, "kubeletplugin.loop"):
        loop = make(action)
        loop.start()
        assert all(action.wait_run() for _ in range(4))
        assert loop.stop(5)
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG", "WARNING", "INFO"]
    assert caplog.records[-1].__dict__["failures"] == 3


def test_a_failure_is_not_retried_at_once_even_when_woken(make: Make) -> None:
    action = Counted(NodeError("away"))
    loop = make(action, max_delay_s=60)
    loop.start()
    assert action.wait_run()
    loop.wake()
    assert not action.wait_run(0.2)


def test_a_bug_ends_the_loop_and_is_told(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    crashed = threading.Event()
    loop = make(Counted(ZeroDivisionError("a bug")), on_crash=crashed.set)
    loop.start()
    assert crashed.wait(5)
    assert loop.stop(5)
    assert loop.crashed
    assert "a bug" in caplog.text


def test_one_that_was_never_started_can_be_stopped(make: Make) -> None:
    assert make(Counted()).stop(0)


def test_an_outdated_process_is_told_without_a_traceback(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    crashed = threading.Event()
    loop = make(Counted(ProcessOutdatedError("another driver runs")), on_crash=crashed.set)
    loop.start()
    assert crashed.wait(10)
    assert loop.crashed
    assert [(item.message, item.exc_info) for item in caplog.records] == [("a new process is needed", None)]
