"""What stays known of a NIC's function while a pod has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.model.devices import LinkLayer, RdmaFunction, RdmaNetnsMode, RdmaNic, RdmaPort
from driver.model.inventory import Inventory
from driver.model.lent import LentNames, with_lent
from driver.model.rails import with_rails
from tests.support.machines import nic, node

PF, VF = "rdma-0000-03-00-0", "rdma-vf-0000-04-01-0"
NOTHING = LentNames()
ACTIVE = (RdmaPort(link_layer=LinkLayer.INFINIBAND, state="active", speed_gbps=400, guid="0002:c903:00a1:0001"),)


def sysfs_facts(function: RdmaFunction, number: int) -> dict[str, object]:
    """All that sysfs tells of a function."""
    return {
        "rdma_device": f"mlx5_{number}",
        "if_names": (f"ib{number}",),
        "model": "ConnectX-7",
        "ports": ACTIVE,
        "verbs_minor": number,
        "umad_minors": (number,),
        "issm_minors": (number,),
    }


def before(mode: RdmaNetnsMode | None) -> Inventory:
    """A NIC without VFs and one with two."""
    first, second = nic("03"), nic("04", vfs=2)
    first = replace(first, **sysfs_facts(first, 0))  # type: ignore[arg-type]
    vfs = tuple(replace(vf, **sysfs_facts(vf, 2 + vf.index)) for vf in second.vfs)  # type: ignore[arg-type]
    second = replace(second, vfs=vfs, **sysfs_facts(second, 1))  # type: ignore[arg-type]
    return replace(node(*with_rails((first, second))), rdma_netns_mode=mode)


def without_interfaces(inventory: Inventory) -> Inventory:
    first, second = inventory.nics
    vf = replace(second.vfs[0], if_names=())
    return replace(inventory, nics=(replace(first, if_names=()), replace(second, vfs=(vf, second.vfs[1]))))


def hidden(inventory: Inventory) -> Inventory:
    """As sysfs tells of it while the first NIC and the first VF are in pods with their RDMA devices and nodes."""
    nothing = {"rdma_device": None, "ports": (), "verbs_minor": None, "umad_minors": (), "issm_minors": ()}
    first, second = without_interfaces(inventory).nics
    vf = replace(second.vfs[0], model=None, **nothing)  # type: ignore[arg-type]
    first = replace(first, model=None, **nothing)  # type: ignore[arg-type]
    return replace(inventory, nics=with_rails((first, replace(second, vfs=(vf, second.vfs[1])))))


@pytest.mark.parametrize("mode", [*RdmaNetnsMode, None], ids=str)
def test_lent_interfaces_stay_known(mode: RdmaNetnsMode | None) -> None:
    former = before(mode)
    assert with_lent(without_interfaces(former), former, {PF: NOTHING, VF: NOTHING}) == former


def test_in_exclusive_mode_all_that_is_hidden_stays_known() -> None:
    former = before(RdmaNetnsMode.EXCLUSIVE)
    assert with_lent(hidden(former), former, {PF: NOTHING, VF: NOTHING}) == former


def test_the_rails_of_its_neighbours_do_not_move_with_a_hidden_nic() -> None:
    former = before(RdmaNetnsMode.EXCLUSIVE)
    now = hidden(former)
    assert [nic.rail for nic in now.nics] == [None, 0]
    assert [nic.rail for nic in with_lent(now, former, {PF: NOTHING}).nics] == [0, 1]


def test_in_shared_mode_an_rdma_device_that_is_not_shown_is_gone() -> None:
    former = before(RdmaNetnsMode.SHARED)
    first, _ = with_lent(hidden(former), former, {PF: NOTHING}).nics
    assert (first.if_names, first.rdma_device, first.verbs_minor) == (("ib0",), None, None)


def test_what_is_not_lent_is_as_it_is_seen() -> None:
    former = before(RdmaNetnsMode.EXCLUSIVE)
    now = hidden(former)
    assert with_lent(now, former, {}) == now
    assert with_lent(now, former, {VF: NOTHING}).nics[0].rdma_device is None


def test_the_name_that_an_interface_had_in_a_pod_is_not_taken_for_its_own() -> None:
    former = before(RdmaNetnsMode.SHARED)
    first, second = former.nics
    now = replace(former, nics=(replace(first, if_names=("net1",)), second))
    assert with_lent(now, former, {PF: NOTHING}) == former
    assert with_lent(now, former, {}) == now


def test_what_is_seen_of_a_lent_device_now_is_believed() -> None:
    former = before(RdmaNetnsMode.EXCLUSIVE)
    first, second = former.nics
    down = (replace(ACTIVE[0], state="down"),)
    now = replace(former, nics=(replace(first, ports=down, verbs_minor=9, umad_minors=(9,)), second))
    assert with_lent(now, former, {PF: NOTHING}) == now


def test_a_nic_that_was_taken_away_is_gone_although_it_is_lent() -> None:
    former = before(RdmaNetnsMode.EXCLUSIVE)
    now = replace(former, nics=former.nics[1:])
    assert with_lent(now, former, {PF: NOTHING}) == now


def test_after_a_restart_the_lender_tells_the_names() -> None:
    now = hidden(before(RdmaNetnsMode.EXCLUSIVE))
    lent = {PF: LentNames(interface="ib0", rdma_device="mlx5_0"), VF: NOTHING}
    first, second = with_lent(now, None, lent).nics
    assert (first.if_names, first.rdma_device) == (("ib0",), "mlx5_0")
    assert (second.vfs[0].if_names, second.vfs[0].rdma_device) == ((), None)


def test_a_lent_interface_joins_the_others_of_its_function() -> None:
    two: RdmaNic = replace(nic("03"), if_names=("ib1",))
    (found,) = with_lent(node(two), None, {PF: LentNames(interface="ib0")}).nics
    assert found.if_names == ("ib0", "ib1")
