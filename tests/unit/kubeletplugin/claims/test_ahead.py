"""Claims that are prepared before the kubelet asks for them: confirmed, undone, or given up."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import pytest

from driver.api.allocated_claim import AllocatedClaim
from driver.api.claim_reference import ClaimReference
from driver.api.resource_v1 import ResourceClaim
from driver.api.strict import read
from driver.errors import NodeError
from driver.model.health import Effect, Fault
from kubeletplugin.claims.ahead import PrepareAhead
from kubeletplugin.claims.preparer import ClaimGoneError
from kubeletplugin.network.netdev.programs import ProgramFailedError
from kubeletplugin.state.store import STEPS
from tests.support.plan.builders import NODE_NAME
from tests.support.preparer.machine import Machine, failed, gpu_claim, in_child, kill_at, prepared, uid
from tests.support.preparer.nics import PF, POOL, nic_claim
from tests.support.preparer.sharing import mig_claim, share_claim

CONDITIONS = {"bindingConditions": ["Prepared"], "bindingFailureConditions": ["PreparationFailed"]}
PREPARE = [step for step in STEPS if step.startswith("prepare") and step != "prepare: begun"]
UNPREPARE = [step for step in STEPS if step.startswith("unprepare")]


def wire(claim: ResourceClaim) -> dict[str, Any]:
    """The claim as the API server has it, with binding conditions."""
    stored: dict[str, Any] = deepcopy(claim.to_wire())
    for result in stored["status"]["allocation"]["devices"]["results"]:
        result.update(CONDITIONS)
    return stored


def as_read(claim: ResourceClaim) -> dict[ClaimReference, AllocatedClaim]:
    return {claim.reference: read(AllocatedClaim, wire(claim), ignore_unknown=True)}


class Reader:
    """Stands for the API server."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.reads = 0

    def stored(self, reference: ClaimReference) -> dict[str, Any]:
        self.reads += 1
        if reference.uid not in self.claims:
            raise ClaimGoneError(f"claim {reference} was deleted")
        return self.claims[reference.uid]


class Ahead:
    """A plugin's loop."""

    def __init__(self, machine: Machine, *claims: ResourceClaim, boot_id: str = "boot-1") -> None:
        self.machine = machine
        self.reader = Reader()
        self.announced: list[ClaimReference] = []
        self.allocate(*claims)
        self.failures: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.now = 0.0
        store = machine.store(boot_id=boot_id)
        self.preparer = machine.preparer(store)
        self.loop = PrepareAhead(
            node=NODE_NAME,
            store=store,
            preparer=self.preparer,
            reader=self.reader,  # type: ignore[arg-type]
            announced=lambda: self.announced,
            on_prepared=self._write_status,
            put_failure=lambda _claim, reason, message: self.failures.append((reason, message)),
            on_fault=self.faults.append,
            clock=lambda: self.now,
        )

    def allocate(self, *claims: ResourceClaim) -> None:
        """Announce claims, or give other devices to them."""
        for claim in claims:
            self.reader.claims[claim.metadata.uid] = wire(claim)
            if claim.reference not in self.announced:
                self.announced.append(claim.reference)
        self.machine.offer(*claims)

    def run(self, *, after_s: float = 10.0) -> None:
        self.now += after_s
        self.loop.run()

    def notes(self) -> set[str]:
        return set(self.machine.store().ahead.uids())

    def _write_status(self, uids: Iterable[str]) -> None:
        for claim_uid in uids:
            status = self.reader.claims[claim_uid]["status"]
            status["devices"] = [
                {key: result[key] for key in ("driver", "pool", "device")}
                | {"conditions": [{"type": "Prepared", "status": "True"}]}
                for result in status["allocation"]["devices"]["results"]
            ]


def test_the_kubelet_finds_what_was_prepared_ahead_and_has_to_unprepare_it_from_then_on(machine: Machine) -> None:
    claim = mig_claim(1, (1, 0))
    ahead = Ahead(machine, claim)
    ahead.run()
    assert machine.check() == ahead.notes() == {uid(1)}
    made = machine.gpus.there()
    assert made

    answer = prepared(ahead.preparer.prepare([claim.reference])[uid(1)])

    assert [device.device for device in answer.devices] == ["mig-0000-11-00-0-1g-10gb-0"]
    assert ahead.notes() == set()
    assert machine.gpus.there() == made
    ahead.announced.clear()
    del ahead.reader.claims[uid(1)]
    ahead.run()
    assert machine.check() == {uid(1)}, "only the kubelet knows when its devices are free"
    assert ahead.preparer.unprepare([claim.reference]) == {uid(1): None}
    assert machine.check() == set()
    machine.check_gpus()


def test_what_is_announced_is_read_once_and_what_was_prepared_is_looked_at_now_and_then(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    for _ in range(5):
        ahead.run(after_s=1)
    assert ahead.reader.reads == 1
    ahead.run(after_s=10)
    assert ahead.reader.reads == 2
    ahead.loop.look_soon()
    ahead.run(after_s=0)
    assert ahead.reader.reads == 3
    for _ in range(10):  # as the kubelet tries claims again that are refused
        ahead.loop.look_soon()
        ahead.run(after_s=0.3)
    assert ahead.reader.reads == 4
    ahead.run(after_s=2)
    assert ahead.reader.reads == 5, "the last refusal is not forgotten"


@pytest.mark.parametrize("how", ["deleted", "deallocated", "elsewhere"])
def test_devices_that_are_taken_back_before_the_kubelet_asks_are_free_again(machine: Machine, how: str) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    ahead.run()
    if how == "deleted":
        del ahead.reader.claims[uid(1)]
    elif how == "deallocated":
        ahead.reader.claims[uid(1)]["status"] = {}
    else:
        results = ahead.reader.claims[uid(1)]["status"]["allocation"]["devices"]["results"]
        results[0]["pool"] = "node-b"
    ahead.announced.clear()
    ahead.run()
    assert machine.check() == ahead.notes() == set()
    assert machine.gpus.there() == []


def test_a_claim_that_is_given_other_devices_of_the_node_gets_those(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    ahead.run()
    ahead.allocate(mig_claim(1, (2, 3)))
    # The kubelet may be sooner than the next look.
    answer = prepared(ahead.preparer.prepare([ahead.announced[0]])[uid(1)])
    assert [device.device for device in answer.devices] == ["mig-0000-12-00-0-1g-10gb-3"]
    machine.check_gpus()

    ahead.allocate(mig_claim(2, (1, 1)))
    ahead.run()
    ahead.allocate(mig_claim(2, (3, 1)))
    ahead.run()
    held = {device.device for entry in machine.entries().values() for device in entry.devices}
    assert held == {"mig-0000-12-00-0-1g-10gb-3", "mig-0000-13-00-0-1g-10gb-1"}
    machine.check_gpus()


def test_a_status_that_was_lost_is_written_again(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    ahead.run()
    del ahead.reader.claims[uid(1)]["status"]["devices"]  # as after a deallocation and the same allocation again
    ahead.run()
    assert "devices" in ahead.reader.claims[uid(1)]["status"]


def test_a_claim_that_the_kubelet_has_is_told_again_and_never_undone(machine: Machine) -> None:
    claim = mig_claim(1, (1, 0))
    ahead = Ahead(machine, claim)
    prepared(ahead.preparer.prepare([claim.reference])[uid(1)])
    ahead.run()  # announced: whoever prepared it, its status does not say so
    assert "devices" in ahead.reader.claims[uid(1)]["status"]
    assert ahead.notes() == set()
    # A pod that was deleted by force: its claim has other devices, and is gone then, while its containers still run.
    ahead.allocate(mig_claim(1, (2, 3)))
    ahead.run()
    del ahead.reader.claims[uid(1)]
    ahead.run()
    assert machine.check() == {uid(1)}
    assert machine.gpus.there()
    # Once the kubelet has unprepared it, it is as any other.
    assert ahead.preparer.unprepare([claim.reference]) == {uid(1): None}
    ahead.allocate(mig_claim(1, (2, 3)))
    ahead.run()
    assert machine.check() == ahead.notes() == {uid(1)}


def test_a_claim_that_the_kubelet_prepares_meanwhile_gets_no_note(machine: Machine) -> None:
    claim = mig_claim(1, (1, 0))
    ahead = Ahead(machine, claim)
    prepared(ahead.preparer.prepare([claim.reference])[uid(1)])
    prepared(ahead.preparer.prepare_ahead(as_read(claim))[uid(1)])
    assert ahead.notes() == set()


def test_what_was_prepared_before_a_reboot_is_prepared_again(machine: Machine) -> None:
    Ahead(machine, mig_claim(1, (1, 0))).run()
    for path in machine.gpus.folder.iterdir():
        path.unlink()
    ahead = Ahead(machine, mig_claim(1, (1, 0)), boot_id="boot-2")
    ahead.run()
    assert "devices" in ahead.reader.claims[uid(1)]["status"]
    assert machine.check() == ahead.notes() == {uid(1)}
    assert machine.gpus.there()
    machine.check_gpus(boot_id="boot-2")


def test_a_claim_that_is_given_one_more_device_gets_that(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    ahead.run()
    ahead.allocate(mig_claim(1, (1, 0), (2, 3)))
    ahead.run()
    (entry,) = machine.entries().values()
    assert len(entry.devices) == 2
    assert len(ahead.reader.claims[uid(1)]["status"]["devices"]) == 2


def test_a_device_of_another_node_is_that_nodes(machine: Machine) -> None:
    claim = mig_claim(1, (1, 0))
    ahead = Ahead(machine, claim)
    ahead.run()
    results = ahead.reader.claims[uid(1)]["status"]["allocation"]["devices"]["results"]
    results += [results[0] | {"pool": "node-b"}, results[0] | {"driver": "example.com"}]
    ahead.run()
    assert ahead.notes() == {uid(1)}
    assert machine.gpus.calls.read_text().count("undo") == 0


def test_a_lost_checkpoint_loses_no_note(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    ahead.run()
    machine.checkpoint.rename(machine.checkpoint.with_suffix(".kept"))
    ahead.run(after_s=1)
    ahead.reader.claims[uid(1)]["status"] = {}
    ahead.announced.clear()
    ahead.run()
    assert machine.check() == ahead.notes() == set()
    assert machine.gpus.there() == []


def test_a_file_that_is_no_note_is_in_nobodys_way(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    folder = machine.store().ahead.folder
    folder.mkdir(parents=True)
    (folder / ".nfs0001").touch()
    (folder / "a-folder").mkdir()
    ahead.run()
    assert machine.check() == {uid(1)}


def test_a_partition_that_cannot_be_made_is_tried_for_a_while_and_then_said_to_fail(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))

    def fails(_effect: object) -> None:
        raise NodeError("NVML says no", hint="see dmesg")

    machine.gpus.do = fails  # type: ignore[method-assign, assignment]
    with pytest.raises(NodeError, match="NVML says no"):
        ahead.run(after_s=0)
    with pytest.raises(NodeError):
        ahead.run(after_s=5)
    assert ahead.failures == []
    ahead.run(after_s=5)
    assert [reason for reason, _ in ahead.failures] == ["MigDeviceNotCreated"]
    assert "claim-1" in ahead.failures[0][1]
    (fault,) = ahead.faults
    assert (fault.device, fault.reason, fault.effect) == ("gpu-0000-11-00-0", "MigDeviceNotCreated", Effect.NO_SCHEDULE)
    assert "claim-1" not in fault.message
    assert machine.check() == ahead.notes() == set()


@pytest.mark.parametrize(
    ("claim", "error", "reason", "faulty"),
    [
        pytest.param(
            nic_claim(1, POOL, vf={"vlan": 7}), NodeError("the PF has no VF 0"), "VfNotConfigured", [PF], id="a VF"
        ),
        pytest.param(
            nic_claim(1, POOL, vf={"vlan": 7}),
            ProgramFailedError("ip: RTNETLINK answers: Operation not supported"),
            "VfNotConfigured",
            [],
            id="a setting that the driver does not take",
        ),
        pytest.param(share_claim(1, 1), NodeError("no daemon"), "PreparationFailed", [], id="an MPS daemon"),
    ],
)
def test_only_what_another_device_may_do_better_is_a_fault(
    machine: Machine, claim: ResourceClaim, error: NodeError, reason: str, faulty: list[str]
) -> None:
    ahead = Ahead(machine, claim)

    def fails(_effect: object) -> None:
        raise error

    machine.gpus.do = fails  # type: ignore[method-assign, assignment]
    with pytest.raises(NodeError):
        ahead.run(after_s=0)
    ahead.run(after_s=10)
    assert [reason for reason, _ in ahead.failures] == [reason]
    assert [fault.device for fault in ahead.faults] == faulty
    assert all(fault.reason == reason for fault in ahead.faults)


def test_a_claim_that_no_node_can_prepare_fails_at_once_and_taints_nothing(machine: Machine) -> None:
    claim = mig_claim(1, (1, 0), profile="9g-90gb")
    ahead = Ahead(machine, claim)
    ahead.now = 0
    try:
        ahead.run(after_s=0)
    except NodeError:  # a partition that the node does not have may come
        ahead.run(after_s=11)
    assert [reason for reason, _ in ahead.failures] == ["PreparationFailed"]
    assert ahead.faults == []


def test_a_kubelet_that_has_asked_meanwhile_keeps_its_claim(machine: Machine) -> None:
    claim = mig_claim(1, (1, 0))
    ahead = Ahead(machine, claim)
    ahead.run()
    prepared(ahead.preparer.prepare([claim.reference])[uid(1)])
    assert ahead.preparer.undo_ahead([claim.reference]) == {}
    assert machine.check() == {uid(1)}


def test_a_claim_in_the_way_of_another_is_named_until_it_is_looked_at(machine: Machine) -> None:
    ahead = Ahead(machine, mig_claim(1, (1, 0)))
    ahead.run()
    whole = gpu_claim(2, 1)
    machine.offer(whole)
    del ahead.reader.claims[uid(1)]
    assert "claim-1" in str(failed(ahead.preparer.prepare([whole.reference])[uid(2)]))
    ahead.loop.look_soon()
    ahead.run(after_s=0)
    prepared(ahead.preparer.prepare([whole.reference])[uid(2)])
    assert machine.check() == {uid(2)}
    machine.check_gpus()


@pytest.mark.parametrize("is_wanted", [True, False], ids=["still allocated", "taken back"])
@pytest.mark.parametrize("step", PREPARE)
def test_a_kill_while_preparing_ahead_is_finished_or_undone_after_the_next_start(
    machine: Machine, step: str, is_wanted: bool
) -> None:
    claim = mig_claim(1, (1, 0), (2, 3))
    killed = in_child(lambda: machine.preparer(machine.store(step=kill_at(step))).prepare_ahead(as_read(claim)))
    assert killed == -signal.SIGKILL
    machine.recover()
    ahead = Ahead(machine, *([claim] if is_wanted else []))
    ahead.run()
    machine.mend()
    assert machine.check() == ahead.notes() == ({uid(1)} if is_wanted else set())
    machine.check_gpus()


@pytest.mark.parametrize("step", UNPREPARE)
def test_a_kill_while_undoing_is_finished_after_the_next_start(machine: Machine, step: str) -> None:
    claim = mig_claim(1, (1, 0), (2, 3))
    Ahead(machine, claim).run()
    killed = in_child(lambda: machine.preparer(machine.store(step=kill_at(step))).undo_ahead([claim.reference]))
    assert killed == -signal.SIGKILL
    machine.recover()
    ahead = Ahead(machine)
    ahead.run()
    machine.mend()
    assert machine.check() == ahead.notes() == set()
    machine.check_gpus()
