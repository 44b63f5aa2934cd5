"""What the state knows after objects have come and gone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from driver.allocator.identity import DeviceId
from driver.allocator.pools import PoolState
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.unit.driver.explain.builders import (
    DRIVER,
    allocated,
    claim_wire,
    class_wire,
    cluster,
    device_wire,
    exactly,
    node_wire,
    pod_wire,
    slice_wire,
    taint_rule_wire,
)

Json = dict[str, Any]
GPU = DeviceId(DRIVER, "n1", "gpu-0")


def a_node() -> list[Json]:
    return [node_wire("n1"), slice_wire("n1", device_wire("gpu-0", type="gpu"), device_wire("gpu-1", type="gpu"))]


def devices_of(state: ClusterState, node: str) -> list[str]:
    return [device.id.device for device in state.index.view(state.nodes[node].node).devices]


def test_a_node_sees_the_devices_of_its_slices() -> None:
    state = cluster(*a_node(), node_wire("n2"))

    assert devices_of(state, "n1") == ["gpu-0", "gpu-1"]
    assert devices_of(state, "n2") == []


def test_an_allocated_claim_is_told_as_the_holder_of_its_devices_and_as_in_use() -> None:
    state = cluster(*a_node(), claim_wire("train", allocation=allocated("n1", "gpu-0")))

    assert [claim.key for claim in state.holders(GPU)] == ["ml/train"]
    assert state.ledger.is_whole(GPU)
    assert [claim.key for claim in state.held_on("n1")] == ["ml/train"]
    assert state.pending() == ()


def test_what_a_claim_held_is_free_after_it_has_gone() -> None:
    state = cluster(*a_node(), claim_wire("train", allocation=allocated("n1", "gpu-0")))

    state.remove(Kind.CLAIM, "ml/train")

    assert state.holders(GPU) == ()
    assert not state.ledger.is_whole(GPU)
    assert state.held_on("n1") == ()


def test_a_claim_that_is_allocated_anew_elsewhere_holds_the_new_devices_alone() -> None:
    state = cluster(*a_node(), claim_wire("train", allocation=allocated("n1", "gpu-0")))

    state.put(Kind.CLAIM, claim_wire("train", allocation=allocated("n1", "gpu-1")))

    assert not state.ledger.is_whole(GPU)
    assert state.ledger.is_whole(DeviceId(DRIVER, "n1", "gpu-1"))
    assert [claim.key for claim in state.held_on("n1")] == ["ml/train"]


def test_shares_of_two_claims_are_both_told_and_their_capacity_is_counted() -> None:
    shares = [
        claim_wire(name, allocation=allocated("n1", "gpu-0", shareID=name, consumedCapacity={"memory": "10Gi"}))
        for name in ("a", "b")
    ]
    state = cluster(*a_node(), *shares)

    assert [claim.key for claim in state.holders(GPU)] == ["ml/a", "ml/b"]
    assert state.ledger.consumed(GPU)["memory"] == 20 * 2**30 * 10**9


def test_admin_access_holds_nothing() -> None:
    state = cluster(*a_node(), claim_wire("watch", allocation=allocated("n1", "gpu-0", adminAccess=True)))

    assert state.holders(GPU) == ()
    assert not state.ledger.is_whole(GPU)


def test_claims_that_hold_devices_of_a_node_whose_slices_have_gone_are_still_held_there() -> None:
    state = cluster(*a_node(), claim_wire("train", allocation=allocated("n1", "gpu-0")))

    state.remove(Kind.SLICE, "n1-rootport.dev")

    assert [claim.key for claim in state.held_on("n1")] == ["ml/train"]


def test_claims_of_pools_that_several_nodes_reach_are_held_on_no_single_node() -> None:
    shared = slice_wire("net", device_wire("nic-0"), allNodes=True, nodeName=None)
    state = cluster(node_wire("n1"), shared, claim_wire("train", allocation=allocated("net", "nic-0")))

    assert state.held_on("n1") == ()
    assert state.held_on("net") == ()


@pytest.mark.parametrize("spare", ["gpu-0", "gpu-1"])
def test_a_claim_that_has_a_device_more_than_once_holds_it_once(spare: str) -> None:
    state = cluster(*a_node(), claim_wire("odd", allocation=allocated("n1", spare, spare)))

    assert [claim.key for claim in state.holders(DeviceId(DRIVER, "n1", spare))] == ["ml/odd"]
    state.remove(Kind.CLAIM, "ml/odd")
    assert state.held_on("n1") == ()


def test_claims_without_an_allocation_are_pending() -> None:
    wanting = claim_wire("b", exactly("gpu", "gpu"))
    state = cluster(wanting, claim_wire("a", exactly("gpu", "gpu")), claim_wire("c", allocation=allocated("n", "d")))

    assert state.pending() == ("ml/a", "ml/b")
    state.put(Kind.CLAIM, wanting | {"status": {"allocation": allocated("n", "d")}})
    assert state.pending() == ("ml/a",)


def test_the_pods_of_a_claim_are_those_that_name_or_own_it_unplaced_first_and_ended_last() -> None:
    claim = claim_wire("c")
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": "uid-of-owner", "controller": True}
    ]
    state = cluster(
        claim,
        pod_wire("ended", "c", node="n1", phase="Succeeded"),
        pod_wire("placed", "c", node="n1", phase="Running"),
        pod_wire("waiting", "c"),
        pod_wire("owner"),
        pod_wire("other", "d"),
        pod_wire("waiting", "c", namespace="other"),
    )

    assert [pod.name for pod in state.pods_of("ml/c")] == ["owner", "waiting", "placed", "ended"]


def test_a_pod_that_was_made_again_does_not_own_the_former_ones_claim() -> None:
    claim = claim_wire("c")
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-of-a-former-one", "controller": True}
    ]

    assert cluster(claim, pod_wire("p")).pods_of("ml/c") == ()


def test_a_pod_that_has_gone_is_told_no_more() -> None:
    state = cluster(claim_wire("c"), pod_wire("p", "c"))

    state.remove(Kind.POD, "ml/p")

    assert state.pods_of("ml/c") == ()


# Versions


def test_only_the_touched_nodes_version_grows_when_a_claim_is_allocated() -> None:
    state = cluster(*a_node(), node_wire("n2"), slice_wire("n2", device_wire("gpu-0")))
    before = state.version("n1"), state.version("n2")

    state.put(Kind.CLAIM, claim_wire("train", allocation=allocated("n1", "gpu-0")))

    assert state.version("n1") > before[0]
    assert state.version("n2") == before[1]


def test_every_nodes_version_grows_when_something_of_a_shared_pool_is_held() -> None:
    state = cluster(*a_node(), slice_wire("net", device_wire("nic-0"), allNodes=True, nodeName=None))
    before = state.version("n1")

    state.put(Kind.CLAIM, claim_wire("train", allocation=allocated("net", "nic-0")))

    assert state.version("n1") > before


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        pytest.param(Kind.SLICE, slice_wire("n1", device_wire("gpu-0")), id="a slice of it"),
        pytest.param(Kind.TAINT_RULE, taint_rule_wire("r", pool="n1"), id="a rule for its pool"),
        pytest.param(
            Kind.INVENTORY,
            {
                "kind": "NodeInventory",
                "metadata": {"name": "n1"},
                "status": {"conditions": [{"type": "Ready", "status": "False"}]},
            },
            id="its inventory",
        ),
    ],
)
def test_a_nodes_version_grows_with_a_change_of(kind: Kind, wire: Json) -> None:
    state = cluster(*a_node(), node_wire("n2"))
    before, other, generation = state.version("n1"), state.version("n2"), state.generation

    state.put(kind, wire)

    assert state.version("n1") > before
    assert state.version("n2") == other
    assert state.generation > generation


ALL = [
    *a_node(),
    class_wire("gpu", 'device.driver == "rootport.dev"'),
    claim_wire("c", exactly("gpu", "gpu")),
    claim_wire("held", allocation=allocated("n1", "gpu-0")),
    pod_wire("p", "c"),
    taint_rule_wire("r", pool="n1"),
    {"kind": "ResourceClaimTemplate", "metadata": {"namespace": "ml", "name": "t"}},
    {"kind": "NodeInventory", "metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready"}]}},
]
BY_KIND = [pytest.param(wire, id=f"{wire['kind']} {wire['metadata']['name']}") for wire in ALL]


@pytest.mark.parametrize("wire", BY_KIND)
def test_the_same_object_again_changes_nothing(wire: Json) -> None:
    stored = [item | {"metadata": item["metadata"] | {"resourceVersion": "7"}} for item in ALL]
    state = cluster(*stored)
    generation, version = state.generation, state.version("n1")

    state.put(Kind(wire["kind"]), copy.deepcopy(wire) | {"metadata": wire["metadata"] | {"resourceVersion": "7"}})

    assert (state.generation, state.version("n1")) == (generation, version)


@pytest.mark.parametrize("wire", BY_KIND)
def test_the_generation_grows_when_an_object_goes_and_not_when_it_goes_again(wire: Json) -> None:
    state = cluster(*ALL)
    generation = state.generation
    namespace = wire["metadata"].get("namespace")
    key = f"{namespace}/{wire['metadata']['name']}" if namespace else wire["metadata"]["name"]

    state.remove(Kind(wire["kind"]), key)
    assert state.generation > generation
    generation = state.generation
    state.remove(Kind(wire["kind"]), key)
    assert state.generation == generation


def test_a_nodes_heartbeat_and_a_claims_annotation_change_nothing() -> None:
    node, claim = node_wire("n1"), claim_wire("c", exactly("gpu", "gpu"))
    state = cluster(node, claim)
    generation, kept = state.generation, state.nodes["n1"]

    node["metadata"]["resourceVersion"] = "2"
    node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    state.put(Kind.NODE, node)
    claim["metadata"] |= {"resourceVersion": "2", "annotations": {"rootport.dev/pending-reason": "Fits"}}
    state.put(Kind.CLAIM, claim)

    assert state.generation == generation
    assert state.nodes["n1"] is kept


def test_the_allocators_node_stays_one_object_as_long_as_its_labels_do() -> None:
    state = cluster(node_wire("n1"))
    kept = state.nodes["n1"].node

    state.put(Kind.NODE, node_wire("n1", ready="Unknown"))
    assert state.nodes["n1"].not_ready
    assert state.nodes["n1"].node is kept

    state.put(Kind.NODE, node_wire("n1", labels={"zone": "b"}))
    assert state.nodes["n1"].node is not kept


# What cannot be read


def test_a_broken_slice_is_left_out_and_told_until_it_is_repaired() -> None:
    state = cluster(*a_node())

    state.put(Kind.SLICE, slice_wire("n1", {"attributes": {}}))
    assert devices_of(state, "n1") == []
    assert state.notes == ["ResourceSlice n1-rootport.dev is left out: the field 'name' is missing"]

    state.put(Kind.SLICE, slice_wire("n1", device_wire("gpu-9")))
    assert devices_of(state, "n1") == ["gpu-9"]
    assert state.notes == []


def test_notes_of_others_stay_and_those_of_many_broken_objects_are_cut() -> None:
    state = ClusterState()
    state.notes.append("DeviceTaintRules are not served")

    for number in range(9):
        state.put(Kind.CLASS, {"metadata": {"name": f"c{number}"}, "spec": {"selectors": "none"}})

    assert state.notes[0] == "DeviceTaintRules are not served"
    assert len(state.notes) == 7
    assert state.notes[-1] == "and 4 more objects are left out"


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(
    "wire",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None}, id="no metadata"),
        pytest.param({"metadata": []}, id="a list as metadata"),
        pytest.param({"metadata": {"name": 3}}, id="a number as name"),
        pytest.param({"metadata": {"name": "x"}}, id="a name alone"),
        pytest.param({"metadata": {"name": "x"}, "spec": 3, "status": 3}, id="numbers"),
        pytest.param({"metadata": {"name": "x"}, "spec": [], "status": []}, id="lists"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"pool": 1, "devices": [1], "claims": 2}}, id="odd fields"),
        pytest.param(
            {"metadata": {"name": "x", "labels": [1]}, "status": {"allocation": 1, "conditions": [1]}}, id="odd status"
        ),
    ],
)
def test_nothing_that_comes_in_raises(kind: Kind, wire: Json) -> None:
    state = cluster(*a_node())

    state.put(kind, wire)
    state.remove(kind, "x")

    assert devices_of(state, "n1") == ["gpu-0", "gpu-1"]


def test_a_claim_that_cannot_be_read_is_pending_and_says_why() -> None:
    state = cluster(claim_wire("new", exactly("gpu", "gpu", colour="red")))

    claim = state.claim("ml/new")
    assert claim is not None
    assert claim.claim is None
    assert "requests[0].exactly.colour" in claim.unreadable
    assert state.pending() == ("ml/new",)


# Taint rules, pools, inventories


def test_the_taint_of_a_rule_is_on_the_devices_in_the_index_and_told_as_the_rules() -> None:
    state = cluster(*a_node(), taint_rule_wire("maintenance", pool="n1", device="gpu-0"))
    first, second = state.index.view(state.nodes["n1"].node).devices

    (taint,) = first.device.taints
    assert taint.key == "repair"
    assert second.device.taints == ()
    assert state.taint_source(first.id, taint) == "DeviceTaintRule maintenance"

    state.remove(Kind.TAINT_RULE, "maintenance")
    assert not state.index.view(state.nodes["n1"].node).devices[0].device.taints


def test_a_slice_that_comes_after_the_rule_is_tainted_too() -> None:
    state = cluster(taint_rule_wire("all"), *a_node())

    assert all(device.device.taints for device in state.index.view(state.nodes["n1"].node).devices)


@pytest.mark.parametrize(
    ("key", "driver", "who"),
    [
        pytest.param("rootport.dev/unhealthy", "rootport.dev", "Rootport", id="ours"),
        pytest.param("rootport.dev/link-down", "rootport.dev", "Rootport", id="ours, a link"),
        pytest.param(
            "example.com/service", "rootport.dev", "an administrator, in its ResourceSlice", id="written into ours"
        ),
        pytest.param("gpu.example.com/broken", "gpu.example.com", "its driver", id="another driver's"),
        pytest.param("rootport.dev/unhealthy", "gpu.example.com", "its driver", id="another driver's with our key"),
    ],
)
def test_a_published_taint_is_told_as_of_whoever_wrote_it(key: str, driver: str, who: str) -> None:
    own = {"taints": [{"key": key, "effect": "NoExecute"}]}
    part = slice_wire("n1", device_wire("gpu-0", extra=own), driver=driver)
    state = cluster(node_wire("n1"), part, taint_rule_wire("all"))
    (device,) = state.index.view(state.nodes["n1"].node).devices

    assert [state.taint_source(device.id, taint) for taint in device.device.taints] == [who, "DeviceTaintRule all"]


def faulty(*faults: tuple[str, str]) -> dict[str, Any]:
    """The NodeInventory of n1 with faults by device and reason, whose messages name the device."""
    wire = [
        {
            "device": device,
            "reason": reason,
            "effect": "NoSchedule",
            "since": "2026-01-01T00:00:00Z",
            "message": f"{device} is broken",
        }
        for device, reason in faults
    ]
    return {"kind": "NodeInventory", "metadata": {"name": "n1"}, "status": {"faults": wire}}


@pytest.mark.parametrize(
    ("device", "reason", "faults", "found"),
    [
        pytest.param("gpu-0000-10-00-0", "Xid79", [("gpu-0000-10-00-0", "Xid79")], 0, id="itself"),
        pytest.param(
            "gpu-ratio-0000-10-00-0", "Xid79", [("gpu-0000-11-00-0", "Xid79"), ("gpu-0000-10-00-0", "Xid79")], 1,
            id="a GPU's percent device",
        ),
        pytest.param(
            "mig-0000-10-00-0-1g-10gb-6", "Xid79", [("gpu-0000-11-00-0", "Xid79"), ("gpu-0000-10-00-0", "Xid79")], 1,
            id="a partition",
        ),
        pytest.param(
            "gpu-0000-10-00-0", "Xid79", [("gpu-0000-10-00-0", "Xid48"), ("gpu-0000-10-00-0", "Xid79")], 1,
            id="another of its faults",
        ),
        pytest.param("rdma-vfs-0000-20-00-0", "LinkFlapping", [("rdma-0000-20-00-0", "LinkFlapping")], 0, id="a pool"),
        pytest.param("rdma-vf-0000-20-00-3", "LinkFlapping", [("rdma-0000-20-00-0", "LinkFlapping")], 0, id="a VF"),
        pytest.param(
            "rdma-vf-0000-20-00-3", "LinkFlapping",
            [("rdma-0000-20-00-0", "LinkFlapping"), ("rdma-0000-21-00-0", "LinkFlapping")], None,
            id="a VF of one of two NICs",
        ),
        pytest.param("gpu-0000-10-00-0", "Xid79", [("gpu-0000-11-00-0", "Xid79")], None, id="another device's"),
        pytest.param("gpu-0000-10-00-0", "Xid79", [], None, id="over by now"),
    ],
)  # fmt: skip
def test_the_fault_behind_a_taint_is_found(
    device: str, reason: str, faults: list[tuple[str, str]], found: int | None
) -> None:
    taint = {"key": "rootport.dev/unhealthy", "value": reason, "effect": "NoSchedule"}
    part = slice_wire("n1", device_wire(device, extra={"taints": [taint]}))
    state = cluster(node_wire("n1"), part, faulty(*faults))
    (there,) = state.index.view(state.nodes["n1"].node).devices

    fault = state.fault_behind(there.id, there.device.taints[0])

    assert (None if fault is None else (fault.device, fault.reason)) == (None if found is None else faults[found])


def test_another_message_of_a_fault_changes_what_is_explained_and_the_same_one_does_not() -> None:
    state = cluster(*a_node(), faulty(("gpu-0", "Xid79")))
    before = (state.generation, state.version("n1"))

    state.put(Kind.INVENTORY, faulty(("gpu-0", "Xid79")))
    assert (state.generation, state.version("n1")) == before

    state.put(Kind.INVENTORY, faulty(("gpu-0", "Xid48")))
    assert state.generation > before[0]
    assert state.version("n1") > before[1]


def test_a_pool_of_which_slices_are_missing_is_incomplete() -> None:
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
    state = cluster(node_wire("n1"), slice_wire("n1", device_wire("gpu-0"), pool=pool))

    assert state.index.view(state.nodes["n1"].node).pools[0].state is PoolState.INCOMPLETE
    state.put(Kind.SLICE, slice_wire("n1", device_wire("gpu-1"), pool=pool, name="second"))
    assert devices_of(state, "n1") == ["gpu-0", "gpu-1"]


def test_an_inventorys_problem_is_told_until_it_is_over() -> None:
    state = ClusterState()
    conditions = [{"type": "Published", "status": "False", "reason": "NodeSilent", "message": "no sign of life"}]
    wire = {"metadata": {"name": "n1"}, "status": {"conditions": conditions}}

    state.put(Kind.INVENTORY, wire)
    assert state.inventory_problem("n1") == "Published: False, NodeSilent: no sign of life"

    state.put(Kind.INVENTORY, wire | {"status": {"conditions": [{"type": "Published", "status": "True"}]}})
    assert state.inventory_problem("n1") == ""
    assert state.inventory_problem("n2") == ""


def test_answers_of_selectors_are_not_kept_for_slices_that_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.explain.known.published._CHURN", 20)
    state = cluster(*a_node())
    before = state.selections

    for number in range(30):
        state.put(Kind.SLICE, slice_wire("n1", device_wire("gpu-0", index=number)))

    assert state.selections is not before
