"""Answers that are lost, writes that come late, and leaders that change: no device is given twice, and none is lost."""

from __future__ import annotations

import pytest

from controller.cluster.packed import pack
from driver.adapters.kubernetes.errors import ConflictError
from tests.support.explain_cluster import classes
from tests.unit.controller.placement.placed_world import (
    FakeServer,
    Leader,
    claim,
    is_ungated,
    node,
    pod,
    slice_of,
    wants,
)


def test_a_pod_is_placed_with_all_its_claims_and_let_through(server: FakeServer) -> None:
    leader = Leader(server, "a")
    wants(server, "p", "c1", "c2")
    leader.run(1)
    assert sorted(server.holders()) == ["n1/gpu-0", "n1/gpu-1"]
    assert is_ungated(server, "p")


def test_before_the_watch_shows_it_what_was_written_counts(server: FakeServer) -> None:
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    wants(server, "q", "c2")
    server.unseen = True
    leader.run(3)
    assert sorted(server.holders()) == ["n1/gpu-0", "n1/gpu-1"]
    server.show()
    leader.run(1)
    assert all(is_ungated(server, name) for name in "pq")


def test_an_allocation_whose_answer_was_lost_is_found_and_the_pod_let_through(server: FakeServer) -> None:
    leader = Leader(server, "a")
    server.lost = 1
    wants(server, "p", "c1")
    leader.run(10)
    assert len(server.holders()) == 1
    assert is_ungated(server, "p")


def test_a_write_that_comes_late_is_refused_and_its_device_is_free(server: FakeServer) -> None:
    leader = Leader(server, "a")
    server.holds_back = True
    wants(server, "p", "c1", "c2")
    leader.run(1)
    server.holds_back = False
    leader.run(10)
    assert server.late
    for write in server.late:
        with pytest.raises(ConflictError):
            write()
    assert sorted(server.holders()) == ["n1/gpu-0", "n1/gpu-1"]


def test_a_former_leaders_late_write_is_refused_once_the_next_one_has_begun(server: FakeServer) -> None:
    first = Leader(server, "a")
    server.holds_back = True
    wants(server, "p", "c1", "c2")
    first.loop._pass()
    while first.context.jobs.running:
        first.context.jobs.finish()
        if server.late:
            break
    server.holds_back = False
    second = Leader(server, "b")
    second.take_over()
    server.delete("Pod", "team/p")  # so that its claims are nobody's, and the devices another's
    wants(server, "q", "c3", "c4")
    second.run(10)
    assert sorted(server.holders()) == ["n1/gpu-0", "n1/gpu-1"]
    with pytest.raises(ConflictError):
        server.late[0]()


def test_where_a_former_leaders_claim_cannot_be_fenced_nothing_is_placed_until_it_is(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("Node", node("n2"))
    server.put("ResourceSlice", slice_of("n2", gpus=2))
    server.put("Node", node("n1"))  # so that it is not the later one
    first = Leader(server, "a")
    server.holds_back = True
    wants(server, "p", "c1", "c2")
    first.loop._pass()
    while not server.late:
        first.context.jobs.finish()
    server.holds_back = False
    server.refused = {"team/c1"}
    second = Leader(server, "b")
    second.context.clock = lambda: second.now
    monkeypatch.setattr("threading.Event.wait", lambda *_: setattr(second, "now", second.now + 1.0))
    second.take_over()
    monkeypatch.undo()
    server.delete("Pod", "team/p")
    wants(server, "q", "c3", "c4")
    wants(server, "r", "c5")
    second.run(5)
    assert sorted(server.holders()) == ["n2/gpu-0", "n2/gpu-1"]
    assert second.claims.may_be_written("n1"), "so its taint stays"
    server.refused = set()
    second.run(60)
    assert sorted(server.holders()) == ["n1/gpu-0", "n2/gpu-0", "n2/gpu-1"]
    assert not second.claims.may_be_written("n1")
    with pytest.raises(ConflictError):
        server.late[0]()


def test_without_the_fence_that_write_would_give_a_device_twice(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the fence is for: this is the same course of events."""
    first = Leader(server, "a")
    server.holds_back = True
    wants(server, "p", "c1")
    first.loop._pass()
    while not server.late:
        first.context.jobs.finish()
    server.holds_back = False
    second = Leader(server, "b")  # which does not take over as it should
    second.loop._reconcile_again = float("inf")  # and clears nothing
    monkeypatch.setattr(second.claims, "unfenced", frozenset)  # nor leaves the node out
    server.delete("Pod", "team/p")
    wants(server, "q", "c3")
    wants(server, "r", "c4")
    second.known.apply(10_000)
    second.loop._pass()
    while second.context.jobs.running:
        second.context.jobs.finish()
    held = server.holders()
    assert len(held) == 2
    server.late[0]()
    assert len(server.holders()) > len(set(server.holders()))


def test_a_pod_is_placed_once_its_device_class_is_there(server: FakeServer) -> None:
    leader = Leader(server, "a")
    leader.known.remove("DeviceClass", "gpu.rootport.dev")
    wants(server, "p", "c1")
    leader.run(5)
    assert server.holders() == []
    for kind, wire in classes():
        leader.known.put(kind.value, wire["metadata"]["name"], pack(wire))
    leader.run(2)
    assert server.holders() == ["n1/gpu-0"]


def test_a_claim_and_a_pod_that_cannot_be_read_do_not_keep_others_from_being_placed(server: FakeServer) -> None:
    leader = Leader(server, "a")
    poisoned = claim("bad") | {"status": {"allocation": {"devices": {"results": ["nonsense"]}}}}
    server.put("ResourceClaim", poisoned)
    odd = pod("odd", "bad")
    odd["spec"]["priority"] = "high"
    server.put("Pod", odd)
    wants(server, "p", "c1")
    leader.run(2)
    assert is_ungated(server, "p")
    assert leader.known.records.get("team/bad") is None


def test_after_a_mistake_in_a_write_its_devices_are_not_free(server: FakeServer) -> None:
    leader = Leader(server, "a")
    server.mistakes = 1
    server.unseen = True
    wants(server, "p", "c1", "c2")
    server.show()
    server.unseen = True
    leader.run(1)
    server.show()
    wants(server, "q", "c3")
    leader.run(10)
    assert len(server.holders()) == len(set(server.holders()))
    assert is_ungated(server, "p")


def test_a_pod_whose_decision_takes_too_long_is_not_tried_at_each_change(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driver.placement.placer.MAX_CPU_S", 0.0)
    leader = Leader(server, "a")
    wants(server, "p", "c1")
    leader.run(1)
    monkeypatch.undo()
    for number in range(5):
        server.put("Node", node(f"other-{number}"))  # room that comes lets a pod that fitted nowhere be tried again
        leader.run(1)
    assert not server.holders()
    leader.run(30)
    assert len(server.holders()) == 1


def test_a_pod_without_claims_for_which_no_node_may_be_nominated_is_let_through(server: FakeServer) -> None:
    leader = Leader(server, "a")
    server.refused = {"team/p status"}
    wants(server, "p")
    leader.run(3)
    assert is_ungated(server, "p")
