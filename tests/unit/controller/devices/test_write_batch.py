"""Device objects are written a few at once, within limits; the pace follows the API server's answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from controller.devices.pace import DevicePace
from controller.devices.write_batch import Write, WriteBatch
from driver.adapters.kubernetes.errors import ApiServerError, InvalidError, NotFoundError, UnavailableError

FAST_S, SLOW_S = 0.01, 0.5


class Clock:
    """Moved by who waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def grown_pace(clock: Clock) -> DevicePace:
    pace = DevicePace(wait=clock.wait, clock=clock)
    for _ in range(100):
        pace.answered(FAST_S)
    return pace


def batch(
    pace: DevicePace, *, pause: Callable[[], None] = lambda: None, stop: threading.Event | None = None, most: int = 100
) -> WriteBatch:
    return WriteBatch(pace, pause=pause, stop=stop or threading.Event(), most=most, most_s=1.0, clock=lambda: 0.0)


def test_several_writes_are_under_way_at_once_but_never_more_than_the_pace_allows() -> None:
    pace = grown_pace(Clock())
    under_way, most, lock = 0, 0, threading.Lock()

    def write() -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.02)
        with lock:
            under_way -= 1

    made = batch(pace)
    made.make(Write("applied", write) for _ in range(40))
    assert (made.is_done, made.written) == (True, {"applied": 40})
    assert 1 < most <= pace.at_once == 8
    assert not [thread for thread in threading.enumerate() if thread.name == "devices-write"]


def test_no_more_writes_than_allowed_are_begun_over_all_steps() -> None:
    made = batch(grown_pace(Clock()), most=5)
    done: list[str] = []
    made.make(Write("applied", lambda: done.append("a")) for _ in range(4))
    assert made.is_done
    made.make(Write("statuses", lambda: done.append("s")) for _ in range(4))
    assert (made.is_done, sorted(done)) == (False, ["a"] * 4 + ["s"])
    made.make([Write("deleted", lambda: done.append("d"))])
    assert "d" not in done


def test_after_a_failure_none_is_begun_and_it_is_raised_once_those_under_way_are_done() -> None:
    pace = grown_pace(Clock())
    done: list[int] = []

    def write(number: int) -> None:
        if number == 3:
            raise InvalidError("no")
        time.sleep(0.05)
        done.append(number)

    with pytest.raises(InvalidError):
        batch(pace).make(Write("applied", lambda number=number: write(number)) for number in range(100))  # type: ignore[misc]
    count = len(done)
    assert count <= 2 * pace.at_once
    time.sleep(0.1)
    assert len(done) == count


def test_an_object_that_is_gone_is_no_failure() -> None:
    def gone() -> None:
        raise NotFoundError("gone")

    made = batch(grown_pace(Clock()))
    made.make([Write("statuses", gone), Write("statuses", lambda: None)])
    assert made.is_done


def test_what_comes_first_is_done_before_the_write_and_without_it_the_write_is_not_made() -> None:
    order: list[str] = []
    batch(grown_pace(Clock())).make(
        [Write("statuses", lambda: order.append("status"), first=lambda: order.append("event"))]
    )
    assert order == ["event", "status"]

    def fails() -> None:
        raise ApiServerError("away")

    with pytest.raises(ApiServerError):
        batch(grown_pace(Clock())).make([Write("statuses", lambda: order.append("not this"), first=fails)])
    assert "not this" not in order


def test_once_stopped_no_write_is_begun() -> None:
    stop = threading.Event()
    stop.set()
    made = batch(grown_pace(Clock()), stop=stop)
    made.make([Write("applied", pytest.fail)])
    assert made.is_done


def test_more_are_made_at_once_while_answers_are_fast_and_fewer_after_a_slow_one() -> None:
    clock = Clock()
    pace = DevicePace(wait=clock.wait, clock=clock)
    assert pace.at_once == 2
    for _ in range(100):
        pace.answered(FAST_S)
    assert pace.at_once == 8
    for _ in range(5):
        pace.answered(SLOW_S)  # those under way when it became slow say the same thing
    assert pace.at_once == 4
    for _ in range(5):
        clock.now += 2
        pace.answered(SLOW_S)
    assert pace.at_once == 1


def test_a_busy_api_server_is_left_alone_for_as_long_as_it_asks_for_and_then_asked_one_by_one() -> None:
    clock = Clock()
    pace = grown_pace(clock)

    def refused() -> None:
        raise UnavailableError("busy", status=429, retry_after_s=7.0)

    with pytest.raises(UnavailableError):
        batch(pace).make([Write("applied", refused)])
    assert pace.at_once == 1
    began = clock.now
    pace.pause()
    assert clock.now - began == pytest.approx(7.0)


def test_writes_begin_no_faster_than_the_pace() -> None:
    clock = Clock()
    pace = DevicePace(wait=clock.wait, clock=clock)
    for _ in range(4001):
        pace.pause()
    assert clock.now == pytest.approx(10.0)
