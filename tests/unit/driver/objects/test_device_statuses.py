"""What a Device's status says of the claims that have the device, or a part of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from driver.api.rootport_v1alpha1 import MAX_ALLOCATIONS, DeviceStatus
from driver.model.devices import DeviceName, Gpu, MigPlacement, MigProfile, MigSupport, RdmaPort, RdmaVf
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from driver.objects.claims import ClaimAllocation, claim_allocations
from driver.objects.device_statuses import device_statuses
from tests.support.machines import gpu, nic, node

GIB = 1 << 30
GPU = DeviceName("gpu-0000-10-00-0")
PROFILE = MigProfile(
    name="1g.10gb",
    profile_id=19,
    compute_slices=1,
    memory_bytes=10 * GIB,
    max_instances=7,
    placements=(MigPlacement(start=0, size=1), MigPlacement(start=1, size=1)),
)


def card(address: str = "10", *, memory: int | None = 80 * GIB) -> Gpu:
    mig = MigSupport(enabled=False, profiles=(PROFILE,))
    return replace(gpu(address), memory_bytes=memory, cuda_compute_capability="9.0", mig=mig)


def claim(
    *results: dict[str, Any], name: str = "c", uid: str = "u", devices: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "rootport.dev"} | item for item in results]}}
    status = {"allocation": allocation} | ({"devices": devices} if devices is not None else {})
    return {"metadata": {"namespace": "team", "name": name, "uid": uid, "resourceVersion": "1"}, "status": status}


def result(device: str = GPU, share: str = "", **consumed: str) -> dict[str, Any]:
    made: dict[str, Any] = {"pool": "node-a", "device": device}
    return made | ({"shareID": share} if share else {}) | ({"consumedCapacity": consumed} if consumed else {})


def status(*claims: dict[str, Any], inventory: Inventory | None = None, device: str = GPU) -> DeviceStatus:
    given = [item for one in claims for item in claim_allocations(one)]
    return device_statuses(inventory or node(card()), given)[DeviceName(device)]


def usage(found: DeviceStatus) -> dict[str, Any]:
    """What a status says of claims."""
    wire = found.to_wire()
    return {key: wire[key] for key in ("mode", "allocated", "allocations") if key in wire}


def test_a_free_gpu_that_nobody_watches() -> None:
    wire = status().to_wire()
    (condition,) = wire.pop("conditions")
    assert (condition["type"], condition["status"], condition["reason"]) == ("Healthy", "Unknown", "NotWatched")
    everything = {"core": 100, "memory": "81920Mi"}
    assert wire == {
        "state": "Unknown",
        "capacity": everything,
        "allocatable": everything,
        "largestFree": everything | {"profile": "1g.10gb"},
    }


def test_a_whole_gpu_names_its_claim() -> None:
    found = status(claim(result(share="s", core="100", memory="80Gi")))
    assert found.largest_free is None
    assert usage(found) == {
        "mode": "whole",
        "allocated": {"core": 100, "memory": "81920Mi"},
        "allocations": [
            {
                "namespace": "team",
                "claim": "c",
                "uid": "u",
                "request": "gpu",
                "device": GPU,
                "shareID": "s",
                "core": 100,
                "memory": "81920Mi",
            }
        ],
    }


def test_what_consumes_nothing_takes_all() -> None:
    found = status(claim(result()))
    assert found.mode == "whole"
    assert found.to_wire()["allocated"] == {"core": 100, "memory": "81920Mi"}
    assert found.allocations[0].share_id == ""


def test_shares_add_up() -> None:
    one = claim(result(share="s1", core="30", memory="20Gi"), name="a", uid="u1")
    two = claim(result(share="s2", **{"rootport.dev/core": "50", "rootport.dev/memory": "512Mi"}), name="b", uid="u2")
    found = status(two, one)
    assert found.mode == "shared"
    assert found.to_wire()["allocated"] == {"core": 80, "memory": "20992Mi"}
    assert [item.claim for item in found.allocations] == ["a", "b"]


def test_two_shares_of_one_request_are_two() -> None:
    shares = [result(share=share, core="10", memory="1Gi") for share in ("s1", "s2")]
    found = status(claim(*shares))
    assert [item.share_id for item in found.allocations] == ["s1", "s2"]
    assert found.allocated is not None
    assert found.allocated.core == 20


def test_percents_of_memory_are_shown_as_bytes_at_the_gpu() -> None:
    ratio = result("gpu-ratio-0000-10-00-0", "s", core="25", memoryRatio="33")
    found = status(claim(ratio))
    assert found.mode == "ratio"
    assert found.allocations[0].device == "gpu-ratio-0000-10-00-0"
    memory = found.allocations[0].memory
    assert memory is not None
    assert str(memory) == f"{-(-80 * 1024 * 33 // 100)}Mi"  # whole mebibytes, rounded up


def test_partitions_are_shown_at_the_gpu() -> None:
    parts = [claim(result(f"mig-0000-10-00-0-1g-10gb-{start}"), uid=f"u{start}") for start in (0, 1)]
    found = status(*parts)
    assert found.mode == "mig"
    assert found.to_wire()["allocated"] == {"core": 100 * 2 // 7, "memory": "20480Mi"}
    assert [item.device for item in found.allocations] == [f"mig-0000-10-00-0-1g-10gb-{start}" for start in (0, 1)]
    assert found.allocations[0].core is None


def test_a_nic_that_is_given_whole_is_all_given() -> None:
    inventory = node(card(), nic("20"))
    found = status(claim(result("rdma-0000-20-00-0")), inventory=inventory, device="rdma-0000-20-00-0")
    assert (found.mode, len(found.allocations)) == ("whole", 1)
    assert found.to_wire()["allocated"] == {"bandwidth": "400G"}
    assert status(claim(result("rdma-0000-20-00-0")), inventory=inventory).mode is None


def test_memory_that_nobody_knows_is_not_told() -> None:
    inventory = node(replace(gpu("10"), memory_bytes=None))
    found = status(claim(result(share="s", core="50")), inventory=inventory)
    assert found.to_wire()["allocated"] == {"core": 50}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"driver": "example.com"}, id="another driver's device"),
        pytest.param({"pool": "node-b"}, id="another node's device"),
        pytest.param({"device": "gpu-0000-99-00-0"}, id="a device that is gone"),
        pytest.param({"adminAccess": True}, id="admin access"),
    ],
)
def test_what_is_no_use_of_this_nodes_devices_is_not_shown(other: dict[str, Any]) -> None:
    assert usage(status(claim(result() | other))) == {}


def prepared(share: str = "s", **isolation: object) -> dict[str, Any]:
    data = {
        "apiVersion": "rootport.dev/v1alpha1",
        "kind": "PreparedDevice",
        "gpu": GPU,
        "mode": "shared",
        "isolation": {"state": "enforced", "by": "MPS", "version": "580.1"} | isolation,
        "ofALaterVersion": True,
    }
    return {"driver": "rootport.dev", "pool": "node-a", "device": GPU, "shareID": share, "data": data}


def test_isolation_is_what_the_plugin_says_of_that_share() -> None:
    shares = [result(share=share, core="10", memory="1Gi") for share in ("s1", "s2", "s3")]
    said = [prepared("s1"), prepared("s2", state="advisory", by="time-slicing", version=None)]
    found = status(claim(*shares, devices=said))
    assert [item.isolation.to_wire() if item.isolation else None for item in found.allocations] == [
        {"state": "enforced", "by": "MPS", "version": "580.1"},
        {"state": "advisory", "by": "time-slicing"},
        None,
    ]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"kind": "Other"},
        prepared(state="perhaps")["data"],
        prepared(by="a\nb")["data"],
        prepared(by=7)["data"],
        prepared(version="x" * 200)["data"],
    ],
    ids=["none", "empty", "another kind", "another state", "two lines", "no text", "too long"],
)
def test_what_is_no_plugins_word_is_not_repeated(data: object) -> None:
    entry = prepared() | {"data": data}
    found = status(claim(result(share="s", core="10", memory="1Gi"), devices=[entry]))
    assert found.allocations[0].isolation is None


def test_a_claim_that_is_not_allocated_has_nothing() -> None:
    assert claim_allocations({"metadata": {"name": "c", "namespace": "n", "uid": "u"}}) == ()
    assert claim_allocations({"metadata": {"name": "c", "namespace": "n", "uid": "u"}, "status": {}}) == ()


def test_equal_isolation_is_one_object_in_memory() -> None:
    made: list[ClaimAllocation] = []
    for uid in ("u1", "u2"):
        made += claim_allocations(claim(result(share="s", core="10"), uid=uid, devices=[prepared()]))
    assert made[0].isolation is made[1].isolation


def test_more_allocations_than_the_object_holds_are_cut_but_counted() -> None:
    claims = [claim(result(share=f"s{at:03}", core="0", memory="1"), uid=f"u{at:03}") for at in range(300)]
    found = status(*claims)
    assert len(found.allocations) == MAX_ALLOCATIONS
    assert found.allocated is not None
    assert found.to_wire()["allocated"]["memory"] == "1Mi"


@pytest.mark.parametrize(
    ("bandwidths", "mode"),
    [(["400G"], "whole"), (["100G"], "shared"), (["100G", "300G"], "shared")],
    ids=["all of it", "a part", "two parts"],
)
def test_a_nic_is_shared_where_a_claim_has_a_part_of_its_bandwidth(bandwidths: list[str], mode: str) -> None:
    inventory = node(replace(nic("20"), ports=(RdmaPort(speed_gbps=400),)))
    device = "rdma-0000-20-00-0"
    given = [result(device, f"s{at}", bandwidth=value) for at, value in enumerate(bandwidths)]
    found = status(*(claim(item, uid=item["shareID"]) for item in given), inventory=inventory, device=device)
    assert (found.mode, len(found.allocations)) == (mode, len(bandwidths))


def test_a_pools_nic_and_the_virtual_function_that_was_given_name_the_claim() -> None:
    vfs = tuple(
        RdmaVf(
            address=PciAddress(f"0000:41:00.{index + 1}"),
            pcie=PciePath(),
            index=index,
            parent=PciAddress("0000:41:00.0"),
            verbs_minor=index,
        )
        for index in range(2)
    )
    inventory = node(replace(nic("41"), vfs=vfs))
    pool, first, second = "rdma-vfs-0000-41-00-0", "rdma-vf-0000-41-00-1", "rdma-vf-0000-41-00-2"
    data = {"apiVersion": "rootport.dev/v1alpha1", "kind": "PreparedDevice", "nic": "rdma-0000-41-00-0", "vf": second}
    entry = {"driver": "rootport.dev", "pool": "node-a", "device": pool, "shareID": "s", "data": data}
    one = claim(result(pool, "s", vfs="1"), devices=[entry])
    for device, mode in (("rdma-0000-41-00-0", "shared"), (second, "whole")):
        found = status(one, inventory=inventory, device=device)
        assert (found.mode, [item.claim for item in found.allocations]) == (mode, ["c"])
        assert found.allocations[0].device == pool
    assert status(one, inventory=inventory, device=first).allocations == ()
    before = claim(result(pool, "s", vfs="1"))
    assert status(before, inventory=inventory, device=second).allocations == ()
