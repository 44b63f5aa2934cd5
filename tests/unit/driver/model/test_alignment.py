"""How near a pod's GPUs and NICs are to each other, and which of them could have been nearer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver.adapters.machines.topology import read_topology
from driver.errors import InputError
from driver.layout import attributes
from driver.model.alignment import (
    NUMA_NODE,
    PCIE_ROOT,
    PCIE_SWITCH,
    Misalignment,
    misalignments,
    pair_distances,
)
from driver.model.devices import LinkLayer, MigPlacement, MigProfile, RdmaNic, RdmaPort
from driver.model.inventory import Inventory
from driver.model.parts import AllocatableDevice, GpuRatio, MigPartition, named_devices, vf_pool
from tests.support.machines import fpga, gpu, nic, node, path
from tests.support.topologies import REAL_MACHINE_FILES, machine_file

H100_V5 = machine_file("azure-nd-h100-v5")


def two_sockets() -> Inventory:
    """Two switches, one a socket: two GPUs and two NICs under each."""
    return node(
        gpu("10", 0, "f0"),
        gpu("11", 0, "f0"),
        gpu("20", 1, "f1"),
        gpu("21", 1, "f1"),
        nic("18", 0, "f0"),
        nic("19", 0, "f0"),
        nic("28", 1, "f1"),
        nic("29", 1, "f1"),
    )


def given(inventory: Inventory, *buses: str) -> list[AllocatableDevice]:
    """The devices on these buses, once for each time."""
    devices: tuple[AllocatableDevice, ...] = (*inventory.gpus, *inventory.nics)
    by_bus = {device.address[5:7]: device for device in devices}
    return [by_bus[bus] for bus in buses]


def misaligned(inventory: Inventory, *buses: str) -> list[str]:
    return [line(item) for item in misalignments(inventory, given(inventory, *buses))]


def line(item: Misalignment) -> str:
    gpu, nearest, nearer = (name.split("-")[-3] for name in (item.gpu, item.nearest, item.nearer))
    attribute = item.attribute.partition("/")[2]
    return f"{gpu}: {nearest} {item.distance}, but {nearer} {item.possible} by {attribute}"


def test_the_attributes_are_those_that_are_published() -> None:
    assert f"rootport.dev/{attributes.PCIE_SWITCH}" == PCIE_SWITCH
    assert PCIE_ROOT == attributes.STANDARD_PCIE_ROOT
    assert NUMA_NODE == attributes.STANDARD_NUMA_NODE


@pytest.mark.parametrize(
    ("buses", "expected"),
    [
        pytest.param("10 18", [], id="a-pair-at-one-switch"),
        pytest.param("10 28", ["10: 28 SYS, but 18 PIX by pcieSwitch"], id="a-pair-at-two"),
        pytest.param("10 18 28", [], id="the-nearest-nic-counts"),
        pytest.param("10 11 18", [], id="two-gpus-share-a-nic"),
        pytest.param("10 11 18 28", [], id="two-gpus-share-a-nic-and-have-another"),
        pytest.param("10 20 18", [], id="fewer-nics-than-gpus-where-one-is-near"),
        pytest.param("10 11 20 21 18", [], id="one-nic-for-all-gpus"),
        pytest.param(
            "10 11 28",
            ["10: 28 SYS, but 18 PIX by pcieSwitch", "11: 28 SYS, but 18 PIX by pcieSwitch"],
            id="one-nic-far-from-both",
        ),
        pytest.param(
            "10 20 18 19", ["20: 18 SYS, but 28 PIX by pcieSwitch"], id="two-nics-and-one-would-do-at-its-switch"
        ),
        pytest.param("10 11 18 19", [], id="two-gpus-and-two-nics-at-one-switch"),
        pytest.param("10 11 20 18 28", [], id="three-gpus-two-nics"),
        pytest.param(
            "10 11 28 29",
            ["10: 28 SYS, but 18 PIX by pcieSwitch", "11: 28 SYS, but 19 PIX by pcieSwitch"],
            id="both-nics-at-the-other-socket",
        ),
        pytest.param("10 20 28 18", [], id="crosswise-in-the-claim-but-not-on-the-node"),
        pytest.param("10 11", [], id="no-nic"),
        pytest.param("18 28", [], id="no-gpu"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_a_gpu_is_told_of_when_a_nic_given_in_vain_could_have_been_nearer(buses: str, expected: list[str]) -> None:
    assert misaligned(two_sockets(), *buses.split()) == expected


def test_no_more_gpus_are_told_of_than_other_nics_would_help() -> None:
    inventory = node(
        *(gpu(f"{bus}0", 0, f"f{bus}") for bus in range(1, 9)), *(nic(f"{bus}8", 0, f"f{bus}") for bus in range(1, 10))
    )
    eight = [f"{bus}0" for bus in range(1, 9)]
    assert misaligned(inventory, *eight, "98") == ["10: 98 NODE, but 18 PIX by pcieSwitch"]
    assert misaligned(inventory, *eight, "18") == []


def test_of_two_nics_that_serve_one_gpu_one_was_given_in_vain() -> None:
    inventory = node(
        *(gpu(f"{bus}0", 0, f"f{bus}") for bus in (1, 2, 3)),
        *(nic(f"{bus}8", 0, f"f{bus}") for bus in (1, 2, 3)),
        nic("19", 0, "f1"),
    )
    assert misaligned(inventory, "10", "20", "30", "18", "19") == ["20: 18 NODE, but 28 PIX by pcieSwitch"]


def test_who_would_win_most_comes_first() -> None:
    inventory = node(gpu("10", 1, "f0"), gpu("20", 0, "f1"), nic("18", 1, "f0"), nic("28", 0, "f1"), nic("38", 1))
    assert misaligned(inventory, "10", "20", "38") == ["20: 38 SYS, but 28 PIX by pcieSwitch"]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        # The GPU's, the given NIC's and the other NIC's.
        pytest.param(
            [path(0, "f0", "r0"), path(0, "f1", "r0"), path(0, "f0", "r0")],
            ["10: 18 PHB, but 19 PIX by pcieSwitch"],
            id="switch",
        ),
        pytest.param(
            [path(0, "f0/e0", "r0"), path(0, "f1", "r1"), path(0, "f0/e1", "r0")],
            ["10: 18 NODE, but 19 PXB by pcieRoot"],
            id="two-switches-below-a-third",
        ),
        pytest.param(
            [path(0, root="r0"), path(0, root="r1"), path(0, root="r0")],
            ["10: 18 NODE, but 19 PHB by pcieRoot"],
            id="root",
        ),
        pytest.param(
            [path(0, root="r0"), path(1, root="r1"), path(0, root="r2")],
            ["10: 18 SYS, but 19 NODE by numaNode"],
            id="numa-node",
        ),
        pytest.param(
            [path(0, root="r0"), path(1, root="r0"), path(0, root="r0")],
            ["10: 18 SYS, but 19 PHB by numaNode"],
            id="a-virtual-root-of-two-numa-nodes",
        ),
        pytest.param(
            [path(0, "f0/e0", "r0"), path(0, "f1", "r0"), path(0, "f0/e1", "r0")],
            [],
            id="nearer-but-no-attribute-tells",
        ),
        pytest.param(
            [path(0, root="r0"), path(root="r0"), path(0, root="r0")], [], id="a-constraint-that-brings-nothing-nearer"
        ),
        pytest.param([path(), path(), path()], [], id="a-virtual-machine-that-shows-nothing"),
        pytest.param([path(root="r0"), path(root="r0"), path(root="r0")], [], id="all-on-one-virtual-bus"),
        pytest.param([path(0), path(), path(1)], [], id="half-told"),
    ],
)
def test_the_constraint_is_one_that_joins_what_is_nearer_and_not_what_was_given(
    paths: list[object], expected: list[str]
) -> None:
    one, had, other = paths
    inventory = node(gpu("10", pcie=one), nic("18", pcie=had), nic("19", pcie=other))
    assert misaligned(inventory, "10", "18") == expected


def roce(bus: str, numa: int, switches: str) -> RdmaNic:
    return nic(bus, numa, switches, ports=(RdmaPort(link_layer=LinkLayer.ETHERNET),))


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(roce("19", 0, "f0"), id="another-link-layer"),
        pytest.param(nic("19", 0, "f0", vfs=2), id="given-by-its-vfs-alone"),
        pytest.param(nic("19", 0, "f0", verbs_minor=None), id="bound-to-no-driver"),
        pytest.param(
            nic("19", 0, "f0", ports=(RdmaPort(link_layer=LinkLayer.INFINIBAND, state="down"),)), id="link-down"
        ),
    ],
)
def test_a_near_nic_that_the_request_could_not_have_had_is_no_reason(near: RdmaNic) -> None:
    assert misaligned(node(gpu("10", 0, "f0"), nic("28", 1, "f1"), near), "10", "28") == []
    alike = replace(nic("19", 0, "f0"), index=near.index)
    assert misaligned(node(gpu("10", 0, "f0"), nic("28", 1, "f1"), alike), "10", "28") != []


def test_another_nic_for_storage_is_not_a_nic_in_vain() -> None:
    inventory = node(
        gpu("10", 0, "f0"), gpu("20", 1, "f1"), nic("18", 0, "f0"), nic("28", 1, "f1"), roce("50", 0, "f5")
    )
    assert misaligned(inventory, "10", "20", "18", "50") == []


def test_a_nic_in_vain_could_have_been_another_of_its_kind() -> None:
    inventory = node(
        gpu("10", 0, "f0"),
        gpu("20", 1, "f1"),
        nic("18", 0, "f0"),
        nic("28", 1, "f1"),
        roce("50", 0, "f5"),
        roce("60", 1, "f6"),
    )
    assert misaligned(inventory, "10", "20", "18", "50") == ["20: 18 SYS, but 60 NODE by numaNode"]


def test_parts_count_as_their_cards() -> None:
    near, far = nic("18", 0, "f0", vfs=4), nic("28", 1, "f1", vfs=4)
    card = gpu("10", 0, "f0")
    inventory = node(card, near, far)
    profile = MigProfile(
        name="1g.10gb", profile_id=19, compute_slices=1, memory_bytes=1 << 30, max_instances=7, placements=()
    )
    partition = MigPartition(gpu=card, profile=profile, placement=MigPlacement(start=0, size=1), label="1g-10gb")
    for part in (card, GpuRatio(gpu=card), partition):
        for near_vf, far_vf in ((vf_pool(near), vf_pool(far)), (near.vfs[3], far.vfs[0])):
            assert near_vf is not None
            assert far_vf is not None
            assert misalignments(inventory, [part, near_vf]) == ()
            (found,) = misalignments(inventory, [part, far_vf])
            assert (found.gpu, found.nearest, found.nearer) == (part.name, far_vf.name, near.name)
            assert [(item.gpu, item.nic, str(item.distance)) for item in pair_distances(inventory, [far_vf, part])] == [
                (part.name, far_vf.name, "SYS")
            ]


def test_each_vf_of_a_pool_counts() -> None:
    inventory = node(gpu("10", 0, "f0"), gpu("20", 1, "f1"), nic("18", 0, "f0", vfs=4), nic("28", 1, "f1", vfs=4))
    pool = vf_pool(inventory.nics[0])
    assert pool is not None
    assert misalignments(inventory, [*inventory.gpus, pool]) == ()
    assert [line(item) for item in misalignments(inventory, [*inventory.gpus, pool, pool])] == [
        "20: 18 SYS, but 28 PIX by pcieSwitch"
    ]


def test_two_shares_of_a_gpu_are_one_gpu() -> None:
    inventory = two_sockets()
    shares: list[AllocatableDevice] = [inventory.gpus[0], GpuRatio(gpu=inventory.gpus[0])]
    assert len(misalignments(inventory, [*shares, inventory.nics[2]])) == 1


def test_pairs_are_told_in_the_order_of_the_devices_and_once() -> None:
    inventory = replace(two_sockets(), fpgas=(fpga("40"),))
    devices = [*given(inventory, "28", "11", "10", "18", "10"), *inventory.fpgas]
    assert [(item.gpu[-7:-5], item.nic[-7:-5], str(item.distance)) for item in pair_distances(inventory, devices)] == [
        ("11", "28", "SYS"),
        ("11", "18", "PIX"),
        ("10", "28", "SYS"),
        ("10", "18", "PIX"),
    ]


def test_a_device_of_another_node_is_an_input_error() -> None:
    with pytest.raises(InputError, match="has no device at PCI address"):
        misalignments(two_sockets(), [gpu("77"), nic("18")])


def test_nd_h100_v5_has_a_nic_at_the_switch_of_each_gpu() -> None:
    inventory = read_topology(H100_V5, node="n")
    pairs = pair_distances(inventory, [*inventory.gpus, *inventory.nics])
    near = [(item.gpu, item.nic) for item in pairs if str(item.distance) == "PIX"]
    assert len(near) == 8
    for one, other in near:
        assert misalignments(inventory, list(named_devices(inventory, (one, other)).values())) == ()
    for first, second in zip(near, near[1:] + near[:1], strict=True):
        (found,) = misalignments(inventory, list(named_devices(inventory, (first[0], second[1])).values()))
        assert (found.gpu, found.nearest, found.nearer, found.attribute) == (
            first[0],
            second[1],
            first[1],
            "rootport.dev/pcieSwitch",
        )
    crossed = [inventory.gpus[0], inventory.gpus[1], *named_devices(inventory, (near[6][1], near[7][1])).values()]
    assert {(item.gpu, item.nearer) for item in misalignments(inventory, crossed)} == set(near[:2])


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda item: item.stem)
def test_on_real_machines_all_devices_together_are_aligned(topology: Path) -> None:
    inventory = read_topology(topology, node="n")
    assert misalignments(inventory, [*inventory.gpus, *inventory.nics]) == ()


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda item: item.stem)
def test_on_real_machines_what_the_constraint_gives_instead_is_aligned(topology: Path) -> None:
    inventory = read_topology(topology, node="n")
    for card in inventory.gpus:
        for one in inventory.nics:
            for found in misalignments(inventory, [card, one]):
                assert found.possible < found.distance
                nearer = named_devices(inventory, (found.nearer,))[found.nearer]
                assert misalignments(inventory, [card, nearer]) == ()
