"""NICs that claims are given: which virtual function out of a pool, what is done to it, and to whom it is lent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.api.claim_reference import ClaimReference
from driver.plan.effects import ConfigureVf, LendInterface
from tests.support.plan.builders import nic, vf
from tests.support.preparer.machine import PORT, Machine, failed, prepared, uid
from tests.support.preparer.nics import NIC, POOL, nic_claim, reserved, vf_name

VLAN = {"vlan": 7}
MOVED: dict[str, object] = {"name": "net1"}


def given_vf(machine: Machine, claim: ClaimReference) -> list[str | None]:
    return [item.nic_use.vf for item in machine.entries()[claim.uid].held_devices if item.nic_use is not None]


# Which virtual function


def test_each_claim_of_a_pool_is_given_a_virtual_function_of_its_own_until_there_are_none(machine: Machine) -> None:
    claims = machine.offer(*(nic_claim(number, POOL) for number in (1, 2, 3, 4)))
    preparer = machine.preparer()
    answers = preparer.prepare(claims)
    for claim in claims[:3]:
        prepared(answers[claim.uid])
    assert [given_vf(machine, claim) for claim in claims[:3]] == [[vf_name(0)], [vf_name(1)], [vf_name(2)]]
    assert f"claim ml/claim-4 (uid {uid(4)})" in failed(answers[uid(4)]).message
    assert preparer.unprepare(claims[1:2]) == {uid(2): None}
    prepared(preparer.prepare(claims[3:])[uid(4)])
    assert given_vf(machine, claims[3]) == [vf_name(1)]
    machine.check()


def test_a_claim_that_is_planned_anew_keeps_its_virtual_function(machine: Machine) -> None:
    first, second = machine.offer(nic_claim(1, POOL), nic_claim(2, POOL, POOL))
    machine.preparer().prepare([first, second])
    assert given_vf(machine, second) == [vf_name(1), vf_name(2)]
    preparer = machine.preparer()
    preparer.unprepare([first])
    machine.checkpoint.write_text("")  # lost: the entries come from the CDI specs
    machine.recover()
    assert machine.entries()[uid(2)].state == "rebuilt"
    prepared(preparer.prepare([second])[uid(2)])
    assert machine.entries()[uid(2)].state == "prepared"
    assert given_vf(machine, second) == [vf_name(1), vf_name(2)]


def test_after_a_reboot_a_claim_gets_its_virtual_function_again_unless_another_has_it(machine: Machine) -> None:
    first, second = machine.offer(nic_claim(1, POOL), nic_claim(2, POOL))
    machine.preparer().prepare([first, second])
    rebooted = machine.preparer(machine.store(boot_id="boot-2"))
    prepared(rebooted.prepare([second])[uid(2)])
    assert given_vf(machine, second) == [vf_name(1)]
    third, fourth = machine.offer(nic_claim(3, POOL), nic_claim(4, POOL))
    prepared(rebooted.prepare([third])[uid(3)])
    assert given_vf(machine, third) == [vf_name(0)]
    prepared(rebooted.prepare([first])[uid(1)])
    assert given_vf(machine, first) == [vf_name(2)]
    failed(rebooted.prepare([fourth])[uid(4)])


def test_a_virtual_function_that_was_given_by_name_is_not_given_out_of_the_pool(machine: Machine) -> None:
    # The administrator's policy changed from named to pooled while a pod ran.
    named, pooled, again = machine.offer(nic_claim(1, vf_name(0)), nic_claim(2, POOL), nic_claim(3, vf_name(1)))
    preparer = machine.preparer()
    answers = preparer.prepare([named, pooled, again])
    prepared(answers[uid(1)])
    prepared(answers[uid(2)])
    assert given_vf(machine, pooled) == [vf_name(1)]
    message = failed(answers[uid(3)]).message
    assert f"in use by claim ml/claim-2 (uid {uid(2)}): that one has its virtual function {vf_name(1)}" in message


def test_who_only_watches_over_a_pool_holds_nothing(machine: Machine) -> None:
    watching = nic_claim(1, POOL)
    results = watching.status.allocation.devices.results if watching.status.allocation else ()
    (result,) = results
    allocation = watching.status.allocation
    assert allocation is not None
    seen = result.model_copy(update={"admin_access": True})
    devices = allocation.devices.model_copy(update={"results": (seen,)})
    status = watching.status.model_copy(update={"allocation": allocation.model_copy(update={"devices": devices})})
    claims = machine.offer(
        watching.model_copy(update={"status": status}), *(nic_claim(number, POOL) for number in (2, 3, 4))
    )
    for answer in machine.preparer().prepare(claims).values():
        prepared(answer)


# What is done to it


def test_settings_and_a_lent_interface_are_done_in_their_order_and_undone_in_the_other(machine: Machine) -> None:
    (claim,) = machine.offer(nic_claim(1, POOL, vf=VLAN, interface=MOVED))
    preparer = machine.preparer()
    prepared(preparer.prepare([claim])[claim.uid])
    settings, lent = machine.entries()[claim.uid].effects
    assert isinstance(settings, ConfigureVf)
    assert isinstance(lent, LendInterface)
    assert (settings.function, settings.settings.vlan) == (vf_name(0), 7)
    assert (lent.function, lent.pod_uid, lent.name_in_pod) == (vf_name(0), "pod-1", "net1")
    machine.check_gpus()
    assert preparer.unprepare([claim]) == {claim.uid: None}
    name = vf_name(0)
    assert machine.gpus.log() == [
        f"do ConfigureVf {name}",
        f"do LendInterface {name}",
        f"undo LendInterface {name}",
        f"undo ConfigureVf {name}",
    ]
    machine.check_gpus()


def test_a_virtual_function_on_which_another_claim_left_something_is_not_chosen_while_there_are_others(
    machine: Machine,
) -> None:
    first, second, *rest = machine.offer(nic_claim(1, POOL, vf=VLAN), *(nic_claim(n, POOL) for n in (2, 3, 4)))
    preparer = machine.preparer()
    prepared(preparer.prepare([first])[uid(1)])
    machine.gpus.stick(vf_name(0))
    preparer.unprepare([first])
    prepared(preparer.prepare([second])[uid(2)])
    assert given_vf(machine, second) == [vf_name(1)]
    prepared(preparer.prepare(rest[:1])[uid(3)])
    error = failed(preparer.prepare(rest[1:])[uid(4)])
    assert f"NIC {vf_name(0)} is not free: what claim ml/claim-1 (uid {uid(1)}) did to" in error.message
    machine.gpus.stick()
    prepared(preparer.prepare(rest[1:])[uid(4)])
    assert given_vf(machine, rest[1]) == [vf_name(0)]
    machine.check_gpus()


def test_the_reconciler_does_again_what_is_gone_of_a_claim(machine: Machine) -> None:
    (claim,) = machine.offer(nic_claim(1, POOL, vf=VLAN, interface=MOVED))
    machine.preparer().prepare([claim])
    for effect in machine.entries()[claim.uid].effects:
        machine.gpus.undo(effect)
    machine.mend()
    assert len(machine.gpus.there()) == 2
    assert machine.entries()[claim.uid].state == "prepared"


# To whom it is lent


def test_a_lent_interface_is_noted_again_before_the_pods_next_sandbox(machine: Machine) -> None:
    (claim,) = machine.offer(nic_claim(1, NIC, interface=MOVED))
    preparer = machine.preparer()
    before = preparer.prepare([claim])
    (lent,) = machine.entries()[claim.uid].effects
    machine.gpus.undo(lent)
    machine.gpus.log()
    assert preparer.prepare([claim]) == before
    assert machine.gpus.log() == [f"do LendInterface {NIC}"]
    assert list((machine.plugin_dir / "preparing").iterdir()) == []


def test_an_interface_goes_over_to_the_claims_next_pod_that_the_kubelet_never_unprepared_it_for(
    machine: Machine,
) -> None:
    made = nic_claim(1, POOL, interface=MOVED)
    (claim,) = machine.offer(made)
    preparer = machine.preparer()
    preparer.prepare([claim])
    machine.offer(reserved(made, "pod-9"))
    prepared(preparer.prepare([claim])[claim.uid])
    (lent,) = machine.entries()[claim.uid].effects
    assert isinstance(lent, LendInterface)
    assert (lent.pod_uid, lent.function) == ("pod-9", vf_name(0))
    machine.check_gpus()


@pytest.mark.parametrize("pods", [("pod-1", "pod-9"), ()], ids=["two", "none"])
def test_a_lent_interface_stays_with_its_pod_while_it_is_not_clear_whose_it_is(
    machine: Machine, pods: tuple[str, ...]
) -> None:
    made = nic_claim(1, POOL, interface=MOVED)
    (claim,) = machine.offer(made)
    preparer = machine.preparer()
    preparer.prepare([claim])
    entry = machine.entries()[claim.uid]
    machine.offer(reserved(made, *pods))
    failed(preparer.prepare([claim])[claim.uid])
    assert machine.entries()[claim.uid] == entry
    machine.check_gpus()


def test_a_claim_that_lends_something_cannot_be_answered_without_the_api_server_and_others_can(
    machine: Machine,
) -> None:
    lending, other = machine.offer(nic_claim(1, POOL, interface=MOVED), nic_claim(2, POOL))
    preparer = machine.preparer()
    before = preparer.prepare([lending, other])
    machine.api_is_away = True
    answers = preparer.prepare([lending, other])
    assert "API server is away" in failed(answers[uid(1)]).message
    assert answers[uid(2)] == before[uid(2)]
    assert preparer.unprepare([lending]) == {uid(1): None}
    machine.check_gpus()


def test_a_taken_away_virtual_function_keeps_no_pod_from_ending(machine: Machine) -> None:
    (claim,) = machine.offer(nic_claim(1, POOL, vf=VLAN, interface=MOVED))
    preparer = machine.preparer()
    preparer.prepare([claim])
    fewer = nic(1, vfs=(vf(1, 1, ports=(PORT,)),))
    machine.inventory = replace(machine.inventory, nics=(machine.inventory.nics[0], fewer))
    assert preparer.unprepare([claim]) == {claim.uid: None}
    assert machine.gpus.there() == []
