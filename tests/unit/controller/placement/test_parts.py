"""The queue, retries, failed nodes, records and pending bindings: the memory of the placement loop."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from controller.placement.counts import TAKEN_BACK
from controller.placement.events import placed_event
from controller.placement.failures import FailedNodes
from controller.placement.next_step import Reason
from controller.placement.pace import Pace
from controller.placement.pending_bindings import PendingBindings, restored_binding
from controller.placement.pod_queue import PodQueue
from controller.placement.pods import WaitingPod, read_waiting, transform_pod
from controller.placement.records import ClaimRecords, PlacementNote, read_claim_record, read_note
from controller.placement.retries import Retries
from driver.api.resource_v1 import AllocationResult
from driver.model.managed_nodes import ANNOTATION, GATE, POLICY_NAMES, TAINT
from driver.placement.decision import Decision, Placement
from driver.placement.policies import POLICIES
from driver.placement.score import Score


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waiting(key: str, *, priority: int = 0, created: str = "2026-01-01T00:00:00Z") -> WaitingPod:
    return WaitingPod(key=key, uid=key, priority=priority, created=created)


def taken(pods: PodQueue) -> list[str]:
    found = []
    while (pod := pods.pop()) is not None:
        found.append(pod.key)
        pods.charge(pod.namespace, 1.0)
    return found


def test_metrics_have_all_reasons_for_which_allocations_are_taken_back() -> None:
    assert list(TAKEN_BACK) == [reason.value for reason in Reason]


def test_an_event_names_node_and_devices_once_and_then_why() -> None:
    result = AllocationResult.model_validate(
        {"devices": {"results": [{"request": "g", "driver": "rootport.dev", "pool": "n1", "device": "gpu-0"}]}}
    )
    chosen = Placement("n1", (result,), Score((), ()))
    decision = Decision("team/p", "u", (), chosen, None, "node n1 rather than n2, which is as good")
    event = placed_event(decision, chosen, instance="i", now=datetime(2026, 1, 1, tzinfo=UTC))
    assert event["note"] == "On node n1 (gpu-0): rather than n2, which is as good"


def test_the_options_name_the_policies() -> None:
    assert list(POLICY_NAMES) == list(POLICIES)


def test_priority_comes_before_namespaces_and_these_before_age() -> None:
    pods = PodQueue()
    for number in range(4):
        pods.add(waiting(f"greedy/{number}", created=f"2026-01-01T00:00:0{number}Z"))
    pods.add(waiting("modest/a", created="2026-01-01T00:00:09Z"))
    pods.add(waiting("greedy/urgent", priority=5, created="2026-01-01T00:00:09Z"))
    order = taken(pods)
    assert order[0] == "greedy/urgent"
    assert order.index("modest/a") <= 2
    assert [key for key in order if key.startswith("greedy/") and key != "greedy/urgent"] == [
        f"greedy/{number}" for number in range(4)
    ]


def test_a_pod_that_changed_or_went_has_one_turn_or_none() -> None:
    pods = PodQueue()
    pods.add(waiting("a/x"))
    pods.add(waiting("a/x", priority=3))
    pods.add(waiting("a/y"))
    pods.remove("a/y")
    assert len(pods) == 1
    assert taken(pods) == ["a/x"]


def test_a_pod_that_is_held_is_due_later_and_the_more_so_the_more_often_it_failed() -> None:
    clock = Clock()
    retries = Retries(clock)
    assert [retries.failed("a/x", first_s=1, limit_s=3) for _ in range(3)] == [1, 2, 3]
    assert retries.is_held("a/x")
    assert retries.due() == []
    clock.now += 3
    assert not retries.is_held("a/x")
    assert retries.due() == ["a/x"]
    assert retries.due() == [], "once for each time"
    retries.forget("a/x")
    assert retries.failed("a/x", first_s=1, limit_s=3, is_held=False) == 1
    assert not retries.is_held("a/x")
    assert retries.first(5) == ["a/x"]


def test_a_failed_node_is_avoided_for_minutes_and_longer_the_next_time() -> None:
    failed = FailedNodes()
    first = failed.add("p", "n1", Reason.UNUSED, now=0)
    assert failed.of("p", 1) == {"n1": Reason.UNUSED}
    assert failed.of("p", first) == {}
    assert failed.add("p", "n1", Reason.UNUSED, now=first) > first
    failed.forget("p")
    assert failed.of("p", first) == {}


def test_what_is_remembered_of_failed_nodes_is_bounded() -> None:
    failed = FailedNodes()
    for pod in range(6000):
        failed.add(f"p{pod}", "n", Reason.UNUSED, now=0)
    assert sum(bool(failed.of(f"p{pod}", 1)) for pod in range(6000)) <= 4096
    for node in range(500):
        failed.add("p", f"n{node}", Reason.UNUSED, now=0)
    assert len(failed.of("p", 1)) <= 256


def claim(version: int, **status: object) -> dict[str, object]:
    note = json.dumps({"by": "me", "podUID": "p", "node": "n1", "devices": ["gpu-0"], "why": "it is best"})
    metadata = {"name": "c", "namespace": "team", "uid": "c", "resourceVersion": str(version)}
    return {"metadata": metadata | {"annotations": {ANNOTATION: note}}, "status": status}


def allocation(*keys: str, driver: str = "rootport.dev") -> dict[str, object]:
    tolerations = [{"key": key} for key in keys]
    result = {"request": "gpu", "driver": driver, "pool": "n1", "device": "gpu-0", "tolerations": tolerations}
    return {"devices": {"results": [result]}}


def test_an_older_version_of_a_claim_changes_nothing() -> None:
    records = ClaimRecords()
    newer = records.observe_stored(claim(7, allocation=allocation(TAINT)))
    assert newer.is_ours
    records.observe_stored(claim(6))
    assert records.get("team/c") == newer
    assert records.unused() == [newer]
    records.observe_stored(claim(8, allocation=allocation(TAINT), reservedFor=[{"resource": "pods"}]))
    assert records.unused() == []
    records.remove("team/c")
    assert records.get("team/c") is None


def test_whose_an_allocation_is() -> None:
    def is_ours(wire: dict[str, object]) -> bool:
        return read_claim_record(wire["metadata"], wire).is_ours  # type: ignore[arg-type]

    assert is_ours(claim(1, allocation=allocation(TAINT)))
    assert not is_ours(claim(1, allocation=allocation()))
    assert not is_ours(claim(1, allocation=allocation(TAINT, driver="example.com")))
    assert not is_ours(claim(1))


def test_an_annotation_that_no_controller_wrote_is_of_nobody() -> None:
    assert read_note(None) is None
    assert read_note({"other": "x"}) is None
    for text in ("", "{", "[]", "[" * 5000, '{"by": 1}', "null"):
        assert read_note({ANNOTATION: text}) == PlacementNote(by="", pod_uid="", node="")


def pod(**spec: object) -> dict[str, object]:
    named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
    return {"metadata": {"name": "p", "namespace": "team", "uid": "p"}, "spec": named | spec, "status": {}}


def test_which_pods_wait() -> None:
    def reads(wire: dict[str, object]) -> WaitingPod | None:
        kept = transform_pod(wire)
        return None if kept is None else read_waiting(kept)

    found = reads(pod(priority=3, schedulingGates=[{"name": GATE}]))
    assert found == WaitingPod(key="team/p", uid="p", priority=3, gates=(GATE,))
    assert reads(pod(nodeName="n1")) is None
    assert reads(pod(resourceClaims=[])) is None
    assert reads(pod() | {"status": {"phase": "Failed"}}) is None
    refused = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    waits = reads(pod() | {"status": refused})
    assert waits is not None
    assert waits.is_refused


def test_pods_without_claims_count_where_they_run_and_nowhere_else() -> None:
    assert transform_pod(pod(resourceClaims=[], nodeName="n1")) is not None
    assert transform_pod(pod(resourceClaims=[])) is None
    assert transform_pod(pod(resourceClaims=[], nodeName="n1") | {"status": {"phase": "Succeeded"}}) is None


def test_a_claim_leads_to_its_binding_until_that_ends() -> None:
    bindings = PendingBindings()
    binding = restored_binding("team/p", "p", "n1", {"team/c": 4})
    bindings.add(binding)
    assert bindings.of_claim("team/c") is binding
    assert bindings.of_claim("team/other") is None
    assert bindings.drop("p") is binding
    assert bindings.of_claim("team/c") is None


def test_a_pod_whose_placement_is_undone_again_and_again_is_placed_ever_more_seldom() -> None:
    pace, now, placed = Pace(), 0.0, 0
    while now < 3600:
        if pace.wait_s("p", now) == 0:
            pace.placed("p", now)
            placed += 1
        now += 0.5
    assert placed < 75
    pace.forget("p")
    assert pace.wait_s("p", now) == 0
