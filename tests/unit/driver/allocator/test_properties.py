"""What holds for every allocation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.adapters.files.allocation_problems import AllocationProblem, answer
from driver.allocator import ALL_FEATURES, AllocationError, Allocator, DeviceId
from driver.api.resource_v1 import AllocationResult
from driver.api.validation.defaults import with_defaults
from tests.oracle.allocator.later_stages import LATER_FLAVOURS
from tests.oracle.allocator.random_problems import FLAVOURS, random_problem
from tests.support.allocation_validity import violations

SEEDS = st.integers(0, 2**32)


def without_shares(result: Any) -> Any:
    if isinstance(result, dict):
        return {key: without_shares(value) for key, value in result.items() if key != "shareID"}
    return [without_shares(item) for item in result] if isinstance(result, list) else result


def whole_devices(results: tuple[AllocationResult, ...]) -> list[DeviceId]:
    return [
        DeviceId(item.driver, item.pool, item.device)
        for result in results
        for item in result.devices.results
        if item.share_id is None and not item.admin_access
    ]


@pytest.mark.parametrize("flavour", FLAVOURS + LATER_FLAVOURS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_every_result_is_valid_and_the_same_each_time(flavour: str, seed: int) -> None:
    problem = random_problem(seed, flavour=flavour)
    found = answer(AllocationProblem.model_validate(problem))
    assert found["result"] is None or violations(problem, str(found["node"]), found["result"]) == []  # type: ignore[arg-type]
    assert without_shares(answer(AllocationProblem.model_validate(problem))) == without_shares(found)


@settings(max_examples=30)
@given(seed=SEEDS)
def test_what_is_committed_is_never_given_again_until_it_is_released(seed: int) -> None:
    problem = AllocationProblem.model_validate(random_problem(seed, flavour="plain") | {"allocatedClaims": []})
    allocator = Allocator(problem.slices, problem.classes, features=ALL_FEATURES)
    claims = [with_defaults(claim) for claim in problem.claims]
    rounds: list[tuple[AllocationResult, ...]] = []

    def place() -> tuple[AllocationResult, ...] | None:
        try:
            fit = allocator.allocate_first(problem.nodes, claims)
        except AllocationError:  # all devices under a constraint that they break
            return None
        return fit and fit.results

    while (results := place()) is not None:
        allocator.commit(results)
        rounds.append(results)
        if not whole_devices(results):
            break
    given_out = [device for results in rounds for device in whole_devices(results)]
    assert len(set(given_out)) == len(given_out)
    for results in rounds:
        allocator.release(results)
    assert place() == (rounds[0] if rounds else None)


@settings(max_examples=30)
@given(seed=SEEDS)
def test_the_first_node_that_fits_is_taken(seed: int) -> None:
    problem = AllocationProblem.model_validate(random_problem(seed, flavour="node-selection"))
    allocator = Allocator(problem.slices, problem.classes, allocated=problem.allocated_claims, features=ALL_FEATURES)
    claims = [with_defaults(claim) for claim in problem.claims]
    try:
        fit = allocator.allocate_first(problem.nodes, claims)
        alone = [allocator.allocate(node, claims) for node in problem.nodes]
    except AllocationError:
        return
    expected = next(
        (
            (node.metadata.name, results)
            for node, results in zip(problem.nodes, alone, strict=True)
            if results is not None
        ),
        None,
    )
    assert (fit and (fit.node.metadata.name, fit.results)) == expected
