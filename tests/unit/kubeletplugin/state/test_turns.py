"""Callers that wait at the same time: one turn, one commit, an answer each; nobody waits for another one's effects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from kubeletplugin.state.turns import HandedBack, Turns


@dataclass
class State:
    """Records what is done in a turn."""

    done: list[str] = field(default_factory=list)
    committed: list[list[str]] = field(default_factory=list)
    error: Exception | None = None

    def commit(self) -> None:
        if self.error is not None:
            raise self.error
        self.committed.append(self.done)
        self.done = []


class LateError(Exception):
    pass


class Node:
    """Callers in threads of their own, the first of which can be held up in its turn."""

    def __init__(self, timeout_s: float = 5) -> None:
        self.state = State()
        self.go_on = threading.Event()
        self.at_work = threading.Event()
        self.turns: Turns[State] = Turns(self.opened, timeout_s=timeout_s, late=LateError)
        self.errors: dict[str, BaseException] = {}
        self.returned: list[str] = []
        self.threads: list[threading.Thread] = []

    @contextmanager
    def opened(self) -> Iterator[State]:
        yield self.state

    def call(self, name: str, work: Callable[[State], None] | None = None) -> None:
        def run() -> None:
            try:
                self.turns.take(work or (lambda state: state.done.append(name)))
            except Exception as error:  # noqa: BLE001 - compared by the test
                self.errors[name] = error
            else:
                self.returned.append(name)

        thread = threading.Thread(target=run)
        thread.start()
        self.threads.append(thread)

    def hold(self, name: str = "first") -> None:
        """Let a caller lead a turn, in which it waits."""

        def work(state: State) -> None:
            state.done.append(name)
            self.at_work.set()
            assert self.go_on.wait(5)

        self.call(name, work)
        assert self.at_work.wait(5)

    def wait_for(self, count: int) -> None:
        """Wait until so many callers wait for the one at work."""
        end = time.monotonic() + 5
        while len(self.turns._waiting) < count:
            assert time.monotonic() < end
            time.sleep(0.001)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(5)
            assert not thread.is_alive()


def _do(state: State, name: str) -> None:
    state.done.append(name)


def test_a_caller_alone_has_its_turn_at_once() -> None:
    node = Node()
    node.turns.take(lambda state: state.done.append("a"))
    assert node.state.committed == [["a"]]


def test_those_who_come_while_one_is_at_work_are_in_the_same_commit() -> None:
    node = Node()
    node.hold()
    for name in "abc":
        node.call(name)
    node.wait_for(3)
    assert node.returned == []
    node.go_on.set()
    node.join()
    assert [sorted(turn) for turn in node.state.committed] == [["a", "b", "c", "first"]]
    assert sorted(node.returned) == ["a", "b", "c", "first"]


def test_an_error_of_ones_work_is_its_own() -> None:
    node = Node()
    node.hold()

    def fails(_: State) -> None:
        raise ValueError("mine")

    node.call("bad", fails)
    node.call("good")
    node.wait_for(2)
    node.go_on.set()
    node.join()
    assert isinstance(node.errors["bad"], ValueError)
    assert sorted(node.returned) == ["first", "good"]


def test_a_commit_that_fails_fails_everybody_in_the_turn_and_nobody_after_it() -> None:
    node = Node()
    node.hold()
    node.call("a")
    node.wait_for(1)
    node.state.error = OSError("full")
    node.go_on.set()
    node.join()
    assert {name: str(error) for name, error in node.errors.items()} == {"first": "full", "a": "full"}
    node.state.error = None
    node.turns.take(lambda state: state.done.append("b"))
    assert node.state.committed[-1][-1] == "b"


def test_a_state_that_cannot_be_opened_is_an_error_of_the_leader_and_the_next_one_tries_itself() -> None:
    node = Node()
    tried = threading.Event()
    go_on = threading.Event()

    @contextmanager
    def opened() -> Iterator[State]:
        if not tried.is_set():
            tried.set()
            assert go_on.wait(5)
            raise OSError("locked")
        yield node.state

    node.turns = Turns(opened, timeout_s=5, late=LateError)
    node.call("first")
    assert tried.wait(5)
    node.call("second")
    node.wait_for(1)
    go_on.set()
    node.join()
    assert str(node.errors["first"]) == "locked"
    assert node.returned == ["second"]


def test_work_that_takes_long_is_handed_back_and_done_by_its_own_caller_in_a_turn_of_its_own() -> None:
    node = Node()
    node.hold()
    leaders: list[int] = []

    def long(state: State) -> None:
        leaders.append(threading.get_ident())
        if threading.current_thread() is not node.threads[1]:
            raise HandedBack
        state.done.append("long")

    node.call("long", long)
    node.wait_for(1)
    node.call("short")
    node.wait_for(2)
    node.go_on.set()
    node.join()
    assert node.state.committed == [["first", "short"], ["long"]]
    assert len(set(leaders)) == 2
    assert sorted(node.returned) == ["first", "long", "short"]


def test_who_waits_too_long_gives_up_and_its_work_is_never_done() -> None:
    node = Node(timeout_s=0.05)
    node.hold()
    with pytest.raises(LateError):
        node.turns.take(lambda state: state.done.append("late"))
    node.go_on.set()
    node.join()
    assert node.state.committed == [["first"]]
    node.turns.take(lambda state: state.done.append("later"))
    assert node.state.committed == [["first"], ["later"]]


def test_many_callers_all_have_their_turn_once() -> None:
    node = Node()

    def work(name: str) -> None:
        for number in range(50):
            node.turns.take(partial(_do, name=f"{name}{number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    done = [name for turn in node.state.committed for name in turn]
    assert len(done) == len(set(done)) == 300
