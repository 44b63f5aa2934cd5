"""One claim on which the plugin stumbles: it alone is concerned, and that is told, counted and tried again."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.adapters.files import cdi_files
from driver.api.resource_v1 import ClaimReference, ResourceClaim
from driver.errors import NodeError
from driver.plan import PreparePlan
from kubeletplugin.claims import recovery
from kubeletplugin.claims.preparer import Preparer
from kubeletplugin.claims.recovery import Reconciler
from kubeletplugin.internal_errors import InternalError, guarded, internal_errors, summary
from tests.support.preparer.machine import Machine, failed, gpu_claim, prepared, uid
from tests.support.preparer.sharing import share_claim


def of(part: str) -> int:
    return internal_errors().get(part, 0)


def reconciler(machine: Machine, get_claim: Callable[[ClaimReference], ResourceClaim] | None = None) -> Reconciler:
    store = machine.store()
    return Reconciler(store=store, preparer=machine.preparer(store), get_claim=get_claim or machine.get_claim)


def test_what_is_raised_on_purpose_passes_and_anything_else_is_the_subjects_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = of("here")
    with pytest.raises(NodeError, match=r"^away$"), guarded("here", "claim a/b"):
        raise NodeError("away")
    assert of("here") == before
    for _ in range(3):
        with pytest.raises(InternalError) as caught, guarded("here", "claim a/b"):
            raise KeyError("x")
        assert caught.value.message == "claim a/b: the plugin failed unexpectedly: KeyError: 'x'"
        assert "a mistake in Rootport" in (caught.value.hint or "")
        assert caught.value.retry_helps
    assert of("here") == before + 3
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.exc_info is not None, "with a traceback, once"


def test_a_summary_tells_of_the_unexpected_first() -> None:
    away, bug = NodeError("away"), InternalError("bug")
    assert (str(summary("two", [away, bug])), type(summary("two", [away, bug]))) == (
        "two, the first: bug",
        InternalError,
    )
    assert type(summary("one", [away])) is NodeError


@pytest.mark.parametrize("error", [RecursionError("too deep"), MemoryError(), TypeError("a list")])
def test_a_claim_that_the_reader_stumbles_over_is_told_and_the_others_are_looked_after(
    machine: Machine, error: Exception
) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2), gpu_claim(3))
    machine.preparer().prepare(claims)
    machine.checkpoint.write_text("spoilt")  # so that each is planned anew
    machine.recover()
    before = of("reconcile")

    def read(reference: ClaimReference) -> ResourceClaim:
        if reference.uid == uid(2):
            raise error
        return machine.get_claim(reference)

    report = reconciler(machine, read).run_once()
    assert report.planned == (claims[0], claims[2])
    (unknown,) = report.unknown
    assert isinstance(unknown, InternalError)
    assert uid(2) in unknown.message
    assert of("reconcile") == before + 1
    assert reconciler(machine).run_once().planned == (claims[1],)


def test_a_claim_that_the_planner_stumbles_over_is_refused_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2), gpu_claim(3))
    check = Preparer._check_device_nodes

    def stumble(preparer: Preparer, plan: PreparePlan) -> None:
        if plan.claim.uid == uid(2):
            raise AttributeError("a mistake")
        check(preparer, plan)

    monkeypatch.setattr(Preparer, "_check_device_nodes", stumble)
    before = of("prepare")
    answers = machine.preparer().prepare(claims)
    assert isinstance(failed(answers[uid(2)]), InternalError)
    assert [prepared(answers[uid(number)]).devices[0].device for number in (1, 3)]
    assert of("prepare") == before + 1
    assert machine.check() == {uid(1), uid(3)}
    monkeypatch.undo()
    prepared(machine.preparer().prepare([claims[1]])[uid(2)])


def test_a_claim_that_cannot_be_unprepared_for_a_mistake_keeps_no_other_from_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = machine.offer(gpu_claim(1), share_claim(2, 2), gpu_claim(3))
    machine.preparer().prepare(claims)
    remove = cdi_files.remove_spec

    def stumble(claim_uid: str, folder: Path) -> None:
        if claim_uid == uid(2):
            raise IndexError("a mistake")
        remove(claim_uid, folder)

    monkeypatch.setattr(cdi_files, "remove_spec", stumble)
    answers = machine.preparer().unprepare(claims)
    assert (answers[uid(1)], answers[uid(3)]) == (None, None)
    assert isinstance(failed(answers[uid(2)]), InternalError)
    monkeypatch.undo()
    assert machine.preparer().unprepare(claims[1:2]) == {uid(2): None}
    assert machine.check() == set()


def test_the_start_survives_an_entry_over_which_it_stumbles(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    machine.preparer().prepare(claims)
    for number in (1, 2):
        cdi_files.spec_path(uid(number), machine.cdi_dir).unlink()
    is_whole = recovery._is_whole

    def stumble(entry: recovery.Entry, store: recovery.ClaimStore) -> bool:
        if entry.uid == uid(1):
            raise UnicodeError("a mistake")
        return is_whole(entry, store)

    monkeypatch.setattr(recovery, "_is_whole", stumble)
    report = machine.recover()
    assert report.restored == claims[1:]
    assert [type(problem) for problem in report.problems] == [InternalError]


@pytest.mark.parametrize(
    ("version", "claims"),
    [(1, ["no entry"]), (2, [{"devices": ["no device"]}]), (1, [{"devices": 5, "metadata": []}]), (2, 7)],
)
def test_an_old_checkpoint_that_cannot_be_migrated_is_set_aside_whatever_is_in_it(
    machine: Machine, version: int, claims: object
) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.preparer().prepare([claim])
    data = {"claims": claims}
    checksum = hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    content = {"version": version, "checksum": checksum, "data": data}
    machine.checkpoint.write_text(json.dumps(content))
    report = machine.recover()
    assert report.set_aside is not None
    assert report.rebuilt == (claim,)
