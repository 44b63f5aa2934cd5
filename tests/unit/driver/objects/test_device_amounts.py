"""How much of a device there is, can be given, is given, and is left for one more claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName, Gpu, RdmaVf
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.model.parts import MigPartition, gpu_parts
from driver.objects.claims import ClaimAllocation
from driver.objects.device_amounts import DeviceOffer
from driver.objects.device_statuses import device_statuses
from tests.support.machines import fpga, nic, node
from tests.support.mig_machines import A30, A100, H100, instance, mig_gpu

GIB = 1 << 30
GPU, RATIO, NIC = "gpu-0000-10-00-0", "gpu-ratio-0000-10-00-0", "rdma-0000-20-00-0"
POOL = "rdma-vfs-0000-20-00-0"


def given_to(device: str, number: int = 0, **consumed: Any) -> ClaimAllocation:
    amounts: dict[str, Any] = {"core": None, "memory_bytes": None, "memory_ratio": None}
    return ClaimAllocation(
        namespace="team",
        claim=f"c{number}",
        uid=f"u{number:04}",
        request="r",
        pool="node-a",
        device=device,
        share_id="s",
        isolation=None,
        **(amounts | consumed),
    )


def status(inventory: Inventory, *items: ClaimAllocation, device: str = GPU, **options: Any) -> dict[str, Any]:
    wire = device_statuses(inventory, items, **options)[DeviceName(device)].to_wire()
    return {key: wire.get(key) for key in ("capacity", "allocatable", "allocated", "largestFree")}


def card(**fields: Any) -> Inventory:
    return node(mig_gpu("10", H100, **({"memory_bytes": 80 * GIB} | fields)))


def mig(profile: str, start: int, number: int = 0) -> ClaimAllocation:
    label = profile.replace(".", "-").replace("+", "-")
    return given_to(f"mig-0000-10-00-0-{label}-{start}", number)


@pytest.mark.parametrize(
    ("item", "used", "free"),
    [
        (given_to(GPU, core=50, memory_bytes=40 * GIB), "40960Mi", "40599Mi"),
        (given_to(RATIO, core=50, memory_ratio=50), "40780Mi", "40779Mi"),
        (given_to(GPU, core=50, memory_bytes=20 * 10**9), "19074Mi", "62485Mi"),
        (given_to(GPU, core=50, memory_bytes=1), "1Mi", "81558Mi"),
    ],
    ids=["gibibytes", "a half by percent", "decimal gigabytes", "a byte"],
)
def test_memory_is_written_in_one_unit_and_what_is_given_and_what_is_left_add_up(
    item: ClaimAllocation, used: str, free: str
) -> None:
    found = status(card(memory_bytes=81559 << 20), item)
    assert found["capacity"]["memory"] == "81559Mi"
    assert (found["allocated"]["memory"], found["largestFree"]["memory"]) == (used, free)


@pytest.mark.parametrize(
    ("items", "free"),
    [
        pytest.param([], {"core": 100, "memory": "81920Mi", "profile": "7g.80gb"}, id="free"),
        pytest.param([given_to(GPU)], None, id="whole"),
        pytest.param([given_to(GPU, core=30, memory_bytes=20 * GIB)], {"core": 70, "memory": "61440Mi"}, id="a share"),
        pytest.param(
            [given_to(GPU, core=100, memory_bytes=20 * GIB)], {"core": 0, "memory": "61440Mi"}, id="no core left"
        ),
        pytest.param([given_to(GPU, core=0, memory_bytes=80 * GIB)], None, id="all of the memory"),
        pytest.param([given_to(GPU, core=0, memory_bytes=20 * GIB)], {"core": 100, "memory": "61440Mi"}, id="no core"),
        pytest.param([given_to(GPU, core=10, memory_bytes=80 * GIB)], None, id="no memory left"),
        pytest.param([given_to(RATIO, core=20, memory_ratio=25)], {"core": 80, "memory": "61440Mi"}, id="by percent"),
        pytest.param([mig("1g.10gb", 0)], {"memory": "40448Mi", "profile": "3g.40gb"}, id="the other half of the GPU"),
        pytest.param([mig("1g.10gb", 0), mig("1g.10gb", 4, 1)], {"memory": "20096Mi", "profile": "2g.20gb"}, id="two"),
        pytest.param([mig("1g.10gb+me", 6)], {"memory": "40448Mi", "profile": "4g.40gb"}, id="the media engines"),
        pytest.param(
            [mig("3g.40gb", 0), mig("3g.40gb", 4, 1)], None, id="compute slices are left, and no memory slices"
        ),
        pytest.param([mig("7g.80gb", 0)], None, id="all in one partition"),
    ],
)
def test_what_one_more_claim_can_get_of_a_gpu(items: list[ClaimAllocation], free: dict[str, Any] | None) -> None:
    assert status(card(), *items)["largestFree"] == free


@pytest.mark.parametrize(
    ("profiles", "items", "core"),
    [
        pytest.param(H100, [("3g.40gb", 0)], 42, id="three of seven"),
        pytest.param(H100, [("3g.40gb", 0), ("3g.40gb", 4)], 85, id="six of seven"),
        pytest.param(H100, [("7g.80gb", 0)], 100, id="all"),
        pytest.param(A30, [("2g.12gb", 0)], 50, id="two of four"),
    ],
)
def test_partitions_have_a_part_of_the_core(profiles: Any, items: list[tuple[str, int]], core: int) -> None:
    found = status(node(mig_gpu("10", profiles)), *(mig(*item, number) for number, item in enumerate(items)))
    assert found["allocated"]["core"] == core


@given(profiles=st.sampled_from([H100, A100, A30]), data=st.data())
def test_the_largest_free_profile_is_one_that_the_published_counters_allow(profiles: Any, data: st.DataObject) -> None:
    gpu = mig_gpu("10", profiles)
    inventory = node(gpu)
    slices = resource_slices(inventory)
    totals = {
        n: c.value.ceil() for part in slices for one in part.spec.shared_counters for n, c in one.counters.items()
    }
    costs = {
        device.name: {n: c.value.ceil() for use in device.consumes_counters for n, c in use.counters.items()}
        for part in slices
        for device in part.spec.devices
    }
    parts = [part for part in gpu_parts(gpu) if isinstance(part, MigPartition)]
    order = data.draw(st.permutations(parts))
    left, used = dict(totals), []
    for part in order[: data.draw(st.integers(min_value=1, max_value=len(parts)))]:
        if all(left[name] >= cost for name, cost in costs[part.name].items()):
            left = {name: amount - costs[part.name].get(name, 0) for name, amount in left.items()}
            used.append(part)
    fitting = [part for part in parts if all(left[name] >= cost for name, cost in costs[part.name].items())]
    expected = max((part.profile.memory_bytes for part in fitting), default=None)
    found = device_statuses(inventory, [given_to(part.name, at) for at, part in enumerate(used)])[gpu.name].largest_free
    assert (found.memory.ceil() if found and found.memory else None) == expected
    assert not found or found.profile in {part.profile.name for part in fitting}


def static() -> Inventory:
    return node(mig_gpu("10", H100, instance(9, 0, 4), instance(19, 4, 1), memory_bytes=80 * GIB))


def test_partitions_that_an_administrator_made_are_there_and_free_until_they_are_given() -> None:
    offers = {DeviceName(GPU): DeviceOffer(whole=False, parts=True)}
    found = device_statuses(static(), [], offers=offers)[DeviceName(GPU)].to_wire()
    assert [(item["profile"], item["start"], item["uuid"]) for item in found["partitions"]] == [
        ("3g.40gb", 0, "MIG-9-0"),
        ("1g.10gb", 4, "MIG-19-4"),
    ]
    assert found["largestFree"] == {"memory": "40448Mi", "profile": "3g.40gb"}
    used = device_statuses(static(), [mig("3g.40gb", 0)], offers=offers)[DeviceName(GPU)].to_wire()
    assert used["largestFree"] == {"memory": "9984Mi", "profile": "1g.10gb"}
    assert used["allocated"]["core"] == 42


def test_a_partition_that_was_made_for_a_claim_has_its_uuid() -> None:
    item = replace(mig("1g.10gb", 2), mig_uuid="MIG-1")
    (part,) = device_statuses(card(), [item])[DeviceName(GPU)].partitions
    assert (part.device, part.start, part.size, part.uuid) == (item.device, 2, 1, "MIG-1")


@pytest.mark.parametrize(
    ("offer", "allocatable", "free"),
    [
        pytest.param(
            DeviceOffer(whole=True, parts=False),
            {"core": 100, "memory": "81920Mi"},
            {"core": 100, "memory": "81920Mi"},
            id="whole",
        ),
        pytest.param(
            DeviceOffer(whole=False, parts=True),
            {"core": 100, "memory": "81920Mi"},
            {"memory": "81152Mi", "profile": "7g.80gb"},
            id="partitions alone",
        ),
        pytest.param(DeviceOffer(whole=False, parts=False), {"core": 0, "memory": "0"}, None, id="not at all"),
    ],
)
def test_what_is_not_on_offer_is_not_allocatable(offer: DeviceOffer, allocatable: Any, free: Any) -> None:
    found = status(card(), offers={DeviceName(GPU): offer})
    assert (found["allocatable"], found["largestFree"]) == (allocatable, free)
    assert found["capacity"] == {"core": 100, "memory": "81920Mi"}


def test_shares_are_no_more_than_the_policies_allow() -> None:
    offers = {DeviceName(GPU): DeviceOffer(whole=True, parts=False, most_shares=2)}
    shares = [given_to(GPU, at, core=10, memory_bytes=GIB) for at in range(2)]
    assert status(card(), *shares[:1], offers=offers)["largestFree"] == {"core": 90, "memory": "80896Mi"}
    assert status(card(), *shares, offers=offers)["largestFree"] is None


def test_nothing_of_a_silent_nodes_devices_can_be_given() -> None:
    found = status(card(), is_silent=True)
    assert (found["allocatable"], found["largestFree"]) == ({"core": 0, "memory": "0"}, None)


def test_nothing_of_a_node_that_can_prepare_no_claim_can_be_given() -> None:
    found = status(card(), health=NodeHealth(cannot_prepare="Refused"))
    assert (found["allocatable"], found["largestFree"]) == ({"core": 0, "memory": "0"}, None)


@pytest.mark.parametrize(
    ("items", "allocated", "free"),
    [
        pytest.param([], None, {"bandwidth": "400G"}, id="free"),
        pytest.param([given_to(NIC)], {"bandwidth": "400G"}, None, id="whole"),
        pytest.param([given_to(NIC, bandwidth=100 * 10**9)], {"bandwidth": "100G"}, {"bandwidth": "300G"}, id="a part"),
    ],
)
def test_a_nic_is_counted_by_its_bandwidth(items: list[ClaimAllocation], allocated: Any, free: Any) -> None:
    found = status(node(nic("20")), *items, device=NIC)
    assert (found["capacity"], found["allocated"], found["largestFree"]) == ({"bandwidth": "400G"}, allocated, free)


@pytest.mark.parametrize(
    "names",
    [pytest.param([POOL, POOL], id="any two"), pytest.param([f"rdma-vf-0000-20-01-{at}" for at in (0, 2)], id="named")],
)
def test_a_nic_with_virtual_functions_is_counted_by_them(names: list[str]) -> None:
    offers = {DeviceName(NIC): DeviceOffer(whole=False, parts=True)}
    items = [given_to(name, at) for at, name in enumerate(names)]
    found = status(node(nic("20", vfs=4)), *items, device=NIC, offers=offers)
    assert found == {
        "capacity": {"bandwidth": "400G", "vfs": 4},
        "allocatable": {"bandwidth": "400G", "vfs": 4},
        "allocated": {"vfs": 2},
        "largestFree": {"bandwidth": "400G", "vfs": 2},
    }


def test_what_virtual_functions_have_reserved_is_counted_at_their_nic() -> None:
    items = [given_to(POOL, 0, bandwidth=100 * 10**9), given_to(POOL, 1, bandwidth_ratio=50), given_to(POOL, 2)]
    found = status(node(nic("20", vfs=4)), *items, device=NIC)
    assert (found["allocated"], found["largestFree"]) == (
        {"bandwidth": "300G", "vfs": 3},
        {"bandwidth": "100G", "vfs": 1},
    )


@pytest.mark.parametrize(
    ("items", "allocated", "free"),
    [
        pytest.param([], None, {"bandwidthRatio": 100}, id="free"),
        pytest.param([given_to(NIC, bandwidth_ratio=100)], {"bandwidthRatio": 100}, None, id="whole"),
        pytest.param([given_to(NIC, bandwidth_ratio=30)], {"bandwidthRatio": 30}, {"bandwidthRatio": 70}, id="a part"),
    ],
)
def test_a_nic_of_unknown_speed_is_counted_in_percent(items: list[ClaimAllocation], allocated: Any, free: Any) -> None:
    found = status(node(nic("20", ports=())), *items, device=NIC)
    assert (found["capacity"], found["allocated"], found["largestFree"]) == ({"bandwidthRatio": 100}, allocated, free)


def test_a_virtual_function_without_a_driver_cannot_be_given() -> None:
    card_ = nic("20", vfs=2)
    vfs: tuple[RdmaVf, ...] = (replace(card_.vfs[0], verbs_minor=None), card_.vfs[1])
    found = status(node(replace(card_, vfs=vfs)), device=NIC)
    assert (found["capacity"]["vfs"], found["allocatable"]["vfs"], found["largestFree"]) == (
        2,
        1,
        {"bandwidth": "400G", "vfs": 1},
    )


def test_an_fpga_is_given_or_not_and_has_no_amounts() -> None:
    found = status(node(fpga("30")), given_to("fpga-0000-30-00-0"), device="fpga-0000-30-00-0")
    assert set(found.values()) == {None}


def test_memory_that_is_not_known_is_not_counted() -> None:
    gpu: Gpu = replace(mig_gpu("10"), memory_bytes=None, mig=None)
    found = status(node(gpu), given_to(GPU, core=50))
    assert found["capacity"] == {"core": 100}
    assert (found["allocated"], found["largestFree"]) == ({"core": 50}, {"core": 50})
