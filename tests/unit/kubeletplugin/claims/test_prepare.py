"""Prepare and unprepare: what the kubelet is told, and what is on disk then."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from driver.adapters.files.cdi_files import claim_uids, spec_path
from driver.api.resource_v1 import ResourceClaimStatus
from driver.errors import InputError, NodeError
from kubeletplugin.state.entry import EntryFile
from kubeletplugin.state.metadata_files import write_metadata
from tests.support.plan.builders import claim as allocated_claim
from tests.support.plan.builders import given, gpu, node
from tests.support.preparer.machine import Machine, device, failed, gpu_claim, prepared, uid


def test_a_claim_gets_its_devices_with_cdi_spec_metadata_and_entry_on_disk(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1, 0, 2))
    answer = prepared(machine.preparer().prepare([claim])[claim.uid])
    assert [item.device for item in answer.devices] == [device(0), device(2)]
    spec = json.loads(spec_path(claim.uid, machine.cdi_dir).read_bytes())
    ids = {f"{spec['kind']}={item['name']}" for item in spec["devices"]}
    assert {cdi_id for item in answer.devices for cdi_id in item.cdi_device_ids} < ids
    assert machine.check() == {claim.uid}
    assert sorted(path.name for path in (machine.metadata_dir / claim.uid).iterdir()) == ["gpu0.json", "gpu2.json"]
    assert list((machine.plugin_dir / "preparing").iterdir()) == []


def test_no_container_gets_what_the_plugin_notes_for_itself(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    answer = prepared(machine.preparer().prepare([claim])[claim.uid])
    spec = json.loads(spec_path(claim.uid, machine.cdi_dir).read_bytes())
    notes = [item["name"] for item in spec["devices"] if "ROOTPORT_CHECKPOINT" in json.dumps(item)]
    assert notes == [f"{claim.uid}_checkpoint"]
    assert not any(notes[0] in cdi_id for item in answer.devices for cdi_id in item.cdi_device_ids)


def test_a_prepared_claim_gets_the_same_answer_without_the_api_server(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    first = prepared(machine.preparer().prepare([claim])[claim.uid])
    machine.api_is_away = True
    asked = len(machine.asked)
    same, fresh = machine.preparer(), machine.preparer()
    assert prepared(same.prepare([claim])[claim.uid]) == first
    assert prepared(fresh.prepare([claim])[claim.uid]) == first
    assert len(machine.asked) == asked


def test_files_that_vanished_are_written_again_when_the_claim_is_prepared_again(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    preparer = machine.preparer()
    preparer.prepare([claim])
    spec_path(claim.uid, machine.cdi_dir).unlink()
    (machine.metadata_dir / claim.uid / "gpu1.json").write_text("{}")
    machine.api_is_away = True
    prepared(preparer.prepare([claim])[claim.uid])
    assert machine.check() == {claim.uid}


def test_unprepare_leaves_nothing_and_may_be_repeated_without_api_and_hardware(machine: Machine) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    preparer = machine.preparer()
    preparer.prepare(claims)
    machine.api_is_away, machine.inventory = True, node()
    for _ in range(2):
        assert preparer.unprepare(claims[:1]) == {uid(1): None}
        assert machine.check() == {uid(2)}
    assert preparer.unprepare([claims[1]]) == {uid(2): None}
    assert machine.check() == set()
    left = sorted(str(path.relative_to(machine.root)) for path in machine.root.rglob("*") if "host" not in path.parts)
    folders = ["cdi", "plugin", "plugin/device-metadata", "plugin/preparing"]
    assert left == sorted([*folders, "plugin/checkpoint.json", "plugin/state.lock"])


def test_a_cdi_file_without_an_entry_is_removed_by_unprepare(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    preparer = machine.preparer()
    preparer.prepare([claim])
    content = spec_path(claim.uid, machine.cdi_dir).read_bytes()
    preparer.unprepare([claim])
    spec_path(claim.uid, machine.cdi_dir).write_bytes(content)
    assert preparer.unprepare([claim]) == {claim.uid: None}
    assert claim_uids(machine.cdi_dir) == ()


def test_a_claim_of_the_same_name_is_another_claim(machine: Machine) -> None:
    (old,) = machine.offer(gpu_claim(1, name="train"))
    preparer = machine.preparer()
    preparer.prepare([old])
    (new,) = machine.offer(gpu_claim(2, name="train"))
    prepared(preparer.prepare([new])[new.uid])
    assert preparer.unprepare([old]) == {old.uid: None}
    assert machine.check() == {new.uid}


def test_a_claim_without_a_device_of_this_driver_leaves_nothing(machine: Machine) -> None:
    claim = allocated_claim(given("nic", "eth0", driver="other.example"), uid=uid(1), name="claim-1")
    machine.offer(claim)
    assert prepared(machine.preparer().prepare([claim.reference])[uid(1)]).devices == ()
    assert machine.check() == set()


def test_each_claim_of_a_batch_has_its_own_answer(machine: Machine) -> None:
    claims = machine.offer(gpu_claim(0), gpu_claim(1))
    gone = gpu_claim(2).reference
    answers = machine.preparer().prepare([claims[0], gone, claims[1]])
    assert {item: type(answer).__name__ for item, answer in answers.items()} == {
        uid(0): "ClaimPrepared",
        uid(2): "ClaimGoneError",
        uid(1): "ClaimPrepared",
    }


# What is refused


def test_a_device_that_another_claim_holds_is_refused_until_that_one_is_unprepared(machine: Machine) -> None:
    first, second = machine.offer(gpu_claim(1, 0), gpu_claim(2, 0))
    preparer = machine.preparer()
    preparer.prepare([first])
    error = failed(preparer.prepare([second])[second.uid])
    assert isinstance(error, NodeError)
    assert f"claim ml/claim-2 (uid {uid(2)}), request gpu0, device {device(0)} is still in use" in error.message
    assert f"by claim ml/claim-1 (uid {uid(1)})" in error.message
    assert machine.check() == {first.uid}
    preparer.unprepare([first])
    prepared(preparer.prepare([second])[second.uid])


@pytest.mark.parametrize("watcher", [0, 1], ids=["watcher-first", "watcher-second"])
def test_admin_access_is_no_use_of_a_device(machine: Machine, watcher: int) -> None:
    claims = [gpu_claim(1, 0), gpu_claim(2, 0, adminAccess=True)]
    machine.offer(*claims)
    order = claims[::-1] if watcher == 0 else claims
    preparer = machine.preparer()
    for item in order:
        prepared(preparer.prepare([item.reference])[item.metadata.uid])
    assert machine.check() == {uid(1), uid(2)}


def test_a_claim_that_uses_and_watches_a_device_is_refused_while_another_uses_it(machine: Machine) -> None:
    both = allocated_claim(
        given("use", device(0)), given("watch", device(0), adminAccess=True), uid=uid(2), name="claim-2"
    )
    first, second = machine.offer(gpu_claim(1, 0), both)
    preparer = machine.preparer()
    preparer.prepare([first])
    assert "request use, device" in failed(preparer.prepare([second])[second.uid]).message


@pytest.mark.parametrize("path", ["../evil.json", f"{uid(2)}/gpu.json", f"{uid(1)}/../x.json", f"{uid(1)}/a/b.json"])
def test_no_plan_can_write_a_metadata_file_elsewhere(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="is not the path of a claim"):
        write_metadata(gpu_claim(1).reference, [EntryFile(path=path, content="")], tmp_path / "metadata")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_device_node_is_named(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    node_path = machine.root / "host" / "dev" / "nvidia1"
    node_path.unlink()
    error = failed(machine.preparer().prepare([claim])[claim.uid])
    assert error.message == (
        f"claim ml/claim-1 (uid {uid(1)}), request gpu1, device {device(1)}: the device node /dev/nvidia1 does not "
        "exist on the node"
    )
    assert machine.check() == set()
    node_path.touch()
    prepared(machine.preparer().prepare([claim])[claim.uid])


def test_a_claim_that_is_not_allocated_is_refused(machine: Machine) -> None:
    claim = gpu_claim(1).model_copy(update={"status": ResourceClaimStatus()})
    machine.offer(claim)
    assert "not allocated" in failed(machine.preparer().prepare([claim.reference])[uid(1)]).message


def test_an_api_server_that_is_away_leaves_nothing_and_a_retry_works(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.api_is_away = True
    preparer = machine.preparer()
    assert "API server is away" in failed(preparer.prepare([claim])[claim.uid]).message
    assert machine.check() == set()
    machine.api_is_away = False
    prepared(preparer.prepare([claim])[claim.uid])


@pytest.mark.parametrize("bad", ["../evil", "", "a/b"])
def test_a_uid_that_is_none_never_becomes_a_path(machine: Machine, bad: str) -> None:
    reference = replace(gpu_claim(1).reference, uid=bad)
    preparer = machine.preparer()
    assert isinstance(failed(preparer.prepare([reference])[bad]), InputError)
    assert isinstance(failed(preparer.unprepare([reference])[bad]), InputError)


def test_a_claim_that_is_unprepared_while_the_api_is_asked_stays_unprepared(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    other_instance = machine.preparer()
    get_claim = machine.get_claim

    def slow(reference: object) -> object:
        assert other_instance.unprepare([claim]) == {claim.uid: None}
        return get_claim(claim)

    machine.get_claim = slow  # type: ignore[assignment,method-assign]
    error = failed(machine.preparer().prepare([claim])[claim.uid])
    assert "was unprepared while it was being prepared" in error.message
    assert machine.check() == set()


def test_two_pods_that_share_a_claim_may_prepare_it_at_once(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    other_instance = machine.preparer()
    get_claim, seen = machine.get_claim, []

    def slow(reference: object) -> object:
        machine.get_claim = get_claim  # type: ignore[method-assign]
        seen.append(prepared(other_instance.prepare([claim])[claim.uid]))
        return get_claim(claim)

    machine.get_claim = slow  # type: ignore[assignment,method-assign]
    slow_preparer = machine.preparer()
    other_instance = machine.preparer()
    other_instance._get_claim = get_claim
    assert prepared(slow_preparer.prepare([claim])[claim.uid]) == seen[0]
    assert machine.check() == {claim.uid}


def test_after_a_reboot_a_claim_is_planned_anew_since_device_nodes_may_have_moved(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    before = prepared(machine.preparer().prepare([claim])[claim.uid])
    moved = tuple(replace(item, minor=(item.minor or 0) ^ 1) for item in machine.inventory.gpus)
    machine.inventory = replace(machine.inventory, gpus=moved)
    assert prepared(machine.preparer(machine.store(boot_id="boot-2")).prepare([claim])[claim.uid]) == before
    assert '"/dev/nvidia0"' in spec_path(claim.uid, machine.cdi_dir).read_text()
    assert machine.check() == {claim.uid}


def test_a_planning_failure_after_a_reboot_keeps_the_entry_so_that_unprepare_finds_it(machine: Machine) -> None:
    (claim,) = machine.offer(gpu_claim(1))
    machine.preparer().prepare([claim])
    machine.inventory = node(gpu(0))
    failed(machine.preparer(machine.store(boot_id="boot-2")).prepare([claim])[claim.uid])
    assert machine.check() == {claim.uid}


def test_the_plugin_loads_no_selector_language_and_no_allocator() -> None:
    code = (
        "import sys, kubeletplugin.claims.preparer, kubeletplugin.claims.recovery\n"
        "roots = ('celpy', 'lark', 're2', 'grpc', 'kubernetes', 'yaml', 'driver.cel', 'driver.allocator')\n"
        "print([m for m in sys.modules if any(m == r or m.startswith(r + '.') for r in roots)])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "[]\n"
