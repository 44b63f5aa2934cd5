"""Two processes on one node's state, and the lock between them."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError
from kubeletplugin.service import ClaimPrepared
from kubeletplugin.state.file_lock import FileLock
from tests.support.preparer.machine import Machine, failed, gpu_claim, in_child, prepared, uid
from tests.support.preparer.sharing import mig_claim
from tests.unit.kubeletplugin.claims.test_ahead import Ahead, as_read

CLAIMS = 6


def hammer(machine: Machine, seed: int, rounds: int) -> None:
    """Prepare and unprepare claims at random; claims of the same GPU compete."""
    chance = random.Random(seed)
    preparer = machine.preparer()
    for _ in range(rounds):
        claim = gpu_claim(chance.randrange(CLAIMS)).reference
        if chance.random() < 0.5:
            answer = preparer.prepare([claim])[claim.uid]
            if not isinstance(answer, ClaimPrepared):
                message = answer.message
                assert "is still in use by claim" in message or "was unprepared while" in message, message
        else:
            assert preparer.unprepare([claim]) == {claim.uid: None}


def test_two_processes_prepare_and_unprepare_without_losing_or_doubling_anything(machine: Machine) -> None:
    machine.offer(*(gpu_claim(number, number // 2) for number in range(CLAIMS)))
    children = []
    for seed in (1, 2):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                hammer(machine, seed, 60)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    while not _ended(children):
        entries = machine.entries()
        used = [item.device for entry in entries.values() for item in entry.devices]
        assert len(used) == len(set(used))
    assert not machine.recover().problems
    machine.check()


def test_a_new_instance_takes_no_note_from_a_claim_that_the_old_one_is_preparing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a rolling update the new one runs at once, before it knows which claims are announced."""
    claim = mig_claim(1, (1, 0))
    machine.offer(claim)
    old = threading.Thread(target=lambda: machine.preparer(machine.store()).prepare_ahead(as_read(claim)))
    new = Ahead(machine)
    notes = new.loop._store.ahead
    notes.add(claim.reference)  # as it was when the new one looked
    remove = notes.remove

    def remove_later(reference: ClaimReference) -> None:
        old.start()
        old.join(2)  # it waits for the lock, if that is held
        remove(reference)

    monkeypatch.setattr(notes, "remove", remove_later)
    new.run()
    old.join()
    assert machine.check() == new.notes() == {uid(1)}


def _ended(children: list[int]) -> bool:
    for child in list(children):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            children.remove(child)
    return not children


def test_threads_of_one_instance_prepare_side_by_side(machine: Machine) -> None:
    claims = machine.offer(*(gpu_claim(number) for number in range(4)))
    preparer = machine.preparer()
    answers: dict[str, object] = {}
    threads = [
        threading.Thread(target=lambda item=item: answers.update(preparer.prepare([item]))) for item in claims * 3
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(answer, ClaimPrepared) for answer in answers.values())
    assert machine.check() == {claim.uid for claim in claims}


def test_the_second_instance_sees_and_undoes_what_the_first_prepared(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    first, second = machine.preparer(), machine.preparer()
    assert second.unprepare([claim]) == {claim.uid: None}
    answer = first.prepare([claim])
    assert second.prepare([claim]) == answer
    assert second.unprepare([claim]) == {claim.uid: None}
    assert machine.check() == set()
    assert first.prepare([claim]) == answer


# The lock


def test_a_lock_that_another_instance_holds_is_told_in_time_with_its_name(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.recover()
    path = machine.plugin_dir / "state.lock"
    with FileLock(path, holder="rootport-old").held():
        preparer = machine.preparer(machine.store(lock_timeout_s=0.05))
        for answer in (preparer.prepare([claim])[claim.uid], preparer.unprepare([claim])[claim.uid]):
            error = failed(answer)
            assert error.message == (
                f"the plugin's state is in use: instance rootport-old has held the lock {path} for more than 0.05 s"
            )
            assert error.hint
            assert error.retry_helps
    prepared(machine.preparer().prepare([claim])[claim.uid])


def test_a_thread_waits_for_another_thread_no_longer_than_told(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", holder="a", timeout_s=0.05)
    caught: list[NodeError] = []

    def waits() -> None:
        try:
            with lock.held():
                pass
        except NodeError as error:
            caught.append(error)

    with lock.held():
        thread = threading.Thread(target=waits)
        thread.start()
        thread.join()
    assert "another call to this instance has held the lock" in caught[0].message
    waits()
    assert len(caught) == 1


def test_a_holder_that_is_killed_leaves_the_lock_free(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", holder="a", timeout_s=1)

    def dies() -> None:
        with lock.held():
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(dies) == -signal.SIGKILL
    before = time.monotonic()
    with lock.held():
        assert time.monotonic() - before < 0.5


def test_a_lock_file_that_was_removed_excludes_nobody_and_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as removed:
        fcntl.flock(removed, fcntl.LOCK_EX)
        path.unlink()
        with FileLock(path, holder="a", timeout_s=0.05).held():
            assert path.read_text() == "a"


def test_a_lock_on_a_file_that_was_removed_at_the_last_moment_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, removed = tmp_path / "lock", fcntl.flock, []

    def flock(descriptor: int, operation: int) -> None:
        if not removed:
            path.unlink()
            removed.append(path)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = FileLock(path, holder="a", timeout_s=0.05)
    with lock.held(), pytest.raises(NodeError), FileLock(path, holder="b", timeout_s=0.05).held():
        pass


def test_a_link_in_the_locks_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(NodeError, match="cannot be taken"), FileLock(tmp_path / "lock", holder="a").held():
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_an_error_of_the_body_frees_the_lock(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", holder="a", timeout_s=0.05)
    with pytest.raises(KeyError), lock.held():
        raise KeyError(uid(1))
    with lock.held():
        pass
