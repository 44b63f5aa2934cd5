"""On tiny problems the answer is the first of all combinations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.adapters.files.allocation_problems import AllocationProblem, answer
from tests.oracle.allocator.random_problems import random_problem
from tests.support.allocation_validity import violations
from tests.support.brute_force import first_allocation

FLAVOURS = ("plain", "constraints", "distinct", "several-claims", "all", "allocated", "node-selection", "pairs")


def devices(result: Any) -> list[list[tuple[str, str, str, str]]] | None:
    if result is None:
        return None
    return [
        [
            (item["request"], item["driver"], item["pool"], item["device"])
            for item in of_claim["devices"].get("results", ())
        ]
        for of_claim in result
    ]


def is_small(problem: dict[str, Any]) -> bool:
    """Few enough combinations for a test."""
    requests = [request for claim in problem["claims"] for request in claim["spec"]["devices"]["requests"]]
    return sum(request["exactly"].get("count", 1) for request in requests) <= 5


@pytest.mark.parametrize("flavour", FLAVOURS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_the_answer_is_the_first_valid_combination(flavour: str, seed: int) -> None:
    problem = random_problem(seed, flavour=flavour, tiny=True)
    found = answer(AllocationProblem.model_validate(problem))
    mixed = "quirk-admin-mixed" in problem["tags"]
    if not is_small(problem) or mixed or (found["error"] and "breaks a constraint" not in str(found["error"])):
        return
    assert devices(found["result"]) == first_allocation(problem, problem["nodes"][0])


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_admin_access_beside_plain_requests_is_served_where_it_can_be(seed: int) -> None:
    """Which devices may differ: as kube-scheduler, plain requests avoid what another claim has admin access to."""
    problem = random_problem(seed, flavour="admin", tiny=True)
    found = answer(AllocationProblem.model_validate(problem))
    if not is_small(problem) or (found["error"] and "breaks a constraint" not in str(found["error"])):
        return
    assert (found["result"] is not None) == (first_allocation(problem, problem["nodes"][0]) is not None)
    assert found["result"] is None or violations(problem, str(found["node"]), found["result"]) == []  # type: ignore[arg-type]
