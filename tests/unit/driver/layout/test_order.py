"""First fit over the published order is a good fit, on hand-made nodes and on real machines.

``first_fit`` is all of kube-scheduler that matters here: for each request in turn the first free device that has what
the request's partner has.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest

from driver.adapters.machines.topology import read_topology
from driver.api.resource_v1 import Device
from driver.model.devices import MigSupport
from driver.model.inventory import Inventory
from tests.support.machines import NAMED_VFS, address, buses, fpga, gpu, nic, node, published, value
from tests.support.topologies import REAL_MACHINE_FILES

MACHINES = {path.stem: path for path in REAL_MACHINE_FILES}


def machine(name: str) -> Inventory:
    return read_topology(MACHINES[name])


def first_fit(free: list[Device], kind: str, count: int = 1, **having: object) -> list[Device]:
    """The first ``count`` free devices of a type with these attribute values; they are no longer free then."""
    fitting = [
        device
        for device in free
        if value(device, "type") == kind and all(value(device, name) == wanted for name, wanted in having.items())
    ]
    assert len(fitting) >= count, "does not fit"
    taken = fitting[:count]
    for device in taken:
        free.remove(device)
    return taken


def values(devices: Sequence[Device], name: str) -> set[str | int | None]:
    return {value(device, name) for device in devices}


# Nodes by hand: one property of the order each.


def test_gpus_of_one_numa_node_stand_side_by_side_whatever_their_addresses() -> None:
    inventory = node(gpu("01", 1), gpu("02", 0), gpu("03", 1), gpu("04", 0))
    assert buses(published(inventory)) == ["02", "04", "01", "03"]


def test_gpus_of_one_root_and_of_one_switch_stand_side_by_side() -> None:
    inventory = node(gpu("01", 0, "f0/f1"), gpu("02", 0, "f0/f2"), gpu("03", 0, "f0/f1"), gpu("04", 0, "f0/f2"))
    assert buses(published(inventory)) == ["01", "03", "02", "04"]


def test_gpus_joined_by_links_stand_side_by_side_even_over_numa_nodes() -> None:
    inventory = node(
        gpu("01", 0, links=["03"]), gpu("02", 0, links=["04"]), gpu("03", 1, links=["01"]), gpu("04", 1, links=["02"])
    )
    assert buses(published(inventory)) == ["01", "03", "02", "04"]


def test_linked_pairs_stand_in_the_order_of_their_numa_nodes() -> None:
    pairs = [("05", "06", 0), ("01", "02", 1), ("07", "08", 0), ("03", "04", 1)]
    inventory = node(
        *(gpu(a, numa, links=[b]) for a, b, numa in pairs), *(gpu(b, numa, links=[a]) for a, b, numa in pairs)
    )
    assert buses(published(inventory)) == ["05", "06", "07", "08", "01", "02", "03", "04"]


def test_gpus_of_one_model_stand_side_by_side_those_with_less_memory_first() -> None:
    inventory = node(
        gpu("01", model="H100", memory_bytes=80 << 30),
        gpu("02", model="L4", memory_bytes=24 << 30),
        gpu("03", model="H100", memory_bytes=80 << 30),
        gpu("04", model="L4", memory_bytes=24 << 30),
    )
    for kind in ("gpu", "gpu-ratio"):
        assert buses(published(inventory, kind)) == ["02", "04", "01", "03"]


def test_of_two_groups_the_smaller_is_first_so_that_single_gpus_do_not_break_the_larger() -> None:
    off_the_bus = node(gpu("01", 0), gpu("02", 0), gpu("03", 0), gpu("04", 1), gpu("05", 1))
    assert buses(published(off_the_bus)) == ["04", "05", "01", "02", "03"]


def test_gpus_without_a_nic_beside_them_come_before_those_with_one() -> None:
    inventory = node(gpu("01", 0, "f1"), nic("11", 0, "f1"), gpu("02", 0, "f2"), gpu("03", 0, "f2"))
    assert buses(published(inventory, "gpu")) == ["02", "03", "01"]


def test_nics_without_a_gpu_beside_them_come_before_those_with_one() -> None:
    inventory = node(gpu("01", 0, "f1"), nic("11", 0, "f1"), nic("12", 0, "f2"), nic("13", 1))
    assert buses(published(inventory, "rdma")) == ["13", "12", "11"]


def test_nics_stand_in_the_order_of_the_gpus_beside_them() -> None:
    inventory = node(gpu("01", 1, "f1"), nic("11", 1, "f1"), gpu("02", 0, "f2"), nic("12", 0, "f2"))
    assert buses(published(inventory, "gpu")) == ["02", "01"]
    assert buses(published(inventory, "rdma")) == ["12", "11"]


def test_vfs_are_spread_over_their_nics() -> None:
    inventory = node(nic("11", 0, vfs=2), nic("12", 0, vfs=3))
    assert [device.name for device in published(inventory, nic_policies=NAMED_VFS)] == [
        "rdma-vf-0000-11-01-0",
        "rdma-vf-0000-12-01-0",
        "rdma-vf-0000-11-01-1",
        "rdma-vf-0000-12-01-1",
        "rdma-vf-0000-12-01-2",
    ]


def test_pools_of_vfs_stand_in_the_order_of_their_nics() -> None:
    inventory = node(gpu("01", 1, "f1"), nic("11", 1, "f1", vfs=2), gpu("02", 0, "f2"), nic("12", 0, "f2", vfs=2))
    assert buses(published(inventory, "rdma-vf")) == ["12", "11"]


def test_fpgas_of_one_numa_node_stand_side_by_side() -> None:
    inventory = node(fpga("01", 1), fpga("02", 0), fpga("03", 1), fpga("04", 0))
    assert buses(published(inventory)) == ["02", "04", "01", "03"]


def test_types_come_one_after_the_other() -> None:
    inventory = node(fpga("01"), nic("02", vfs=1), nic("03"), gpu("04"))
    assert [value(device, "type") for device in published(inventory)] == ["gpu", "rdma", "rdma-vf", "fpga"]


def test_deep_paths_are_fine() -> None:
    switches = "/".join(f"{bus:02x}" for bus in range(0x20, 0xFF))
    assert buses(published(node(gpu("01", 0, switches), gpu("02", 0, switches)))) == ["01", "02"]


# Real machines.

HALVES = {
    "aws-g5.48xlarge": "numaNode",
    "aws-p4d.24xlarge": "numaNode",
    "azure-nd-h100-v5": "numaNode",
    "rccl-4p4h": "nvlinkDomain",
    "rccl-8p_90a": "nvlinkDomain",
    "rccl-8p_pcie_2nic": "pcieSwitch",
    "rccl-8p_rome_4nics": "nvlinkDomain",
    "rccl-8p_ts1_n4": "nvlinkDomain",
    "dgx-1-v100": "nvlinkQuad",
    "dgx-2": "numaNode",
    "rccl-16p1h": "nvlinkQuad",
}


@pytest.mark.parametrize(("name", "shared"), HALVES.items(), ids=HALVES)
def test_claims_for_four_gpus_each_come_from_one_side(name: str, shared: str) -> None:
    free = published(machine(name))
    gpus = sum(value(device, "type") == "gpu" for device in free)
    for _ in range(gpus // 4):
        assert len(values(first_fit(free, "gpu", 4), shared)) == 1


def test_claims_for_two_gpus_each_come_from_one_numa_node_on_azure_nd_a100_v4() -> None:
    free = published(machine("azure-nd-a100-v4"))
    for _ in range(4):
        assert len(values(first_fit(free, "gpu", 2), "numaNode")) == 1


PAIRS = {
    "aws-p4d.24xlarge": 4,
    "azure-nd-a100-v4": 8,
    "azure-nd-h100-v5": 8,
    "rccl-4p4h": 16,
    "rccl-8p_pcie_2nic": 2,
    "rccl-8p_rome_4nics": 4,
    "rccl-16p1h": 8,
}


@pytest.mark.parametrize(("name", "pairs"), PAIRS.items(), ids=PAIRS)
def test_each_nic_under_a_switch_gets_a_gpu_under_the_same_switch(name: str, pairs: int) -> None:
    free = published(machine(name))
    matched = 0
    for device in [device for device in free if value(device, "type") == "rdma"]:
        first_fit(free, "gpu", pcieSwitch=value(device, "pcieSwitch"))
        matched += 1
    assert matched == pairs


@pytest.mark.parametrize("name", ["azure-nd-a100-v4", "azure-nd-h100-v5", "rccl-4p4h"])
def test_eight_pairs_are_found_in_step_without_going_back(name: str) -> None:
    free = published(machine(name))
    for _ in range(8):
        (device,) = first_fit(free, "gpu")
        first_fit(free, "rdma", pcieSwitch=value(device, "pcieSwitch"))


def test_a_nic_alone_comes_from_beside_the_gpu_that_is_given_first() -> None:
    free = published(machine("azure-nd-h100-v5"))
    (single,), (alone,) = first_fit(free, "gpu"), first_fit(free, "rdma")
    assert value(single, "pcieSwitch") == value(alone, "pcieSwitch")
    for _ in range(7):
        (device,) = first_fit(free, "gpu")
        first_fit(free, "rdma", pcieSwitch=value(device, "pcieSwitch"))


def test_single_gpus_leave_a_whole_side_for_four() -> None:
    free = published(machine("azure-nd-h100-v5"))
    for _ in range(4):
        first_fit(free, "gpu")
    assert values(first_fit(free, "gpu", 4), "numaNode") == {1}


def whole_sides(order: Sequence[Device], shared: str, seed: int) -> float:
    """How often a whole side is free while single GPUs come and go, at three of eight GPUs in use on average."""
    draw = random.Random(seed)
    sides = [{d.name for d in order if value(d, shared) == side} for side in values(order, shared)]
    used: list[str] = []
    free_sides = 0
    steps = 2000
    for _ in range(steps):
        if len(used) < len(order) and draw.random() < (0.65 if len(used) < 3 else 0.35):
            used.append(next(device.name for device in order if device.name not in used))
        elif used:
            used.pop(draw.randrange(len(used)))
        free_sides += any(not side & set(used) for side in sides)
    return free_sides / steps


def test_while_single_gpus_come_and_go_a_whole_side_stays_free_more_often_than_in_another_order() -> None:
    order = published(node(*(gpu(f"{bus:02x}", numa=bus % 2) for bus in range(1, 9))))
    by_address = sorted(order, key=lambda device: device.name)
    shuffled = [random.Random(seed).sample(order, len(order)) for seed in range(10)]
    ours = whole_sides(order, "numaNode", seed=7)  # docs/design/layout.md quotes these figures
    assert ours > 0.65
    assert whole_sides(by_address, "numaNode", seed=7) < 0.3
    assert statistics.mean(whole_sides(other, "numaNode", seed=7) for other in shuffled) < 0.4


def test_a_gpu_in_mig_mode_makes_its_side_the_smaller_one_and_stays_in_its_link_domain() -> None:
    gpus = [gpu(f"{bus:02x}", numa=bus // 5, links=[None]) for bus in range(1, 9)]
    gpus[7] = gpu("08", numa=1, links=[None], mig=MigSupport(enabled=True))
    devices = published(node(*gpus))
    assert buses(devices) == ["05", "06", "07", "01", "02", "03", "04"]
    assert values(devices, "nvlinkDomain") == {address("01")}


def test_a_link_domain_whose_first_gpu_is_left_out_stands_where_the_others_are() -> None:
    first = gpu("01", 0, links=[None], mig=MigSupport(enabled=True))
    devices = published(node(first, gpu("02", 1, links=[None]), gpu("03", 1, links=[None])))
    assert buses(devices) == ["02", "03"]
    assert values(devices, "nvlinkDomain") == {address("01")}


def test_each_machine_of_the_repository_has_a_line_here() -> None:
    assert set(HALVES) | {"azure-nd-a100-v4"} == set(MACHINES)
