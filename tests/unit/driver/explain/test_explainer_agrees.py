"""Explain never contradicts the allocator: it finds room on exactly the nodes on which the allocator allocates."""

from __future__ import annotations

from typing import Any, Final

import pytest

from driver.adapters.files.allocation_problems import AllocationProblem
from driver.allocator import AllocationError, Allocator, Features
from driver.api.resource_v1 import Node
from driver.api.validation.defaults import with_defaults
from driver.budget import Budget
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.judge import device_judge
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from tests.oracle.allocator.later_stages import LATER_FLAVOURS
from tests.oracle.allocator.random_problems import FLAVOURS, random_problem

Json = dict[str, Any]

_SEEDS: Final = 25
_BLOCKED: Final = {Reason.DEVICE_CLASS_MISSING, Reason.CLAIM_INVALID, Reason.FEATURE_OFF, Reason.TOO_MANY_DEVICES}


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hardest of the problems take a node most of the time that it may take: on a busy machine more."""
    monkeypatch.setattr(device_judge, "_NODE_S", 60.0)


@pytest.mark.parametrize("flavour", [*FLAVOURS, *LATER_FLAVOURS])
def test_it_fits_on_exactly_the_nodes_on_which_the_allocator_allocates(flavour: str) -> None:
    for seed in range(_SEEDS):
        made = random_problem(7_000_000 + seed, flavour=flavour)
        problem = AllocationProblem.model_validate(made)
        for node in problem.nodes:
            expected = _allocates(problem, node)
            explanation = _explained(made, problem, [node.metadata.name])
            assert bool(explanation.nodes_fitting) == expected, f"{made['id']} on {node.metadata.name}: {explanation}"
            assert explanation.fits == expected, f"{made['id']}: {explanation.findings}"
            assert explanation.findings[0].message


def test_many_nodes_fit_where_each_of_them_does() -> None:
    for seed in range(_SEEDS):
        made = random_problem(8_000_000 + seed)
        problem = AllocationProblem.model_validate(made)
        names = [node.metadata.name for node in problem.nodes]
        explanation = _explained(made, problem, names)
        assert explanation.nodes_fitting == sum(_allocates(problem, node) for node in problem.nodes)
        assert sum(group.count for group in explanation.groups) + explanation.nodes_fitting in {0, len(names)}


def test_a_second_explanation_after_a_claim_ended_is_that_of_a_new_explainer() -> None:
    for seed in range(_SEEDS):
        made = random_problem(9_000_000 + seed, flavour="allocated")
        problem = AllocationProblem.model_validate(made)
        names = [node.metadata.name for node in problem.nodes]
        state, subject = _state(made, problem, names)
        explainer = Explainer(state, proposals=False)
        explainer.explain(subject)
        for number, item in enumerate(made["allocatedClaims"]):
            item["metadata"].setdefault("name", f"held-{number}")
            item["metadata"].setdefault("namespace", "held")
            state.remove(Kind.CLAIM, f"{item['metadata']['namespace']}/{item['metadata']['name']}")
            assert explainer.explain(subject) == Explainer(state, proposals=False).explain(subject)


def _allocates(problem: AllocationProblem, node: Node) -> bool:
    claims = problem.claims if problem.raw else tuple(with_defaults(claim) for claim in problem.claims)
    features = Features(**problem.features.model_dump())
    try:
        allocator = Allocator(problem.slices, problem.classes, allocated=problem.allocated_claims, features=features)
        return allocator.allocate(node, claims) is not None
    except AllocationError as error:
        # The API server takes no node selector of several terms: nobody has to explain such a slice.
        return "only one is allowed" in error.message


def _explained(made: Json, problem: AllocationProblem, nodes: list[str]) -> Explanation:
    state, subject = _state(made, problem, nodes)
    return Explainer(state, proposals=False).explain(subject, budget=Budget(600.0))


def _state(made: Json, problem: AllocationProblem, nodes: list[str]) -> tuple[ClusterState, ObjectRef]:
    state = ClusterState(features=Features(**problem.features.model_dump()))
    for item in made["nodes"]:
        if item["metadata"]["name"] in nodes:
            state.put(Kind.NODE, item)
    for item in made["classes"]:
        state.put(Kind.CLASS, item)
    for item in made["slices"]:
        state.put(Kind.SLICE, item)
    for number, item in enumerate(made["allocatedClaims"]):
        metadata = {"name": f"held-{number}", "namespace": "held"} | item["metadata"]
        state.put(Kind.CLAIM, item | {"metadata": metadata})
    entries = []
    claims = problem.claims if problem.raw else tuple(map(with_defaults, problem.claims))
    for number, claim in enumerate(claims):
        name = f"wanted-{number}"
        metadata = {"name": name, "namespace": "ml", "uid": name}
        state.put(Kind.CLAIM, claim.to_wire() | {"metadata": metadata})
        entries.append({"name": name, "resourceClaimName": name})
    pod = {"metadata": {"name": "p", "namespace": "ml", "uid": "p"}, "spec": {"resourceClaims": entries}}
    state.put(Kind.POD, pod)
    return state, ObjectRef(kind="Pod", namespace="ml", name="p")
