"""How much of a cluster converts: what counts, for whom it counts, and the reasons with those that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from driver.convert.assessment import Assessment
from driver.convert.findings import Conversion, Finding, Outcome, worst


def finding(outcome: Outcome, text: str = "why", dialect: str = "Koordinator") -> Finding:
    return Finding(dialect=dialect, field="spec.x", value="1", outcome=outcome, text=text, container="main")


def pod(name: str, *found: Finding, owner: tuple[str, str] | None = None, uid: str = "", **more: Any) -> dict[str, Any]:
    """A pod; ``found`` is what its conversion yields."""
    metadata: dict[str, Any] = {"name": name, "namespace": "ml"} | ({"uid": uid} if uid else {})
    if owner is not None:
        kind, owner_uid = owner
        metadata["ownerReferences"] = [{"kind": kind, "name": kind.lower(), "uid": owner_uid, "controller": True}]
    wire = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
    return wire | {"found": found} | more


def converted(data: Mapping[str, Any]) -> Conversion:
    return Conversion(object=data, findings=data["found"], outcome=worst(data["found"]))


def assessment_of(*objects: dict[str, Any]) -> Assessment:
    assessment = Assessment()
    for item in objects:
        assessment.add(item, converted)
    return assessment


def names(assessment: Assessment) -> list[str]:
    return [f"{item.kind} {item.namespace}/{item.name}: {item.outcome}" for item in assessment.assessed]


def test_what_asks_is_assessed_and_the_others_are_counted() -> None:
    claims = {"spec": {"containers": [{"name": "main"}], "resourceClaims": [{"name": "gpu"}]}}
    found = assessment_of(
        pod("a", finding(Outcome.CONVERTED)),
        pod("b", finding(Outcome.CONVERTED), finding(Outcome.NOTED)),
        pod("c", finding(Outcome.NOTED), finding(Outcome.REFUSED)),
        pod("plain"),
        pod("claims", **claims),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "found": ()},
    )
    assert names(found) == ["Pod ml/a: converted", "Pod ml/b: noted", "Pod ml/c: refused"]
    assert (found.without_devices, found.with_claims, found.left_out) == (1, 1, 0)


@pytest.mark.parametrize("backwards", [False, True], ids=["owners first", "owners last"])
def test_what_a_controller_that_is_assessed_makes_does_not_count(backwards: bool) -> None:
    objects = [
        pod("deployment", finding(Outcome.CONVERTED), uid="d"),
        pod("replicas", finding(Outcome.REFUSED), owner=("Deployment", "d"), uid="r"),
        pod("pod", finding(Outcome.REFUSED), owner=("ReplicaSet", "r"), uid="p"),
        pod("idle", owner=("ReplicaSet", "r"), uid="q"),
    ]
    found = assessment_of(*(reversed(objects) if backwards else objects))
    assert names(found) == ["Pod ml/deployment: converted"]
    assert found.without_devices == 0


def test_pods_of_a_controller_that_is_not_there_count_as_one_for_it() -> None:
    job = ("PyTorchJob", "u")
    found = assessment_of(
        pod("master", owner=job),
        pod("worker-0", finding(Outcome.CONVERTED), owner=job),
        pod("worker-1", finding(Outcome.NOTED), owner=job),
        pod("static", finding(Outcome.CONVERTED), owner=("Node", "n")),
    )
    assert names(found) == ["PyTorchJob ml/pytorchjob: noted", "Pod ml/static: converted"]
    assert (found.without_devices, len(found.assessed[0].findings)) == (0, 2)


@pytest.mark.parametrize(
    "ended",
    [
        {"status": {"phase": "Succeeded"}},
        {"kind": "Job", "status": {"conditions": [{"type": "Failed", "status": "True"}]}},
    ],
    ids=["pod", "Job"],
)
def test_what_has_ended_is_left_out(ended: dict[str, Any]) -> None:
    assert names(assessment_of(pod("x", finding(Outcome.REFUSED), **ended))) == []


def test_reasons_have_all_who_share_them_and_the_most_frequent_comes_first() -> None:
    found = assessment_of(
        pod("a", finding(Outcome.REFUSED, "rare"), finding(Outcome.NOTED, "of no interest then")),
        pod("b", finding(Outcome.REFUSED, "often"), finding(Outcome.REFUSED, "often")),
        pod("c", finding(Outcome.REFUSED, "often")),
        pod("d", finding(Outcome.NOTED, "read me")),
    )
    refused = found.reasons(Outcome.REFUSED)
    assert [(item.text, [who.name for who, _ in item.findings]) for item in refused] == [
        ("often", ["b", "c"]),
        ("rare", ["a"]),
    ]
    assert [item.text for item in found.reasons(Outcome.NOTED)] == ["read me"]


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": 1},
        {"metadata": {"name": 1, "uid": [], "ownerReferences": [1, {"controller": True}]}},
        {"kind": "Job", "status": {"conditions": "x"}},
        {"kind": "Pod", "status": []},
    ],
)
def test_odd_objects_are_taken(odd: dict[str, Any]) -> None:
    assert len(assessment_of(pod("x", finding(Outcome.CONVERTED)) | odd).assessed) == 1


@pytest.mark.parametrize(("status", "seen"), [({"phase": "Running"}, None), ({}, "n1")], ids=["runs", "is written"])
def test_the_node_of_a_pod_that_runs_is_its_schedulers(status: dict[str, str], seen: str | None) -> None:
    given: list[Any] = []

    def convert(data: Mapping[str, Any]) -> Conversion:
        given.append(data["spec"].get("nodeName"))
        return converted(data)

    spec = {"containers": [{"name": "main"}], "nodeName": "n1"}
    Assessment().add(pod("x", finding(Outcome.CONVERTED), spec=spec, status=status), convert)
    assert given == [seen]
