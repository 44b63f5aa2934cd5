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


def test_closing_wakes_waiting_threads() -> None:
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


class Times(Clock):
    """A queue's two clocks, moved by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu = 0.0

    def queue(self) -> WorkQueue:
        return WorkQueue(base_delay_s=1, max_delay_s=8, clock=self, cpu_clock=lambda: self.cpu)

    def work(self, it: WorkQueue, key: str, *, cpu_s: float = 0.0, wall_s: float = 0.0) -> None:
        it.add(key)
        assert it.get(0) == key
        self.now += max(cpu_s, wall_s)
        self.cpu += cpu_s
        it.succeeded(key)


def test_a_key_whose_work_took_the_processor_rests_however_often_it_is_added() -> None:
    times = Times()
    it = times.queue()
    times.work(it, "a", cpu_s=0.5)
    it.add("a")
    times.now += 9.9
    assert it.get(0) is None
    it.add("a")
    times.now += 0.1
    assert it.get(0) == "a"


def test_what_was_added_during_long_work_comes_after_the_rest() -> None:
    times = Times()
    it = times.queue()
    it.add("a")
    assert it.get(0) == "a"
    it.add("a")
    times.now, times.cpu = 1, 1
    it.succeeded("a")
    times.now = 20.9
    assert it.get(0) is None
    times.now = 21
    assert it.get(0) == "a"


def test_a_rest_has_an_end_and_waiting_for_others_costs_none() -> None:
    times = Times()
    it = times.queue()
    times.work(it, "a", cpu_s=600)
    it.add("a")
    times.now += 30
    assert it.get(0) == "a"
    it.succeeded("a")
    times.work(it, "b", cpu_s=0.2, wall_s=60)
    it.add("b")
    assert it.get(0) == "b"


def test_a_failure_that_took_the_processor_rests_as_well() -> None:
    times = Times()
    it = times.queue()
    it.add("a")
    assert it.get(0) == "a"
    times.now, times.cpu = 1, 1
    assert it.failed("a") == 20


def test_a_key_whose_work_takes_long_comes_after_all_others_for_a_while() -> None:
    times = Times()
    it = times.queue()
    times.work(it, "a", wall_s=1)
    it.add("a")
    it.add("b")
    assert [it.get(0), it.get(0)] == ["b", "a"]
    it.succeeded("b")
    it.succeeded("a")
    times.now += 601
    it.add("a")
    it.add("b")
    assert [it.get(0), it.get(0)] == ["a", "b"]


def test_slow_keys_can_be_left_to_another_thread() -> None:
    times = Times()
    it = times.queue()
    times.work(it, "a", wall_s=1)
    it.add("a")
    it.add("b")
    assert it.get(0, slow=False) == "b"
    assert it.get(0, slow=False) is None
    assert it.get(0, slow=True) == "a"
    assert not it.is_idle()


def test_whether_slow_keys_are_due_and_whether_others_are_can_be_asked_apart() -> None:
    times = Times()
    it = times.queue()
    times.work(it, "a", wall_s=1)
    it.add("a")
    assert (it.is_idle(slow=False), it.is_idle(slow=True), it.is_idle()) == (True, False, False)
    assert it.get(0) == "a"
    assert (it.is_idle(slow=False), it.is_idle(slow=True), it.is_idle()) == (True, False, False)
    it.add("b")
    assert not it.is_idle(slow=False)
    assert it.get(0) == "b"
    it.succeeded("a")
    assert (it.is_idle(slow=False), it.is_idle(slow=True)) == (False, True)
    it.succeeded("b")
    assert it.is_idle()


def test_a_thread_that_waits_for_slow_keys_sleeps_over_the_others() -> None:
    it = WorkQueue()
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(it.get(30, slow=True)))
    thread.start()
    it.add("a")
    assert it.get(10, slow=False) == "a"
    it.close()
    thread.join(10)
    assert found == [None]
