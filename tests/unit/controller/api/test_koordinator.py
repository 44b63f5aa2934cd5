"""Koordinator's DeviceShare summaries, held against its documentation."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.koordinator import node_device_summary
from driver.api.rootport_v1alpha1 import Device, DeviceStatus
from tests.support.shown_nodes import gpu, nic, status

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
            nic("n"),
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
        nic("n"), capacity={"vfs": 8}, allocated={"vfs": 2}, allocations=[allocation("rdma-0-vfs", pods=[_POD])]
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
        pytest.param(held(nic("n", leftOut="by VFs"), allocatable={"bandwidth": "0", "vfs": 8}), id="by-vfs"),
    ],
)
def test_what_is_given_in_parts_alone_has_resources(device: Device) -> None:
    summary = node_device_summary([device], state="Ready", domain="koordinator.sh")
    assert "100" in summary["deviceFree"].values()
