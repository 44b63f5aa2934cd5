"""Writes of allocations when the API server says no, says nothing, or another leader has taken over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.placement.managed_nodes import ManagedNodes
from controller.placement.records import ClaimRecords
from controller.placement.writer import ClaimWriter, Result
from driver.adapters.kubernetes.api import KubernetesApi
from driver.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    DeviceToleration,
)
from driver.explain.known.cluster import ClaimState
from driver.model.managed_nodes import ANNOTATION, TAINT
from driver.placement.decision import Decision, Placement
from driver.placement.score import Score
from tests.support.scripted_api import Answer, ScriptedServer, connect, scripted, scripted_api

__all__ = ["connect", "scripted", "scripted_api"]

MANAGED = DeviceToleration(key=TAINT, operator="Exists", effect="NoSchedule")
CONFLICT = Answer({"kind": "Status", "reason": "Conflict", "message": "changed", "code": 409}, status=409)


def result(*tolerations: DeviceToleration) -> AllocationResult:
    item = DeviceRequestAllocationResult(
        request="gpu", driver="rootport.dev", pool="n1", device="gpu-0", tolerations=tolerations
    )
    return AllocationResult(devices=DeviceAllocationResult(results=(item,)))


def decision(claims: int = 1, *tolerations: DeviceToleration) -> tuple[Decision, Placement]:
    states = tuple(ClaimState(namespace="team", name=f"c{number}", uid=f"c{number}") for number in range(claims))
    chosen = Placement("n1", (result(*tolerations or (MANAGED,)),) * claims, Score((), ()))
    return Decision("team/p", "p", states, chosen, None, "it is best"), chosen


def stored(version: int, name: str = "c0", *, by: str = "", allocated: bool = False, uid: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "team", "uid": uid or name, "resourceVersion": str(version)}
    if by:
        metadata["annotations"] = {ANNOTATION: json.dumps({"by": by, "podUID": "p", "node": "n1"})}
    allocation = {"devices": {"results": [{"pool": "n1", "driver": "rootport.dev", "tolerations": [{"key": TAINT}]}]}}
    return {"metadata": metadata, "status": {"allocation": allocation} if allocated else {}}


class Case:
    """A writer, and what the server has been asked."""

    def __init__(self, server: ScriptedServer, api: KubernetesApi) -> None:
        self.server = server
        self.leads = True
        self.labelled = True
        self.records = ClaimRecords()
        for number in range(3):
            self.records.observe_stored(stored(1, f"c{number}"))
        self.nodes = ManagedNodes(lambda _node: self.labelled)
        self.writer = ClaimWriter(api, self.records, self.nodes, identity="me", may_write=lambda: self.leads)

    def answers(self, *answers: Answer | dict[str, Any]) -> None:
        self.server.answers = [item if isinstance(item, Answer) else Answer(item) for item in answers]


@pytest.fixture
def case(scripted: ScriptedServer, scripted_api: KubernetesApi) -> Case:
    return Case(scripted, scripted_api)


def test_the_annotation_comes_first_and_then_the_allocation(case: Case) -> None:
    case.answers(stored(2, by="me"), stored(3, by="me", allocated=True))
    outcome = case.writer.allocate(*decision())
    assert (outcome.result, outcome.allocated) == (Result.DONE, {"team/c0": 3})
    assert [request.rpartition("/")[2] for request in case.server.requests] == ["c0", "status"]


def test_a_leader_that_is_none_any_more_announces_at_most(case: Case) -> None:
    case.leads = False
    case.answers(stored(2, by="me"))
    outcome = case.writer.allocate(*decision())
    assert (outcome.result, outcome.allocated, outcome.in_doubt) == (Result.NOT_LEADING, {}, ())
    assert len(case.server.requests) == 1


def test_nothing_is_written_for_a_node_that_is_not_managed_any_more(case: Case) -> None:
    case.labelled = False
    assert case.writer.allocate(*decision()).result is Result.NOT_MANAGED
    assert case.server.requests == []


def test_devices_that_the_scheduler_may_give_as_well_are_not_given(case: Case) -> None:
    blanket = DeviceToleration(operator="Exists")
    assert case.writer.allocate(*decision(1, blanket)).result is Result.REFUSED
    assert case.server.requests == []


def test_a_claim_that_has_changed_is_read_again_and_once_more_is_enough(case: Case) -> None:
    case.answers(CONFLICT, stored(5), stored(6, by="me"), stored(7, by="me", allocated=True))
    assert case.writer.allocate(*decision()).allocated == {"team/c0": 7}
    case.answers(CONFLICT, stored(8, "c1", allocated=True))
    other, chosen = decision()
    claims = (ClaimState(namespace="team", name="c1", uid="c1"),)
    moved = Decision(other.pod, other.pod_uid, claims, chosen, None, "")
    assert case.writer.allocate(moved, chosen).result is Result.CHANGED


def test_another_claim_of_the_name_is_not_written(case: Case) -> None:
    case.answers(CONFLICT, stored(5, uid="another"))
    assert case.writer.allocate(*decision()).result is Result.CHANGED


def test_the_second_of_two_claims_fails_and_the_first_one_is_known_to_be_allocated(case: Case) -> None:
    case.answers(stored(2, by="me"), stored(3, by="me", allocated=True), stored(4, "c1", by="me"), CONFLICT)
    outcome = case.writer.allocate(*decision(2))
    assert (outcome.result, outcome.allocated, outcome.in_doubt) == (Result.CHANGED, {"team/c0": 3}, ())


def test_an_allocation_without_an_answer_is_in_doubt(case: Case) -> None:
    case.answers(stored(2, by="me"), Answer(dropped=True))
    outcome = case.writer.allocate(*decision())
    assert (outcome.result, outcome.in_doubt) == (Result.UNKNOWN, ("team/c0",))


def test_what_is_in_doubt_is_settled_by_a_version_that_the_write_does_not_have(case: Case) -> None:
    case.answers(stored(2, by="me"), stored(9))
    assert case.writer.fence("team/c0")[0] is Result.DONE
    assert [request.split()[0] for request in case.server.requests] == ["GET", "PATCH"]
    record = case.records.get("team/c0")
    assert record is not None
    assert (record.version, record.is_allocated, record.note) == (9, False, None)


def test_or_the_write_came_before_that(case: Case) -> None:
    case.answers(stored(2, by="me"), CONFLICT, stored(3, by="me", allocated=True))
    assert case.writer.fence("team/c0")[0] is Result.DONE
    record = case.records.get("team/c0")
    assert record is not None
    assert record.is_ours


def test_a_claim_that_is_gone_needs_no_fence(case: Case) -> None:
    gone = {"kind": "Status", "reason": "NotFound", "message": "gone", "code": 404}
    case.answers(Answer(gone, status=404))
    assert case.writer.fence("team/c0")[0] is Result.DONE
    assert case.records.get("team/c0") is None


def test_the_taint_stays_while_an_allocation_is_being_written(tmp_path: Path) -> None:
    del tmp_path
    labelled, now = [True], [0.0]
    nodes = ManagedNodes(lambda _node: labelled[0], clock=lambda: now[0])
    with nodes.writing("n1") as may:
        assert may
        labelled[0] = False
        assert nodes.is_tainted("n1")
    assert nodes.is_tainted("n1"), "until kube-scheduler has seen what was written"
    now[0] = 10
    assert not nodes.is_tainted("n1")
    with nodes.writing("n1") as may:
        assert not may
