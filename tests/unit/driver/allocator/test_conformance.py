"""Every problem with Kubernetes' own answer: the allocator agrees (tests/data/conformance/README.md)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from driver.adapters.files.allocation_problems import AllocationProblem, answer
from tests.support.agreement import disagreements
from tests.support.allocation_validity import violations
from tests.support.paths import REPO

DATA = REPO / "tests" / "data" / "conformance"
KUBERNETES_TABLE = REPO.parent / "shared" / "conformance" / "kubernetes.jsonl"


@cache
def problems(name: str) -> list[Any]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [pytest.param(problem, id=problem["id"]) for problem in map(json.loads, lines)]


def kubernetes_own() -> list[Any]:
    """The problems of Kubernetes' own test table, which is not in this repository, with its allocator's answers."""
    if not KUBERNETES_TABLE.is_file():
        reason = f"Kubernetes' own test table is not on this machine: {KUBERNETES_TABLE} is missing"
        return [pytest.param({}, id="table", marks=pytest.mark.skip(reason=reason))]
    lines = (DATA / "kubernetes-answers.jsonl").read_text(encoding="utf-8").splitlines()
    answers = {item["id"]: item["oracle"] for item in map(json.loads, lines)}
    table = [json.loads(line) for line in KUBERNETES_TABLE.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(problem | {"oracle": answers[problem["id"]]}, id=problem["id"]) for problem in table]


@pytest.mark.parametrize("problem", kubernetes_own())
def test_agrees_with_the_upstream_test_table(problem: dict[str, Any]) -> None:
    ours = {key: value for key, value in problem.items() if key not in ("expect", "upstream")}
    assert disagreements(problem, answer(AllocationProblem.model_validate(ours))) == []


@pytest.mark.parametrize("problem", problems("random.jsonl"))
def test_agrees_on_random_problems_of_later_stages(problem: dict[str, Any]) -> None:
    assert disagreements(problem, answer(AllocationProblem.model_validate(problem))) == []


@pytest.mark.parametrize("problem", problems("core-random.jsonl"))
def test_agrees_on_random_problems_with_whole_devices(problem: dict[str, Any]) -> None:
    assert disagreements(problem, answer(AllocationProblem.model_validate(problem))) == []


@pytest.mark.parametrize("problem", problems("quirks.jsonl"))
def test_is_right_where_upstream_is_not(problem: dict[str, Any]) -> None:
    given = answer(AllocationProblem.model_validate(problem))
    assert (given["result"] is not None) == problem["strict"]["feasible"]
    assert given["result"] is None or violations(problem, problem["strict"]["node"], given["result"]) == []


VALID = [
    entry
    for entry in (*problems("random.jsonl"), *problems("core-random.jsonl"))
    if entry.values[0]["oracle"]["result"]
    and not any(tag.startswith("quirk-") for tag in entry.values[0].get("tags", ()))
]


@pytest.mark.parametrize("problem", VALID)
def test_kubernetes_results_are_valid(problem: dict[str, Any]) -> None:
    """The validity checker itself is checked: it finds nothing wrong with what Kubernetes allocates."""
    assert violations(problem, problem["oracle"]["node"], problem["oracle"]["result"]) == []


def test_the_validity_checker_finds_a_device_given_twice() -> None:
    problem = next(entry.values[0] for entry in VALID if entry.id == "all-109")
    result = json.loads(json.dumps(problem["oracle"]["result"]))
    devices = next(claim["devices"]["results"] for claim in result if len(claim["devices"]["results"]) > 1)
    devices[1] = devices[0]
    assert any("twice" in wrong for wrong in violations(problem, problem["oracle"]["node"], result))
