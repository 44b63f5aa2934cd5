"""The start after whatever happened, and the comparison with the API later."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from driver.adapters.files.cdi_files import spec_path
from kubeletplugin.claims.recovery import Reconciler, recover
from tests.support.plan.builders import gpu, node
from tests.support.preparer.machine import Machine, failed, gpu_claim, prepared, uid


def test_a_first_start_finds_nothing_and_says_so(machine: Machine) -> None:
    assert str(machine.recover()) == "0 prepared claims"
    assert machine.check() == set()
    assert machine.checkpoint.exists()  # so that one which is missing later was lost


def test_a_wiped_runtime_folder_is_restored_without_api_and_hardware(machine: Machine) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    machine.preparer().prepare(claims)
    shutil.rmtree(machine.cdi_dir)
    shutil.rmtree(machine.metadata_dir)
    machine.api_is_away, machine.inventory = True, node()
    report = machine.recover()
    assert report.restored == claims
    assert report.problems == []
    assert machine.check() == {uid(1), uid(2)}
    assert machine.recover().restored == []


def test_files_without_an_entry_and_temporary_files_are_removed_and_others_left_alone(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.preparer().prepare([claim])
    content = spec_path(claim.uid, machine.cdi_dir).read_bytes()
    stray = [
        machine.cdi_dir / f"rootport.dev-claim_{uid(9)}.json",
        machine.cdi_dir / f".rootport.dev-claim_{uid(1)}.json.abc123.tmp",
        machine.plugin_dir / ".checkpoint.json.abc123.tmp",
        machine.metadata_dir / uid(1) / ".gpu1.json.abc123.tmp",
        machine.metadata_dir / uid(9) / "gpu.json",
        machine.metadata_dir / uid(8) / ".gpu.json.abc123.tmp",
    ]
    kept = [machine.cdi_dir / "nvidia.yaml", machine.plugin_dir / ".other.abc123.tmp"]
    for path in (*stray, *kept):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    report = machine.recover()
    assert not any(path.exists() for path in stray)
    assert all(path.exists() for path in kept)
    assert {machine.metadata_dir / uid(9), stray[0], stray[1]} <= set(report.removed)
    kept[1].unlink()
    assert machine.check() == {claim.uid}


def test_old_notes_of_calls_are_removed_and_young_ones_kept(machine: Machine) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    machine.api_is_away = True
    machine.preparer().prepare(claims)
    notes = machine.plugin_dir / "preparing"
    hours_ago = time.time() - 7200
    os.utime(notes / uid(1), (hours_ago, hours_ago))
    machine.recover()
    assert [path.name for path in notes.iterdir()] == [uid(2)]


def test_what_cannot_be_restored_is_told_and_does_not_keep_the_plugin_from_starting(machine: Machine) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    machine.preparer().prepare(claims)
    path = spec_path(uid(1), machine.cdi_dir)
    path.unlink()
    path.mkdir()
    spec_path(uid(2), machine.cdi_dir).unlink()
    report = machine.recover()
    assert report.restored == [claims[1]]
    (problem,) = report.problems
    assert f"claim ml/claim-1 (uid {uid(1)}): the CDI spec {path} cannot be written: Is a directory" in str(report)
    assert problem.hint


# The comparison with the API


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reconciler(machine: Machine, clock: Clock, boot_id: str = "boot-1") -> Reconciler:
    store = machine.store(boot_id=boot_id)
    return Reconciler(
        store=store,
        preparer=machine.preparer(store),
        get_claim=machine.get_claim,
        gone_after_s=600,
        clock=clock,
    )


def test_a_prepared_claim_that_is_gone_is_reported_and_left_to_the_kubelet(machine: Machine, clock: Clock) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    machine.preparer().prepare(claims)
    loop = reconciler(machine, clock)
    machine.claims.clear()
    machine.offer(gpu_claim(2), gpu_claim(3, name="claim-1"))
    assert loop.run_once().gone == ()
    clock.now = 599
    assert loop.run_once().gone == ()
    clock.now = 600
    report = loop.run_once()
    assert report.gone == ((claims[0], 600.0),)
    assert report.removed == ()
    assert machine.check() == {uid(1), uid(2)}


def test_an_api_server_that_is_away_says_nothing_of_any_claim(machine: Machine, clock: Clock) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.preparer().prepare([claim])
    machine.checkpoint.write_text("spoilt")
    machine.recover()
    loop = reconciler(machine, clock)
    machine.api_is_away = True
    for now in (0, 600, 6000):
        clock.now = now
        report = loop.run_once()
        assert (report.gone, report.removed, report.planned) == ((), (), ())
        assert len(report.unknown) == 1
    assert machine.check() == {claim.uid}


def test_a_claim_that_comes_back_is_not_gone_for_long(machine: Machine, clock: Clock) -> None:
    claim = gpu_claim(1)
    machine.offer(claim)
    machine.preparer().prepare([claim.reference])
    loop = reconciler(machine, clock)
    for now, there in ((0, False), (500, True), (700, False), (1200, False)):
        clock.now = now
        machine.claims.clear()
        if there:
            machine.offer(claim)
        assert loop.run_once().gone == ()


def test_a_rebuilt_claim_is_planned_anew_while_it_exists_and_removed_once_it_is_gone(
    machine: Machine, clock: Clock
) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    machine.preparer().prepare(claims)
    machine.checkpoint.write_text("spoilt")
    shutil.rmtree(machine.metadata_dir / uid(1))
    machine.recover()
    loop = reconciler(machine, clock)
    del machine.claims["ml", "claim-2"]
    assert loop.run_once().planned == (claims[0],)
    assert (machine.metadata_dir / uid(1) / "gpu1.json").exists()
    clock.now = 600
    report = loop.run_once()
    assert report.removed == (claims[1],)
    assert machine.check() == {uid(1)}
    assert machine.entries()[uid(1)].state == "prepared"


def test_a_claim_of_an_earlier_boot_that_is_gone_is_removed_since_nothing_of_it_can_run(
    machine: Machine, clock: Clock
) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.preparer().prepare([claim])
    recover(machine.store(boot_id="boot-2"))
    loop = reconciler(machine, clock, boot_id="boot-2")
    machine.claims.clear()
    assert loop.run_once().removed == ()
    clock.now = 600
    assert loop.run_once().removed == (claim,)
    assert machine.check() == set()


def test_a_rebuilt_claim_that_is_unprepared_meanwhile_is_not_prepared_again(machine: Machine, clock: Clock) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.preparer().prepare([claim])
    machine.checkpoint.write_text("spoilt")
    machine.recover()
    store = machine.store()
    loop = reconciler(machine, clock)
    get_claim, preparer, calls = machine.get_claim, machine.preparer(store), []

    def unprepares(reference: object) -> object:
        calls.append(reference)
        if len(calls) == 2:  # the first call is the reconciler's own look, the second the one to plan anew
            assert preparer.unprepare([claim]) == {claim.uid: None}
        return get_claim(claim)

    machine.get_claim = unprepares  # type: ignore[assignment,method-assign]
    report = Reconciler(
        store=store,
        preparer=machine.preparer(store),
        get_claim=unprepares,
        clock=clock,  # type: ignore[arg-type]
    ).run_once()
    assert len(calls) == 2
    assert report.planned == ()
    assert "was unprepared" in report.unknown[0].message
    assert machine.check() == set()
    machine.get_claim = get_claim  # type: ignore[method-assign]
    assert loop.run_once().planned == ()


def test_a_rebuilt_claim_whose_device_left_the_node_stays_and_is_told(machine: Machine, clock: Clock) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.preparer().prepare([claim])
    machine.checkpoint.write_text("spoilt")
    machine.recover()
    machine.inventory = node(gpu(0))
    report = reconciler(machine, clock).run_once()
    assert "is not among the 1 devices of node node-a" in report.unknown[0].message
    failed(machine.preparer().prepare([claim])[claim.uid])
    assert machine.check() == {claim.uid}
    machine.inventory = node(gpu(0, vendor="nvidia"), gpu(1, vendor="nvidia"))
    prepared(machine.preparer().prepare([claim])[claim.uid])
