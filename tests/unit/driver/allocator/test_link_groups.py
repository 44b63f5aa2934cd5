"""The best linked GPUs of a DGX-1 and a DGX-2, as Rootport's allocator and Kubernetes' own give them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest

from driver.adapters.files.allocation_problems import AllocationProblem, answer
from driver.adapters.machines.topology import read_topology
from tests.support.agreement import disagreements
from tests.support.link_problems import gpu_names, link_problems
from tests.support.paths import REPO
from tests.support.topologies import machine_file

Json = dict[str, Any]

FILE = REPO / "tests" / "data" / "conformance" / "link-groups.jsonl"
ANSWERED = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
BEST = {
    "dgx-1-v100": {2: ["03", "12", "47", "56"], 4: ["0123", "4567"], 8: ["01234567"]},
    "dgx-2": {
        size: [bytes(range(first, first + size)).hex()[1::2] for first in range(0, 16, size)] for size in (2, 4, 8, 16)
    },
}
"""NVIDIA/go-gpuallocator, gpuallocator/staticdgx_policies.go; GPUs by one hexadecimal digit each."""


def given(problem: Json, answered: Json) -> list[str]:
    """The GPUs of each claim."""
    numbers = gpu_names(machine_of(problem))
    return [
        "".join(sorted(f"{numbers[result['device']]:x}" for result in each["devices"]["results"]))
        for each in answered["result"]
    ]


def machine_of(problem: Json) -> str:
    return next(machine for machine in BEST if problem["id"].startswith(machine))


def links(gpus: Iterable[int]) -> int:
    machine = read_topology(machine_file("dgx-1-v100"))
    address = {gpu.index: gpu.address for gpu in machine.gpus}
    return sum(
        link.count
        for a, b in combinations(sorted(gpus), 2)
        for link in machine.gpus[a].links
        if link.peer == address[b]
    )


def test_the_answers_are_to_what_is_published_now() -> None:
    asked = [{key: value for key, value in problem.items() if key != "oracle"} for problem in ANSWERED]
    assert asked == list(link_problems())


@pytest.mark.parametrize("problem", ANSWERED, ids=lambda problem: problem["id"])
def test_our_allocator_gives_what_kubernetes_gives(problem: Json) -> None:
    assert disagreements(problem, answer(AllocationProblem.model_validate(problem))) == []


@pytest.mark.parametrize(
    "problem", [each for each in ANSWERED if not each["allocatedClaims"]], ids=lambda problem: problem["id"]
)
def test_claims_get_the_known_best_sets_of_a_free_machine(problem: Json) -> None:
    found = given(problem, problem["oracle"])
    assert sorted(found) == BEST[machine_of(problem)][len(found[0])]


@pytest.mark.parametrize(
    "problem", [each for each in ANSWERED if each["allocatedClaims"]], ids=lambda problem: problem["id"]
)
def test_after_random_gpus_are_taken_a_claim_gets_the_best_group_that_is_free(problem: Json) -> None:
    numbers = gpu_names("dgx-1-v100")
    used = {
        numbers[result["device"]]
        for claim in problem["allocatedClaims"]
        for result in claim["status"]["allocation"]["devices"]["results"]
    }
    (found,) = given(problem, problem["oracle"])
    for groups in (BEST["dgx-1-v100"][len(found)], BEST["dgx-1-v100"][4]):
        free = [set(map(int, group)) - used for group in groups]
        possible = [set(each) for group in free for each in combinations(sorted(group), len(found))]
        if possible:
            assert set(map(int, found)) in possible
            assert links(map(int, found)) > 0
            return
    pytest.fail("the problems are such that one quad at least has room")
