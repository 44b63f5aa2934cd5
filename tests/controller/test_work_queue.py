"""The work queue: each key once, later after failures, never twice at a time."""

from __future__ import annotations

import threading

from controller.work_queue import WorkQueue


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def queue() -> tuple[WorkQueue, Clock]:
    clock = Clock()
    return WorkQueue(base_delay_s=1, max_delay_s=8, clock=clock), clock


def test_a_key_is_handed_out_once() -> None:
    it, _ = queue()
    it.add("a")
    it.add("a")
    assert it.get(0) == "a"
    assert it.get(0) is None


def test_the_earliest_time_counts() -> None:
    it, clock = queue()
    it.add("a", after_s=5)
    it.add("a", after_s=2)
    it.add("a", after_s=9)
    clock.now = 1.9
    assert it.get(0) is None
    clock.now = 2
    assert it.get(0) == "a"
    it.succeeded("a")
    clock.now = 10
    assert it.get(0) is None


def test_a_key_that_changes_during_the_work_comes_again_afterwards() -> None:
    it, _ = queue()
    it.add("a")
    assert it.get(0) == "a"
    it.add("a")
    assert it.get(0) is None
    it.succeeded("a")
    assert it.get(0) == "a"


def test_failures_double_the_wait_up_to_a_limit_and_success_ends_it() -> None:
    it, clock = queue()
    it.add("a")
    waits = []
    for _ in range(6):
        assert it.get(0) == "a"
        waits.append(it.failed("a"))
        clock.now += waits[-1]
    assert waits == [1, 2, 4, 8, 8, 8]
    assert it.get(0) == "a"
    it.succeeded("a")
    it.add("a")
    assert it.get(0) == "a"
    assert it.failed("a") == 1


def test_an_event_does_not_end_the_wait_after_a_failure() -> None:
    it, clock = queue()
    it.add("a")
    assert it.get(0) == "a"
    it.add("a")
    it.failed("a")
    it.add("a")
    assert it.get(0) is None
    clock.now = 1
    assert it.get(0) == "a"


def test_keys_do_not_wait_for_each_other() -> None:
    it, _ = queue()
    it.add("a")
    assert it.get(0) == "a"
    it.failed("a")
    it.add("b")
    assert it.get(0) == "b"


def test_idle_means_nothing_due_and_nothing_under_way() -> None:
    it, clock = queue()
    assert it.is_idle()
    it.add("a", after_s=5)
    assert it.is_idle()
    clock.now = 5
    assert not it.is_idle()
    it.get(0)
    assert not it.is_idle()
    it.succeeded("a")
    assert it.is_idle()


def test_closing_wakes_whoever_waits() -> None:
    it = WorkQueue()
    got: list[str | None] = []
    thread = threading.Thread(target=lambda: got.append(it.get()))
    thread.start()
    it.close()
    thread.join(5)
    assert got == [None]


def test_a_waiting_thread_gets_a_key_as_soon_as_it_is_added() -> None:
    it = WorkQueue()
    got: list[str | None] = []
    it.add("later", after_s=60)
    thread = threading.Thread(target=lambda: got.append(it.get()))
    thread.start()
    it.add("a")
    thread.join(5)
    assert got == ["a"]
