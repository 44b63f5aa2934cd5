"""Koordinator's pod annotation, held against its documentation and its types."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from driver.model.devices import MigPlacement, MigProfile, MigSupport
from driver.model.parts import MigPartition, gpu_parts
from driver.objects.claims import ClaimAllocation
from driver.status.device_allocated import device_allocated
from tests.support.machines import fpga, gpu, nic, node

GIB = 1 << 30
FIRST = "kubernetes.io"


def given(device: str, share: str = "", *, claim: str = "c", **fields: Any) -> ClaimAllocation:
    known: dict[str, Any] = {"core": None, "memory_bytes": None, "memory_ratio": None, "isolation": None}
    of = {"namespace": "team", "claim": claim, "uid": claim, "request": "r", "pool": "node-a"}
    return ClaimAllocation(**(known | of | {"device": device, "share_id": share} | fields))


def test_a_whole_gpu_is_written_as_in_koordinators_documentation() -> None:
    inventory = node(gpu("10", minor=0, uuid="GPU-1", memory_bytes=12215 << 20))
    # docs "Device Scheduling - GPU/RDMA", the pod of the quick start, letter by letter (there 12508288Ki).
    assert device_allocated(inventory, [given("gpu-0000-10-00-0")], domain=FIRST) == (
        '{"gpu":[{"minor":0,"resources":{"kubernetes.io/gpu-core":"100","kubernetes.io/gpu-memory":"12215Mi",'
        '"kubernetes.io/gpu-memory-ratio":"100"}}]}'
    )


def test_todays_form_names_each_device() -> None:
    inventory = node(
        gpu("10", minor=3, uuid="GPU-1", memory_bytes=80 * GIB),
        nic("20", index=1),
        fpga("30", index=0),
    )
    devices = ("gpu-0000-10-00-0", "rdma-0000-20-00-0", "fpga-0000-30-00-0")
    # apis/extension/device_share.go: the order of the fields of DeviceAllocation; a Go map's keys are sorted.
    assert device_allocated(inventory, [given(device) for device in devices]) == (
        '{"fpga":[{"minor":0,"resources":{"koordinator.sh/fpga":"100"},"id":"0000:30:00.0"}],'
        '"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"80Gi",'
        '"koordinator.sh/gpu-memory-ratio":"100"},"id":"GPU-1"}],'
        '"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"100"},"id":"0000:20:00.0"}]}'
    )


def entries(kind: str, *allocations: ClaimAllocation, inventory: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(device_allocated(inventory, allocations))[kind]
    return found


def test_shares_of_a_gpu_that_a_pods_containers_have_are_one_entry() -> None:
    inventory = node(gpu("10", minor=0, memory_bytes=80 * GIB))
    shares = [given("gpu-0000-10-00-0", f"s{at}", claim=f"c{at}", core=20, memory_bytes=8 * GIB) for at in range(2)]
    assert entries("gpu", *shares, inventory=inventory) == [
        {
            "minor": 0,
            "resources": {
                "koordinator.sh/gpu-core": "40",
                "koordinator.sh/gpu-memory": "16Gi",
                "koordinator.sh/gpu-memory-ratio": "20",
            },
        }
    ]


def test_shares_by_percent_and_partitions_are_entries_of_their_gpu() -> None:
    profile = MigProfile(
        name="1g.10gb",
        profile_id=19,
        compute_slices=1,
        memory_bytes=10 * GIB,
        max_instances=7,
        placements=(MigPlacement(start=0, size=1),),
    )
    first = gpu("10", minor=0, memory_bytes=80 * GIB)
    second = gpu("11", minor=1, memory_bytes=80 * GIB, mig=MigSupport(enabled=True, profiles=(profile,)))
    given_of = [
        given("gpu-ratio-0000-10-00-0", "s", core=30, memory_ratio=50),
        given(next(part.name for part in gpu_parts(second) if isinstance(part, MigPartition))),
    ]
    inventory = node(first, second)
    ratio, partition = entries("gpu", *given_of, inventory=inventory)
    assert ratio["resources"] == {
        "koordinator.sh/gpu-core": "30",
        "koordinator.sh/gpu-memory": "40Gi",
        "koordinator.sh/gpu-memory-ratio": "50",
    }
    assert partition["resources"] == {"koordinator.sh/gpu-memory": "10Gi", "koordinator.sh/gpu-memory-ratio": "13"}


def test_a_nics_virtual_functions_are_its_extension_with_their_numbers_and_addresses() -> None:
    inventory = node(nic("20", index=0, vfs=8))
    held = [given("rdma-vf-0000-20-01-0"), given("rdma-vf-0000-20-01-3", claim="d")]
    (entry,) = entries("rdma", *held, inventory=inventory)
    assert entry == {
        "minor": 0,
        "resources": {"koordinator.sh/rdma": "25"},
        "id": "0000:20:00.0",
        # VirtualFunction.Minor is left out where it is 0.
        "extension": {"vfs": [{"busID": "0000:20:01.0"}, {"minor": 3, "busID": "0000:20:01.3"}]},
    }


def test_a_virtual_function_of_a_pool_is_named_once_the_node_has_chosen_it() -> None:
    inventory = node(nic("20", index=0, vfs=8))
    (entry,) = entries("rdma", given("rdma-vfs-0000-20-00-0", "s"), inventory=inventory)
    assert (entry["resources"], "extension" in entry) == ({"koordinator.sh/rdma": "13"}, False)
    chosen = given("rdma-vfs-0000-20-00-0", "s", vf="rdma-vf-0000-20-01-2")
    (entry,) = entries("rdma", chosen, inventory=inventory)
    assert entry["extension"] == {"vfs": [{"minor": 2, "busID": "0000:20:01.2"}]}


def test_a_share_of_a_nic_is_rounded_up() -> None:
    inventory = node(nic("20", index=0))
    (entry,) = entries("rdma", given("rdma-0000-20-00-0", "s", bandwidth=133 * 10**9), inventory=inventory)
    assert entry["resources"] == {"koordinator.sh/rdma": "34"}


@pytest.mark.parametrize("other", [{"pool": "node-b"}, {"device": "gpu-0000-99-00-0"}], ids=["elsewhere", "gone"])
def test_a_pod_without_devices_of_the_node_has_none(other: dict[str, str]) -> None:
    assert device_allocated(node(gpu("10")), [replace(given("gpu-0000-10-00-0"), **other)]) == ""


def test_the_largest_node_has_an_annotation_that_a_pod_can_have() -> None:
    """All annotations of an object together have 256 KiB at most (k8s.io/apimachinery, TotalAnnotationSizeLimitB)."""
    cards = [gpu(f"{at:02x}", minor=at, uuid="x" * 128, memory_bytes=81559 << 20) for at in range(64)]
    nics = [nic(f"{0x40 + at:02x}", index=at, vfs=30) for at in range(128)]
    inventory = node(*cards, *nics)
    held = [given(card.name) for card in cards] + [given(vf.name) for one in nics for vf in one.vfs]
    assert len(held) == 64 + 3840
    assert len(device_allocated(inventory, held)) < 256 * 1024
