"""What discovery tells of NICs and VFs while pods have them, on written trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs import discovery as sysfs
from driver.model.devices import LinkLayer, RdmaNetnsMode, RdmaPort
from driver.model.inventory import Inventory
from driver.model.lent import LentNames
from driver.model.parts import vf_pool
from kubeletplugin.node.discovery import DiscoveredNode, Discovery, discover
from kubeletplugin.node.roots import Roots
from kubeletplugin.publish.conditions import ConditionReports
from tests.support.stub_nvml import Machine, StubNvml
from tests.support.sysfs_tree import SysfsTree, dgx, guid_of, vf_address

DISCOVER = "kubeletplugin.node.discovery:discover"
NICS = ("0000:14:00.0", "0000:24:00.0")
VF = vf_address(NICS[0], 1)
VF_NAME = "rdma-vf-0000-14-00-2"


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    """Two NICs with two VFs each; RDMA devices are in one network namespace each."""
    made = dgx(tmp_path / "host", switches=2, pairs=2, vfs=2)
    made.netns_mode("exclusive")
    return made


@pytest.fixture
def roce(tmp_path: Path) -> SysfsTree:
    """An Ethernet NIC, which nothing but its RDMA device tells from any other."""
    made = SysfsTree(tmp_path / "host")
    made.netns_mode("exclusive")
    nic = made.rdma_nic(made.host_bridge("pci0000:00"), NICS[0], class_code=0x020000)
    made.rdma_device(nic, "mlx5_0", number=0, link_layer="Ethernet", interfaces=["eth0"])
    return made


def seen(tree: SysfsTree, *lent: str) -> Inventory:
    return sysfs.discover(HostRoot(tree.root), node="n", lent=lent)


def discovery_of(discover: Callable[[], DiscoveredNode]) -> Discovery:
    return Discovery(discover, reports=ConditionReports(on_change=lambda: None), on_change=lambda: None)


def discovered(tree: SysfsTree, *lent: str) -> DiscoveredNode:
    return DiscoveredNode(inventory=seen(tree, *lent), lent={name: LentNames() for name in lent})


@pytest.mark.parametrize("mode", list(RdmaNetnsMode), ids=str)
def test_the_netns_mode_is_what_ib_core_says(tree: SysfsTree, mode: RdmaNetnsMode) -> None:
    tree.netns_mode(mode)
    assert seen(tree).rdma_netns_mode is mode


@pytest.mark.parametrize(("value", "notes"), [(None, 0), ("maybe", 1)], ids=["no ib_core", "another value"])
def test_without_a_netns_mode_none_is_told(tmp_path: Path, value: str | None, notes: int) -> None:
    tree = dgx(tmp_path, switches=1, pairs=1)
    if value is not None:
        tree.write("module/ib_core/parameters/netns_mode", value)
    inventory = seen(tree)
    assert inventory.rdma_netns_mode is None
    assert len([note for note in inventory.notes if "netns_mode" in note]) == notes


def test_each_vf_has_an_rdma_device_an_interface_a_guid_and_device_nodes_of_its_own(tree: SysfsTree) -> None:
    functions = [function for nic in seen(tree).nics for function in (nic, *nic.vfs)]
    assert len(functions) == 6
    for facts in (
        [function.rdma_device for function in functions],
        [function.if_names for function in functions],
        [function.verbs_minor for function in functions],
        [function.umad_minors for function in functions],
        [function.issm_minors for function in functions],
        [function.ports[0].guid for function in functions],
    ):
        assert len(set(facts)) == 6
        assert not {None, ()} & set(facts)


def test_a_roce_vf_has_its_own_guid_as_well(roce: SysfsTree) -> None:
    address = vf_address(NICS[0], 0)
    vf = roce.virtual_function(roce.address_folder(NICS[0]), 0, address, class_code=0x020000)
    roce.rdma_device(vf, "mlx5_1", number=1, link_layer="Ethernet", interfaces=["eth1"])
    roce.port_state(address, "down")
    (nic,) = seen(roce).nics
    assert [function.ports[0].guid for function in (nic, *nic.vfs)] == [guid_of(0), guid_of(1)]
    assert [function.link_is_up for function in (nic, *nic.vfs)] == [True, False]


@pytest.mark.parametrize("nodes", [False, True], ids=["nodes shown", "nodes gone"])
def test_a_lent_vf_stays_in_its_nic_and_says_what_it_said(tree: SysfsTree, nodes: bool) -> None:
    results = [discovered(tree)]
    tree.hide_interfaces(VF)
    tree.hide_rdma_device(VF, nodes=nodes)
    results.append(discovered(tree, VF_NAME))
    discovery = discovery_of(iter(results).__next__)
    discovery.run()
    before = discovery.inventory()
    discovery.run()
    assert discovery.inventory() == before


def test_without_a_lender_a_vf_in_another_namespace_cannot_be_given(tree: SysfsTree) -> None:
    tree.hide_rdma_device(VF)
    vf = seen(tree).nics[0].vfs[1]
    assert (vf.rdma_device, vf.device_nodes_known) == (None, False)


def test_after_a_restart_the_kernels_device_nodes_still_name_the_hidden_device(tree: SysfsTree) -> None:
    before = seen(tree).nics[0].vfs[1]
    tree.hide_interfaces(VF)
    tree.hide_rdma_device(VF)
    inventory = seen(tree, VF_NAME)
    ports = (RdmaPort(number=1, link_layer=LinkLayer.INFINIBAND),)
    assert inventory.nics[0].vfs[1] == replace(before, if_names=(), ports=ports)
    # So the VFs are alike still, whatever hides one of them.
    pool = vf_pool(inventory.nics[0])
    assert pool is not None
    assert len(pool.vfs) == 2


def test_after_a_restart_no_rail_moves_with_a_hidden_nic(tree: SysfsTree) -> None:
    before = seen(tree)
    tree.hide_rdma_device(NICS[0])
    assert [nic.rail for nic in seen(tree, before.nics[0].name).nics] == [nic.rail for nic in before.nics] == [0, 1]


def test_a_lent_roce_nic_is_still_a_nic(roce: SysfsTree) -> None:
    before = seen(roce).nics[0]
    roce.hide_interfaces(NICS[0])
    roce.hide_rdma_device(NICS[0])
    assert seen(roce).nics == ()
    inventory = seen(roce, before.name)
    ports = (RdmaPort(number=1, link_layer=LinkLayer.ETHERNET),)
    assert inventory.nics == (replace(before, if_names=(), ports=ports),)
    assert inventory.notes == ()


def test_a_lent_infiniband_nic_whose_nodes_are_made_anew_gets_no_note(tree: SysfsTree) -> None:
    before = seen(tree)
    tree.hide_rdma_device(NICS[1], nodes=True)
    assert seen(tree, before.nics[1].name).notes == before.notes
    assert seen(tree).notes != before.notes


def test_in_shared_mode_a_lent_nic_without_an_rdma_device_has_lost_its_driver(roce: SysfsTree) -> None:
    roce.netns_mode("shared")
    name = seen(roce).nics[0].name
    roce.hide_rdma_device(NICS[0])
    assert seen(roce, name).nics == ()


def test_the_software_device_above_a_lent_nic_is_not_taken_for_it(roce: SysfsTree) -> None:
    # Before Linux 5.1 rxe has the PCI function of the interface below it for a parent.
    name = seen(roce).nics[0].name
    roce.hide_rdma_device(NICS[0], nodes=True)
    device = roce.rdma_device(roce.address_folder(NICS[0]), "rxe0", number=7)
    roce.write(f"{device}/parent", "eth0")
    (nic,) = seen(roce, name).nics
    assert (nic.rdma_device, nic.verbs_minor) == (None, None)


@pytest.mark.needs_cc
def test_a_look_tells_what_was_lent_and_what_the_lender_says_of_it(tree: SysfsTree, nvml_stub: StubNvml) -> None:
    name = seen(tree).nics[0].vfs[1].name
    names = LentNames(interface="ib0v1")
    found = nvml_stub.call(
        Machine(),
        DISCOVER,
        Roots.of(tree.root, ""),
        node="n",
        lent=partial(frozenset, {name, "rdma-gone"}),
        lent_names=partial(dict, {name: names}),
    )
    assert isinstance(found, DiscoveredNode)
    assert found.lent == {name: names, "rdma-gone": LentNames()}


def test_one_that_is_lent_while_sysfs_is_read_is_not_lost(roce: SysfsTree) -> None:
    name = seen(roce).nics[0].name
    answers = iter([frozenset(), frozenset({name})])

    def lent() -> frozenset[str]:
        answer: frozenset[str] = next(answers)
        if not answer:  # it goes just after
            roce.hide_interfaces(NICS[0])
            roce.hide_rdma_device(NICS[0])
        return answer

    found = discover(Roots.of(roce.root, ""), node="n", lent=lent)
    assert [nic.name for nic in found.inventory.nics] == [name]
    assert set(found.lent) == {name}
