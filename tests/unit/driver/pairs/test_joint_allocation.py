"""Claims of `rootport pairs` on every machine: each group comes out as near as the machine has it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import Allocator
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Node, ObjectMeta, ResourceClaim
from driver.api.validation.claims import validate_claim
from driver.api.validation.defaults import with_defaults
from driver.layout.slices import resource_slices
from driver.model.distance import Level, distance
from driver.model.inventory import Inventory
from driver.pairs import PairsRequest, Scope, claim_spec
from resourceclasses import device_classes_text
from tests.support.joint_cases import JointCase, best_levels, joint_cases, levels_of
from tests.support.topologies import REAL_MACHINE_FILES, machine_file

CLASSES = [manifest.device_class for manifest in read_manifest_text(device_classes_text(), "resourceclasses").classes]
CASES = list(joint_cases())
MOST_STEPS = 600
"""Of the allocator's search: they need fewer than 200."""


def allocated(inventory: Inventory, pairs: PairsRequest) -> list[dict[str, str]] | None:
    metadata = ObjectMeta(name="pairs", namespace="default")
    claim = with_defaults(ResourceClaim(metadata=metadata, spec=claim_spec(pairs)))
    assert validate_claim(claim) == ()
    node = Node(metadata=ObjectMeta(name=inventory.node))
    found = Allocator(resource_slices(inventory), CLASSES, max_steps=MOST_STEPS).allocate(node, [claim])
    return None if found is None else [result.to_wire() for result in found[0].devices.results]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_groups_are_as_near_as_the_machine_has_them(case: JointCase) -> None:
    results = allocated(case.inventory, case.pairs)

    assert case.is_met(results), results and case.came_out(results)
    if case.levels is None or results is None:
        return
    assert len({result["device"] for result in results}) == case.pairs.gpus + case.pairs.nics
    if case.pairs.scope is Scope.LADDER:
        rungs = sorted(result["request"].partition("/")[2] for result in results if result["request"].startswith("nic"))
        assert rungs == sorted(level for level in case.levels for _ in range(case.pairs.nics_each))


def test_the_cases_are_of_every_kind() -> None:
    assert len(REAL_MACHINE_FILES) == 12
    assert {level for case in CASES for level in case.levels or ()} == {"switch", "root", "numa", "node"}
    assert any(case.levels is None for case in CASES)


def every_assignment(gpus: Sequence[str], nics: Sequence[str], count: int) -> list[list[tuple[str, str]]]:
    """All ways to make so many pairs, whatever their order."""
    return [
        list(zip(chosen, order, strict=True))
        for chosen in itertools.combinations(gpus, count)
        for order in itertools.permutations(nics, count)
    ]


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("count", [1, 2])
def test_counting_finds_what_trying_every_assignment_finds(topology: Path, count: int) -> None:
    """The expectations of the cases, proven plainly where there are few enough ways."""
    inventory = read_topology(topology)
    ranks = {"switch": 0, "root": 1, "numa": 2, "node": 3}
    gpus, nics = ([device.name for device in devices] for devices in (inventory.gpus, inventory.nics))
    best = None
    for pairs in every_assignment(gpus, nics, count):
        results = [
            {"request": f"{kind}-{number}", "device": name}
            for number, pair in enumerate(pairs)
            for kind, name in zip(("gpu", "nic"), pair, strict=True)
        ]
        levels = sorted(levels_of(inventory, results), key=ranks.__getitem__)
        if best is None or [ranks[level] for level in levels] < [ranks[level] for level in best]:
            best = levels
    found = best_levels(inventory, PairsRequest(gpus=count, nics=count))
    assert (None if best is None or "apart" in best else tuple(sorted(best))) == found


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda path: path.stem)
def test_one_pair_is_at_the_least_distance_there_is(topology: Path) -> None:
    inventory = read_topology(topology)
    every = [distance(inventory, gpu.address, nic.address) for gpu in inventory.gpus for nic in inventory.nics]
    results = allocated(inventory, PairsRequest(gpus=1, nics=1))
    if results is None:
        assert not every or min(every).level is Level.SYS
        return
    addresses = {device.name: device.address for device in inventory.devices()}
    nic, gpu = (addresses[result["device"]] for result in results)
    assert distance(inventory, gpu, nic) == min(every)


def test_a_gpu_without_a_switch_does_not_take_the_switch_rung() -> None:
    """One pair is under a switch, the other GPUs are under none: the switch's constraint would not keep them off."""
    inventory = read_topology(machine_file("azure-nd-h100-v5"))
    gpus = (inventory.gpus[0], *(replace(gpu, pcie=replace(gpu.pcie, switches=())) for gpu in inventory.gpus[1:]))
    mixed = replace(inventory, gpus=gpus)
    results = allocated(mixed, PairsRequest(gpus=4, nics=4))
    assert results is not None
    assert sorted(result["request"].partition("/")[2] for result in results if result["request"].startswith("nic")) == [
        "numa",
        "numa",
        "numa",
        "switch",
    ]
    assert sorted(levels_of(mixed, results)) == ["numa", "numa", "numa", "switch"]


def test_half_gpus_of_a_claim_are_of_different_gpus() -> None:
    inventory = read_topology(machine_file("azure-nd-a100-v4"))
    results = allocated(inventory, PairsRequest(gpus=3, nics=3, gpu_core=Quantity("50")))
    assert results is not None
    assert len({result["device"] for result in results}) == 6
