"""Threads that do one thing again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from driver.errors import NodeError
from kubeletplugin.internal_errors import internal_errors
from kubeletplugin.loop import Loop, ProcessOutdatedError
from tests.support.cluster.processes import wait_until

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
        loop = Loop("test", action, **{"interval_s": 3600, "max_delay_s": 0.01, "on_outdated": lambda: None} | options)
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


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), RecursionError("too deep"), MemoryError()])
def test_an_error_that_nobody_expected_is_told_and_counted_and_the_loop_goes_on(
    make: Make, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    before = internal_errors().get("test", 0)
    action = Counted(error, error, None)
    outdated = threading.Event()
    loop = make(action, on_outdated=outdated.set)
    loop.start()
    assert all(action.wait_run() for _ in range(3))
    assert not loop.ended
    assert loop.stop(5)
    assert not outdated.is_set()
    assert not loop.ended
    assert internal_errors()["test"] == before + 2
    assert type(error).__name__ in caplog.text
    assert sum(record.exc_info is not None for record in caplog.records) <= 1, "the traceback once"


def test_an_error_that_nobody_expected_is_told_to_others_when_it_is_there_again_and_again_and_so_is_its_end(
    make: Make,
) -> None:
    told: list[tuple[str, str | None]] = []
    bug = ZeroDivisionError("a bug")
    action = Counted(bug, bug, NodeError("away"), bug, bug, bug, bug, None, None)
    loop = make(
        action, interval_s=0.01, on_failing=lambda name, error: told.append((name, error and type(error).__name__))
    )
    loop.start()
    assert all(action.wait_run() for _ in range(9))
    assert loop.stop(5)
    assert told == [("test", "InternalError"), ("test", "InternalError"), ("test", None)]


def test_one_that_was_never_started_can_be_stopped(make: Make) -> None:
    assert make(Counted()).stop(0)


def test_an_outdated_process_is_told_without_a_traceback(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    outdated = threading.Event()
    loop = make(Counted(ProcessOutdatedError("another driver runs")), on_outdated=outdated.set)
    loop.start()
    assert outdated.wait(10)
    wait_until("the thread's end", lambda: loop.ended, timeout_s=10, step_s=0.01)
    assert [(item.message, item.exc_info) for item in caplog.records] == [("a new process is needed", None)]
