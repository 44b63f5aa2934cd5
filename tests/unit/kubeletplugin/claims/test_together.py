"""Claims that are prepared and unprepared at the same time: one write of the checkpoint, a crash at any step of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError
from kubeletplugin.claims.preparer import Preparer
from kubeletplugin.service import ClaimPrepared
from kubeletplugin.state.checkpoint import CheckpointFile
from kubeletplugin.state.store import ClaimStore
from tests.support.preparer.machine import Machine, failed, gpu_claim, in_child, prepared, uid
from tests.support.preparer.sharing import mig_claim

PLAIN = (
    "prepare: metadata written",
    "prepare: CDI spec written",
    "unprepare: CDI spec removed",
    "unprepare: metadata removed",
    "prepare: checkpoint written",
    "unprepare: checkpoint written",
)


class Crowd:
    """Calls of one instance that come while another one of it has the state open, so that they share the next turn."""

    def __init__(self, machine: Machine, step: Callable[[str], None] | None = None) -> None:
        self.store: ClaimStore = machine.store(step)
        self.preparer: Preparer = machine.preparer(self.store)
        self.answers: dict[str, Any] = {}

    def call(self, *calls: tuple[str, Sequence[ClaimReference]]) -> dict[str, Any]:
        """``prepare`` and ``unprepare``, each in a thread of its own, all in one turn."""

        def run(method: str, claims: Sequence[ClaimReference]) -> None:
            self.answers |= getattr(self.preparer, method)(claims)

        threads = [threading.Thread(target=run, args=call) for call in calls]
        at_work, go_on = threading.Event(), threading.Event()

        def first(_: object) -> dict[str, None]:
            at_work.set()
            assert go_on.wait(10)
            return {}

        leader = threading.Thread(target=self.store.together, args=(first,))
        leader.start()
        assert at_work.wait(10)
        for thread in threads:
            thread.start()
        while len(self.store._turns._waiting) < len(calls):
            threading.Event().wait(0.002)
        go_on.set()
        for thread in (leader, *threads):
            thread.join(20)
            assert not thread.is_alive()
        return self.answers


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many claims each write of the checkpoint has."""
    found: list[int] = []
    real = CheckpointFile.save

    def save(self: CheckpointFile, claims: Any, **options: Any) -> None:
        claims = list(claims)
        found.append(len(claims))
        real(self, claims, **options)

    monkeypatch.setattr(CheckpointFile, "save", save)
    return found


def test_calls_that_wait_at_the_same_time_share_one_write(machine: Machine, writes: list[int]) -> None:
    machine.recover()
    first, second, third, fourth = machine.offer(*(gpu_claim(number) for number in range(4)))
    crowd = Crowd(machine)
    crowd.preparer.prepare([fourth])
    writes.clear()
    crowd.call(("prepare", [first]), ("prepare", [second]), ("prepare", [third]), ("unprepare", [fourth]))
    assert writes == [3]
    assert all(isinstance(crowd.answers[item.uid], ClaimPrepared) for item in (first, second, third))
    assert crowd.answers[fourth.uid] is None
    assert machine.check() == {first.uid, second.uid, third.uid}
    assert list((machine.plugin_dir / "preparing").iterdir()) == []


def test_what_changes_nothing_writes_nothing(machine: Machine, writes: list[int]) -> None:
    machine.recover()
    known, unknown = machine.offer(gpu_claim(1), gpu_claim(2))
    preparer = machine.preparer()
    preparer.prepare([known])
    writes.clear()
    prepared(preparer.prepare([known])[known.uid])
    assert preparer.unprepare([unknown]) == {unknown.uid: None}
    assert writes == []


def test_a_device_that_is_freed_in_a_turn_may_be_given_in_it(machine: Machine) -> None:
    former, other = machine.offer(gpu_claim(1, 1), gpu_claim(2, 1))
    crowd = Crowd(machine)
    crowd.preparer.prepare([former])
    crowd.call(("unprepare", [former]), ("prepare", [other]))
    # Whichever came first: the device is never held twice, and refused only where it is held.
    holds = machine.check()
    assert former.uid not in holds
    answer = crowd.answers[other.uid]
    assert isinstance(answer, ClaimPrepared) == (other.uid in holds)


def test_a_claim_with_effects_has_a_turn_of_its_own(machine: Machine, writes: list[int]) -> None:
    machine.recover()
    plain, mig, other = machine.offer(gpu_claim(1), mig_claim(2, (2, 0)), gpu_claim(3))
    crowd = Crowd(machine)
    writes.clear()
    crowd.call(("prepare", [plain]), ("prepare", [mig]), ("prepare", [other]))
    assert writes == [2, 3]
    assert machine.check() == {plain.uid, mig.uid, other.uid}
    machine.check_gpus()
    crowd.call(("unprepare", [plain]), ("unprepare", [mig]), ("unprepare", [other]))
    assert set(crowd.answers.values()) == {None}
    assert machine.check() == set()
    machine.check_gpus()


def test_one_call_with_claims_with_and_without_effects_is_answered_whole(machine: Machine) -> None:
    plain, mig, other = machine.offer(gpu_claim(1), mig_claim(2, (2, 0)), gpu_claim(3))
    crowd = Crowd(machine)
    crowd.call(("prepare", [plain, mig, other]))
    assert machine.check() == {plain.uid, mig.uid, other.uid}
    assert all(isinstance(answer, ClaimPrepared) for answer in crowd.answers.values())
    machine.check_gpus()


def test_a_checkpoint_that_cannot_be_written_fails_each_claim_and_leaves_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.recover()
    kept, first, second = machine.offer(*(gpu_claim(number) for number in range(3)))
    crowd = Crowd(machine)
    crowd.preparer.prepare([kept])

    def full(*_: object, **__: object) -> None:
        raise NodeError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "save", full)
        crowd.call(("prepare", [first]), ("prepare", [second]), ("unprepare", [kept]))
    assert {failed(answer).message for answer in crowd.answers.values()} == {"the disk is full"}
    machine.recover()
    assert machine.check() == {kept.uid}
    crowd.call(("prepare", [first]), ("prepare", [second]), ("unprepare", [kept]))
    assert machine.check() == {first.uid, second.uid}


def test_a_claim_that_is_too_much_for_the_checkpoint_is_not_in_the_way_of_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.recover()
    freed, small, large = machine.offer(*(gpu_claim(number) for number in range(3)))
    crowd = Crowd(machine)
    crowd.preparer.prepare([freed])
    real = CheckpointFile.save

    def save(self: CheckpointFile, claims: Any, **options: Any) -> None:
        claims = list(claims)
        if any(entry.uid == large.uid for entry in claims):
            raise NodeError("too large")
        real(self, claims, **options)

    monkeypatch.setattr(CheckpointFile, "save", save)
    crowd.call(("prepare", [large]), ("prepare", [small]), ("unprepare", [freed]))
    assert failed(crowd.answers[large.uid]).message == "too large"
    prepared(crowd.answers[small.uid])
    assert crowd.answers[freed.uid] is None
    assert machine.check() == {small.uid}


@pytest.mark.parametrize("step", PLAIN)
@pytest.mark.parametrize("count", [1, 2])
def test_a_kill_at_any_step_of_a_turn_is_undone_or_finished_at_the_next_start(
    machine: Machine, step: str, count: int
) -> None:
    machine.recover()
    freed, other, first, second = machine.offer(*(gpu_claim(number) for number in range(4)))
    machine.preparer().prepare([freed, other])
    left = [count]

    def kill(reached: str) -> None:
        left[0] -= reached == step
        if left[0] == 0:
            signal.raise_signal(signal.SIGKILL)

    calls = (("prepare", [first]), ("prepare", [second]), ("unprepare", [freed]), ("unprepare", [other]))
    assert in_child(lambda: Crowd(machine, kill).call(*calls) and None) == -signal.SIGKILL
    machine.api_is_away = True
    machine.recover()
    written = step.endswith("checkpoint written")
    assert machine.check() == ({first.uid, second.uid} if written else {freed.uid, other.uid})
    machine.api_is_away = False
    answers = machine.preparer().unprepare([freed, other])
    assert answers == {freed.uid: None, other.uid: None}
    for item in (first, second):
        prepared(machine.preparer().prepare([item])[item.uid])
    assert machine.check() == {first.uid, second.uid}


def test_two_instances_with_several_calls_each_never_give_a_device_twice(machine: Machine) -> None:
    machine.recover()
    machine.offer(*(gpu_claim(number, number // 3) for number in range(12)))

    def act() -> None:
        crowd = Crowd(machine)
        for turn in range(12):
            method = "prepare" if turn % 3 < 2 else "unprepare"
            crowd.call(*((method, [gpu_claim((number + turn) % 12).reference]) for number in range(0, 12, 2)))

    children = [threading.Thread(target=lambda: codes.append(in_child(act))) for _ in range(2)]
    codes: list[int] = []
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert codes == [0, 0]
    machine.recover()
    machine.check()
    held = [item.device for entry in machine.entries().values() for item in entry.devices]
    assert len(held) == len(set(held))
    assert machine.preparer().unprepare([gpu_claim(number).reference for number in range(12)]) == {
        uid(number): None for number in range(12)
    }
    assert machine.check() == set()
