"""Koordinator's DeviceShare summaries, held against its documentation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from driver.api.rootport_v1alpha1 import Device, DevicePod, DeviceStatus
from driver.model.devices import DeviceName
from driver.model.inventory import Inventory
from driver.objects.claims import ClaimAllocation
from driver.objects.device_statuses import AllocationUsers, device_statuses
from driver.objects.devices import device_objects
from driver.status.device_share import TODAY, node_device_summary
from tests.support import shown_nodes
from tests.support.machines import nic, node
from tests.support.shown_nodes import gpu, status

_POD = {"name": "gpu-pod7", "uid": "p"}


def held(device: Device, **fields: Any) -> Device:
    return device.model_copy(update={"status": status(**fields)})


def allocation(device: str, **fields: Any) -> dict[str, Any]:
    return {
        "namespace": "xlf",
        "claim": "c",
        "uid": "u",
        "request": "gpu",
        "device": device,
        "shareID": "",
        "pods": [_POD],
        **fields,
    }


def test_a_whole_gpu_is_shown_as_in_koordinators_documentation() -> None:
    device = held(
        gpu("host04", memory="12508288Ki"),
        mode="whole",
        capacity={"core": 100, "memory": "12508288Ki"},
        allocated={"core": 100, "memory": "12508288Ki"},
        allocations=[allocation("gpu-0", core=100, memory="12508288Ki")],
    )
    all_of_it = {
        "kubernetes.io/gpu-core": "100",
        "kubernetes.io/gpu-memory": "12508288Ki",
        "kubernetes.io/gpu-memory-ratio": "100",
    }
    nothing = dict.fromkeys(all_of_it, "0")
    # design document of Koordinator's fine-grained device scheduling, "device resource debug api"
    assert node_device_summary([device], state="Ready", domain="kubernetes.io") == {
        "allocateSet": {"gpu": {"xlf/gpu-pod7": {"0": all_of_it}}},
        "deviceFree": nothing,
        "deviceFreeDetail": {"gpu": {"0": nothing}},
        "deviceTotal": all_of_it,
        "deviceTotalDetail": {"gpu": {"0": all_of_it}},
        "deviceUsed": all_of_it,
        "deviceUsedDetail": {"gpu": {"0": all_of_it}},
    }


def test_sums_are_over_the_devices_and_types_of_a_node() -> None:
    capacity = {"core": 100, "memory": "80Gi"}
    devices = [
        held(
            gpu("n"),
            capacity=capacity,
            allocated={"core": 49, "memory": "20Gi"},
            allocations=[allocation("gpu-0", core=49, memory="20Gi")],
        ),
        held(gpu("n", 1), capacity=capacity),
        held(
            shown_nodes.nic("n"),
            capacity={"bandwidth": "400G"},
            allocated={"bandwidth": "100G"},
            allocations=[allocation("rdma-0", bandwidth="100G")],
        ),
    ]
    summary = node_device_summary(devices, state="Ready", domain="koordinator.sh")
    assert summary["deviceTotal"] == {
        "koordinator.sh/gpu-core": "200",
        "koordinator.sh/gpu-memory": "160Gi",
        "koordinator.sh/gpu-memory-ratio": "200",
        "koordinator.sh/rdma": "100",
    }
    assert summary["deviceFree"] == {
        "koordinator.sh/gpu-core": "151",
        "koordinator.sh/gpu-memory": "140Gi",
        "koordinator.sh/gpu-memory-ratio": "175",
        "koordinator.sh/rdma": "75",
    }
    assert summary["deviceUsedDetail"]["gpu"]["0"]["koordinator.sh/gpu-memory-ratio"] == "25"
    assert summary["allocateSet"]["rdma"] == {"xlf/gpu-pod7": {"0": {"koordinator.sh/rdma": "25"}}}


@pytest.mark.parametrize(
    ("device", "node"),
    [
        (held(gpu("n"), state="Unhealthy"), {"state": "Ready"}),
        (held(gpu("n", leftOut="no UUID")), {"state": "Ready"}),
        (held(gpu("n")), {"state": "Silent"}),
        (held(gpu("n")), {"state": "NotReady", "cannot_prepare": True}),
    ],
    ids=["unhealthy", "left-out", "silent", "prepares-nothing"],
)
def test_what_cannot_be_given_has_no_resources(device: Device, node: Any) -> None:
    summary = node_device_summary([device], domain="koordinator.sh", **node)
    assert (summary["deviceTotalDetail"], summary["deviceTotal"]) == ({"gpu": {"0": {}}}, {})
    assert (summary["deviceFreeDetail"], summary["deviceFree"]) == ({"gpu": {"0": {}}}, {})


def test_a_gpu_without_a_status_and_one_without_memory_are_shown_all_the_same() -> None:
    bare = gpu("n", memory=None)
    summary = node_device_summary([bare], state="Ready", domain="koordinator.sh")
    assert summary["deviceTotal"] == {"koordinator.sh/gpu-core": "100"}


def test_shares_of_one_pod_add_up_and_a_claim_without_a_pod_is_in_what_is_used_alone() -> None:
    shares = [
        allocation("gpu-0", core=10, memory="8Gi", shareID="a"),
        allocation("gpu-0", core=10, memory="8Gi", shareID="b"),
        allocation("gpu-0", core=10, memory="8Gi", shareID="c", uid="v", pods=[]),
    ]
    capacity = {"core": 100, "memory": "80Gi"}
    device = held(gpu("n"), capacity=capacity, allocated={"core": 30, "memory": "24Gi"}, allocations=shares)
    summary = node_device_summary([device], state="Ready", domain="koordinator.sh")
    assert summary["deviceUsed"]["koordinator.sh/gpu-core"] == "30"
    assert summary["allocateSet"]["gpu"] == {
        "xlf/gpu-pod7": {
            "0": {
                "koordinator.sh/gpu-core": "20",
                "koordinator.sh/gpu-memory": "16Gi",
                "koordinator.sh/gpu-memory-ratio": "20",
            }
        }
    }


def test_virtual_functions_are_parts_of_their_nic() -> None:
    vf = Device.model_validate(
        {
            "metadata": {"name": "n.vf-0"},
            "spec": {
                "nodeName": "n",
                "deviceName": "vf-0",
                "type": "rdma-vf",
                "index": 0,
                "pciBusID": "0000:40:00.1",
                "parent": "rdma-0",
            },
        }
    )
    pool = held(
        shown_nodes.nic("n"),
        capacity={"vfs": 8},
        allocated={"vfs": 2},
        allocations=[allocation("rdma-0-vfs", pods=[_POD])],
    )
    summary = node_device_summary(
        [pool, vf.model_copy(update={"status": DeviceStatus(state="Healthy")})], state="Ready", domain="koordinator.sh"
    )
    assert summary["deviceUsedDetail"] == {"rdma": {"0": {"koordinator.sh/rdma": "25"}}}
    assert summary["allocateSet"]["rdma"]["xlf/gpu-pod7"] == {"0": {"koordinator.sh/rdma": "13"}}


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(
            held(gpu("n", leftOut="by percent alone"), allocatable={"core": 100}), id="by-percent-or-partition"
        ),
        pytest.param(
            held(shown_nodes.nic("n", leftOut="by VFs"), allocatable={"bandwidth": "0", "vfs": 8}), id="by-vfs"
        ),
    ],
)
def test_what_is_given_in_parts_alone_has_resources(device: Device) -> None:
    summary = node_device_summary([device], state="Ready", domain="koordinator.sh")
    assert "100" in summary["deviceFree"].values()


# Nodes as they are, and not as their Device objects are written above.

NIC = "rdma-0000-40-00-0"
POOL = "rdma-vfs-0000-40-00-0"


def given(device: str, at: int, **fields: Any) -> ClaimAllocation:
    """A claim's only result, and a pod with the claim's name has it."""
    known: dict[str, Any] = {"core": None, "memory_bytes": None, "memory_ratio": None, "isolation": None}
    of = {"namespace": "team", "claim": f"c{at}", "uid": f"u{at:03}", "request": "r", "pool": "node-a"}
    return ClaimAllocation(**(known | of | {"device": device, "share_id": f"s{at:03}"} | fields))


def vf(at: int) -> str:
    return f"rdma-vf-0000-40-{1 + at // 8:02x}-{at % 8}"


def summary_of(inventory: Inventory, *allocations: ClaimAllocation) -> dict[str, Any]:
    statuses = device_statuses(
        inventory, allocations, users=lambda item: AllocationUsers(pods=[DevicePod(name=item.claim, uid=item.uid)])
    )
    objects = device_objects(inventory)
    devices = [made.model_copy(update={"status": statuses[DeviceName(made.spec.device_name)]}) for made in objects]
    return node_device_summary(devices, state="Ready", domain=TODAY)


def amounts(summary: dict[str, Any]) -> tuple[int, int, int, list[int]]:
    """Total, used and free of the node's NICs, and what each pod has."""
    name = f"{TODAY}/rdma"
    of_pods = [
        sum(int(resources[name]) for resources in cards.values())
        for cards in summary["allocateSet"].get("rdma", {}).values()
    ]
    return (
        int(summary["deviceTotal"][name]),
        int(summary["deviceUsed"][name]),
        int(summary["deviceFree"][name]),
        of_pods,
    )


@pytest.mark.parametrize("vfs", [1, 2, 3, 7, 8, 16, 100, 127])
@pytest.mark.parametrize("pooled", [True, False], ids=["pool", "named"])
def test_the_virtual_functions_of_a_nic_add_up(vfs: int, pooled: bool) -> None:
    inventory = node(nic("40", vfs=vfs))
    for count in {0, 1, vfs // 2, vfs}:
        held = [given(POOL if pooled else vf(at), at) for at in range(count)]
        total, used, free, of_pods = amounts(summary_of(inventory, *held))
        assert (total, used + free, sum(of_pods)) == (100, 100, used)
        assert used == -(-100 * count // vfs)  # nothing in use is shown as free
        assert len(of_pods) == count
        assert max(of_pods, default=0) - min(of_pods, default=0) <= 1


def test_a_virtual_function_of_a_pool_counts_once_whether_the_node_has_chosen_it_or_not() -> None:
    inventory = node(nic("40", vfs=4))
    before = summary_of(inventory, given(POOL, 0))
    assert summary_of(inventory, given(POOL, 0, vf=vf(2))) == before
    assert amounts(before) == (100, 25, 75, [25])


def test_virtual_functions_without_device_nodes_are_no_part_of_a_nic() -> None:
    whole = nic("40", vfs=4)
    bound_to_vfio = replace(whole.vfs[3], verbs_minor=None)
    inventory = node(replace(whole, vfs=(*whole.vfs[:3], bound_to_vfio)))
    assert amounts(summary_of(inventory, *(given(POOL, at) for at in range(3)))) == (100, 100, 0, [34, 33, 33])


@pytest.mark.parametrize("bandwidths", [[100, 100, 100, 100], [133, 133, 134], [1, 2, 3], [399, 1], [400]], ids=str)
def test_shares_of_a_nic_add_up(bandwidths: list[int]) -> None:
    held = [given(NIC, at, bandwidth=amount * 10**9) for at, amount in enumerate(bandwidths)]
    total, used, free, of_pods = amounts(summary_of(node(nic("40")), *held))
    assert (total, used + free, sum(of_pods)) == (100, 100, used)
    assert used == -(-100 * sum(bandwidths) // 400)


def test_a_nic_that_is_given_whole_is_used_whole() -> None:
    assert amounts(summary_of(node(nic("40"), nic("41", vfs=8)), given(NIC, 0))) == (200, 100, 100, [100])


def test_a_node_sums_over_nics_of_each_kind() -> None:
    inventory = node(nic("40", vfs=8), nic("41"), nic("42"))
    held = [given(POOL, 0), given("rdma-0000-41-00-0", 1, bandwidth=100 * 10**9), given("rdma-0000-42-00-0", 2)]
    assert amounts(summary_of(inventory, *held)) == (300, 13 + 25 + 100, 300 - 138, [13, 25, 100])
