"""Every problem with Kubernetes' own answer: the allocator agrees (tests/data/conformance/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from allocator.agreement import disagreements
from allocator.validity import violations

from driver.adapters.problems import Problem, answer

DATA = Path(__file__).parents[1] / "data" / "conformance"


def problems(name: str) -> list[Any]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [pytest.param(problem, id=problem["id"]) for problem in map(json.loads, lines)]


@pytest.mark.parametrize("problem", problems("kubernetes.jsonl"))
def test_agrees_with_the_upstream_test_table(problem: dict[str, Any]) -> None:
    assert disagreements(problem, answer(Problem.model_validate(problem))) == []


@pytest.mark.parametrize("problem", problems("random.jsonl"))
def test_agrees_on_random_problems_of_later_stages(problem: dict[str, Any]) -> None:
    assert disagreements(problem, answer(Problem.model_validate(problem))) == []


@pytest.mark.parametrize("problem", problems("core-random.jsonl"))
def test_agrees_on_random_problems_with_whole_devices(problem: dict[str, Any]) -> None:
    assert disagreements(problem, answer(Problem.model_validate(problem))) == []


@pytest.mark.parametrize("problem", problems("quirks.jsonl"))
def test_is_right_where_upstream_is_not(problem: dict[str, Any]) -> None:
    given = answer(Problem.model_validate(problem))
    assert (given["result"] is not None) == problem["strict"]["feasible"]
    assert given["result"] is None or violations(problem, problem["strict"]["node"], given["result"]) == []


@pytest.mark.parametrize("problem", problems("kubernetes.jsonl"))
def test_upstreams_expected_results_are_valid(problem: dict[str, Any]) -> None:
    """The validity checker itself is checked: it finds nothing wrong with what upstream expects."""
    expected = problem["expect"]["result"]
    if expected:
        assert violations(problem, problem["node"]["metadata"]["name"], expected) == []


def test_the_validity_checker_finds_a_device_given_twice() -> None:
    problem = next(entry.values[0] for entry in problems("kubernetes.jsonl") if entry.id == "all-devices-many")
    result = json.loads(json.dumps(problem["expect"]["result"]))
    result[0]["devices"]["results"][1] = result[0]["devices"]["results"][0]
    assert any("twice" in wrong for wrong in violations(problem, problem["node"]["metadata"]["name"], result))
