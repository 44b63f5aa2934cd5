"""Slices go first, but not those of slow nodes, and not for ever; and Device writes have a price."""

from __future__ import annotations

from controller.devices.pace import DevicePace
from controller.precedence import Precedence
from controller.work_queue import WorkQueue


class Clock:
    """Moved by who waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


def parts() -> tuple[Clock, WorkQueue, Precedence]:
    clock = Clock()
    queue = WorkQueue(clock=clock, cpu_clock=lambda: 0.0)
    return clock, queue, Precedence(queue, wait=clock.wait, clock=clock)


def waited(clock: Clock, precedence: Precedence) -> float:
    began = clock.now
    precedence.wait()
    return clock.now - began


def test_a_slow_key_due_or_worked_on_is_not_waited_for() -> None:
    clock, queue, precedence = parts()
    queue.add("dear")
    assert queue.get(0) == "dear"
    clock.now += 1
    queue.succeeded("dear")
    queue.add("dear")
    assert waited(clock, precedence) == 0
    assert queue.get(0) == "dear"
    assert waited(clock, precedence) == 0


def test_other_keys_are_waited_for_until_their_work_is_done() -> None:
    clock, queue, precedence = parts()
    queue.add("a")
    assert queue.get(0) == "a"
    finish = clock.now + 0.3

    def wait(seconds: float) -> bool:
        clock.now += seconds
        if clock.now >= finish and not queue.is_idle():
            queue.succeeded("a")
        return False

    assert 0.3 <= waited(clock, Precedence(queue, wait=wait, clock=clock)) < 0.4
    assert waited(clock, precedence) == 0


def test_if_some_key_is_always_due_waiting_threads_get_a_fifth_of_the_time_and_never_wait_longer_than_a_second() -> (
    None
):
    clock, queue, precedence = parts()
    queue.add("a")
    turns = 0.0
    while clock.now < 100:
        if waiting := waited(clock, precedence):
            assert waiting <= 1.1
        clock.now += 0.01
        turns += 0.01
    assert 15 <= turns <= 25


def test_a_wait_ends_when_the_process_is_to_end() -> None:
    clock, queue, _ = parts()
    queue.add("a")
    assert waited(clock, Precedence(queue, wait=lambda seconds: clock.wait(seconds) or True, clock=clock)) < 0.1


def test_a_node_whose_every_pass_writes_much_gets_a_fifth_of_all_writes_at_most() -> None:
    clock = Clock()
    pace = DevicePace(wait=clock.wait, clock=clock, cpu_clock=lambda: 0.0)
    queue = WorkQueue(clock=clock, cpu_clock=pace.cost_s)
    writes = 0
    while clock.now < 600:
        queue.add("dear")
        if queue.get(0) is None:
            clock.now += 0.01
            continue
        for _ in range(101):
            pace.pause()
            writes += 1
        queue.succeeded("dear")
    assert writes / clock.now <= 20


def test_a_node_that_writes_its_few_dozen_objects_once_does_not_rest() -> None:
    clock = Clock()
    pace = DevicePace(wait=clock.wait, clock=clock, cpu_clock=lambda: 0.0)
    queue = WorkQueue(clock=clock, cpu_clock=pace.cost_s)
    queue.add("a")
    assert queue.get(0) == "a"
    for _ in range(64):
        pace.pause()
    queue.succeeded("a")
    queue.add("a")
    assert queue.get(0) == "a"
