"""What is taken back, from whom, and when it is given again: shared claims, nodes that fail, devices given twice."""

from __future__ import annotations

import copy
import json

from driver.model.managed_nodes import ANNOTATION
from tests.unit.controller.placement.placed_world import (
    FakeServer,
    Leader,
    claim,
    node,
    pod,
    slice_of,
    wants,
)


def allocations_written(server: FakeServer, leader: Leader, seconds: float) -> int:
    before = server.allocated
    leader.run(seconds)
    return server.allocated - before


def test_what_the_scheduler_deallocates_is_placed_elsewhere(server: FakeServer) -> None:
    server.put("Node", node("n2"))
    server.put("ResourceSlice", slice_of("n2", gpus=2))
    leader = Leader(server, "a")
    wants(server, "p", "c1", "c2")
    leader.run(1)
    before = server.holders()
    one = server.objects["ResourceClaim", "team/c1"]
    server.put("ResourceClaim", one | {"status": {}})
    leader.run(5)
    after = server.holders()
    assert {item[:2] for item in before}.isdisjoint(item[:2] for item in after)
    assert len(after) == 2


def test_owners_see_that_an_allocation_was_taken_back_and_which_nodes_are_avoided(server: FakeServer) -> None:
    server.put("Node", node("n2"))
    server.put("ResourceSlice", slice_of("n2", gpus=2))
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    leader.run(1)
    server.put("ResourceClaim", server.objects["ResourceClaim", "team/c1"] | {"status": {}})
    leader.run(5)
    text = server.objects["ResourceClaim", "team/c1"]["metadata"]["annotations"][ANNOTATION]
    assert json.loads(text)["avoided"] == {"n1": "scheduler"}
    server.put("Node", node("n2") | {"spec": {"unschedulable": True}})
    leader.run(5)
    told = leader.warnings(2)
    assert [(event["reason"], event["type"], event["regarding"]["name"]) for event in told] == [
        ("PlacementTakenBack", "Warning", "p"),
        ("PlacementTakenBack", "Warning", "p"),
    ]
    assert told[0]["note"] == (
        "ResourceClaim c1 is not allocated on node n1 any more: "
        "kube-scheduler could not place the pod there, and has deallocated it"
    )
    assert "n2 any more: the node cannot take the pod" in told[1]["note"]


def test_a_pod_that_can_run_nowhere_lets_others_have_the_devices(server: FakeServer) -> None:
    for number in range(2, 6):
        server.put("Node", node(f"n{number}"))
        server.put("ResourceSlice", slice_of(f"n{number}", gpus=2))
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    held = 0
    for _ in range(60):
        leader.run(10)
        wire = copy.deepcopy(server.objects["Pod", "team/p"])
        if "schedulingGates" not in wire["spec"]:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            server.put("Pod", wire | {"status": {"phase": "Pending", "conditions": [condition]}})
        held += bool(server.holders())
    assert held <= 60 * 0.4, "of the time"


def test_a_device_that_the_scheduler_gives_as_well_is_taken_back(server: FakeServer) -> None:
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    leader.run(1)
    given = server.objects["ResourceClaim", "team/c1"]["status"]["allocation"]
    late = claim("late") | {
        "status": {"allocation": given, "reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}]}
    }
    server.put("ResourceClaim", late)
    leader.run(20)
    assert sorted(server.holders()) == ["n1/gpu-0", "n1/gpu-1"]
    assert leader.counts.so_far().taken_back["given-twice"] == 1
    assert "another claim has been given the same device" in leader.warnings(1)[0]["note"]


def test_a_claim_of_a_pod_that_went_is_given_back_clean(server: FakeServer) -> None:
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    leader.run(1)
    server.delete("Pod", "team/p")
    leader.run(5)
    metadata = server.objects["ResourceClaim", "team/c1"]["metadata"]
    assert server.holders() == []
    assert not metadata["finalizers"]
    assert ANNOTATION not in metadata["annotations"]


def test_of_a_claim_that_went_before_the_answer_of_a_write_nothing_is_kept(server: FakeServer) -> None:
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    leader.run(1)
    stored = copy.deepcopy(server.objects["ResourceClaim", "team/c1"])
    server.delete("Pod", "team/p")
    server.delete("ResourceClaim", "team/c1")
    leader.known.records.observe_stored(stored)  # the answer comes after the watch's word
    leader.run(10)
    assert leader.known.records.get("team/c1") is None


def test_two_pods_that_share_a_claim_and_want_other_nodes_do_not_take_it_from_each_other(server: FakeServer) -> None:
    server.put("Node", node("n2"))
    server.put("ResourceSlice", slice_of("n2", gpus=2))
    leader = Leader(server, "a")
    server.put("ResourceClaim", claim("shared"))
    for name, where in (("p", "n1"), ("q", "n2")):
        wire = pod(name, "shared")
        wire["spec"]["nodeSelector"] = {"kubernetes.io/hostname": where}
        server.put("Pod", wire)
    assert allocations_written(server, leader, 60) == 1


def test_a_pod_takes_no_shared_claim_back_that_another_pod_waits_with(server: FakeServer) -> None:
    leader = Leader(server, "a")
    wants(server, "p", "shared")
    leader.run(1)
    for name in ("c1", "c2"):
        server.put("ResourceClaim", claim(name))
    server.put("Pod", pod("q", "shared", "c1", "c2"))  # three GPUs, and the node has two
    assert allocations_written(server, leader, 60) == 0
    assert len(server.holders()) == 1


def test_a_claim_that_a_pod_may_be_bound_with_gets_no_other_node_for_some_seconds(server: FakeServer) -> None:
    server.put("Node", node("n2"))
    server.put("ResourceSlice", slice_of("n2", gpus=2))
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    leader.run(1)
    assert server.holders() == ["n1/gpu-0"]
    cordoned = node("n1")
    cordoned["spec"]["unschedulable"] = True
    server.put("Node", cordoned)
    leader.run(4)
    assert server.holders() == [], "kube-scheduler finds that it is allocated no more"
    server.put("Pod", pod("q", "c1"))  # nor for another pod
    leader.run(4)
    assert server.holders() == []
    leader.run(8)
    assert server.holders() == ["n2/gpu-0"]


def test_a_shared_claim_that_the_scheduler_deallocates_rests_as_well(server: FakeServer) -> None:
    leader = Leader(server, "a")
    server.put("ResourceClaim", claim("shared"))
    for name in "pq":
        server.put("Pod", pod(name, "shared"))
    leader.run(1)
    server.put("ResourceClaim", server.objects["ResourceClaim", "team/shared"] | {"status": {}})
    assert allocations_written(server, leader, 5) == 0


def test_a_pod_that_somebody_else_holds_back_keeps_no_claim_where_others_cannot_be(server: FakeServer) -> None:
    server.put("Node", node("n2"))
    server.put("ResourceSlice", slice_of("n2", gpus=2))
    leader = Leader(server, "a")
    wants(server, "p", "shared")
    leader.run(1)
    held_back = pod("q", "shared")
    held_back["spec"]["schedulingGates"] = [{"name": "example.com/queue"}]
    held_back["spec"]["tolerations"] = [{"operator": "Exists"}]
    server.put("Pod", held_back)
    drained = node("n1")
    drained["spec"]["taints"] = [{"key": "example.com/drained", "effect": "NoSchedule"}]
    server.put("Node", drained)
    assert allocations_written(server, leader, 60) == 1
    assert server.holders() == ["n2/gpu-0"]
