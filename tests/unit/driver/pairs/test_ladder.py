"""The ladder refuses nothing that the node can give, and gives the nearest there is, group by group."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Final

import pytest

from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import Allocator
from driver.api.resource_v1 import Node, ObjectMeta, ResourceClaim
from driver.api.validation.claims import validate_claim
from driver.api.validation.defaults import with_defaults
from driver.layout.slices import resource_slices
from driver.model.devices import Gpu, RdmaNic
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from driver.pairs import PairsRequest, Scope, claim_spec
from resourceclasses import device_classes_text
from tests.support.topologies import REAL_MACHINE_FILES, machine_file

CLASSES: Final = [
    manifest.device_class for manifest in read_manifest_text(device_classes_text(), "resourceclasses").classes
]
ORDER: Final = (Scope.SWITCH, Scope.ROOT, Scope.NUMA, Scope.NODE)
SEEDS: Final = 150

_Group = list[Gpu | RdmaNic]


def level(devices: Sequence[Gpu | RdmaNic]) -> Scope:
    """The nearest rung that holds these devices together, from where they are alone."""
    paths = [device.pcie for device in devices]
    switches, roots = {path.switch for path in paths}, {path.root for path in paths}
    numa_nodes = {path.numa_node for path in paths}
    known = numa_nodes - {None}
    if len(switches) == 1 and None not in switches:
        return Scope.SWITCH
    if len(roots) == 1 and None not in roots and len(known) <= 1 and (len(devices) == 2 or len(numa_nodes) == 1):
        # Of two devices one may have no NUMA node; of more, all or none have to: docs/user/joint-allocation.md.
        return Scope.ROOT
    if len(known) == 1 and None not in numa_nodes:
        return Scope.NUMA
    return Scope.NODE


def random_machine(seed: int) -> Inventory:
    """An ND H100 v5 whose devices hang anywhere; often something is not known of some, or of all."""
    chance = random.Random(seed)
    inventory = read_topology(machine_file("azure-nd-h100-v5"))
    gpus = inventory.gpus[: chance.randint(1, 5)]
    nics = inventory.nics[: chance.randint(1, 5)]
    unknown = {name: chance.choice((0.0, 0.0, 0.4, 1.0)) for name in ("switch", "root", "numa")}

    def place() -> PciePath:
        # A root of two NUMA nodes is what clouds make; a switch is below one root, of one node.
        root, numa, switch = chance.randrange(3), chance.randrange(2), chance.randrange(2)
        known = {name: chance.random() >= rate for name, rate in unknown.items()}
        return PciePath(
            root=f"pci{root:04x}:00" if known["root"] else None,
            switches=(PciAddress(f"{root * 4 + numa * 2 + switch + 1:04x}:f0:00.0"),) if known["switch"] else (),
            numa_node=numa if known["numa"] else None,
        )

    return replace(
        inventory,
        gpus=tuple(replace(gpu, pcie=place()) for gpu in gpus),
        nics=tuple(replace(nic, pcie=place()) for nic in nics),
    )


def groups_of(inventory: Inventory, pairs: PairsRequest) -> list[tuple[str, _Group]] | None:
    """What each group is given, in their order, with its rung; None where the claim is not allocated."""
    claim = ResourceClaim(metadata=ObjectMeta(name="pairs", namespace="default"), spec=claim_spec(pairs))
    assert validate_claim(claim) == ()
    allocator = Allocator(resource_slices(inventory), CLASSES)
    found = allocator.allocate(Node(metadata=ObjectMeta(name=inventory.node)), [with_defaults(claim)])
    if found is None:
        return None
    devices: dict[str, Gpu | RdmaNic] = {device.name: device for device in (*inventory.gpus, *inventory.nics)}
    groups: list[tuple[str, _Group]] = []
    for number in range(pairs.groups):
        own = [item for item in found[0].devices.results if item.request.partition("/")[0].endswith(f"-{number}")]
        rungs = {item.request.partition("/")[2].removesuffix("-no-numa") for item in own}
        assert len(rungs) == 1, "a group is on one rung"
        groups.append((rungs.pop(), [devices[item.device] for item in own]))
    return groups


def every_group(gpus: Sequence[Gpu], nics: Sequence[RdmaNic], pairs: PairsRequest) -> Iterator[_Group]:
    """All ways to make one group of what is free."""
    for some in combinations(gpus, pairs.gpus_each):
        for others in combinations(nics, pairs.nics_each):
            yield [*some, *others]


def assert_each_group_is_the_nearest_of_what_was_left(
    inventory: Inventory, pairs: PairsRequest, groups: Sequence[tuple[str, _Group]]
) -> None:
    gpus, nics = list(inventory.gpus), list(inventory.nics)
    for rung, group in groups:
        nearest = min((level(one) for one in every_group(gpus, nics, pairs)), key=ORDER.index)
        assert rung == level(group).value == nearest.value
        for device in group:
            (gpus if isinstance(device, Gpu) else nics).remove(device)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (2, 1), (4, 2), (1, 2)], ids=str)
def test_on_random_machines_all_that_there_is_is_given_and_the_nearest_first(shape: tuple[int, int]) -> None:
    pairs = PairsRequest(gpus=shape[0], nics=shape[1])
    pairs = replace(pairs, scope=Scope.LADDER)
    seen = set()
    for seed in range(SEEDS):
        inventory = random_machine(seed)
        groups = groups_of(inventory, pairs)
        has_room = len(inventory.gpus) >= pairs.gpus and len(inventory.nics) >= pairs.nics
        assert (groups is not None) == has_room, seed
        if groups is not None:
            assert_each_group_is_the_nearest_of_what_was_left(inventory, pairs, groups)
            seen |= {rung for rung, _ in groups}
    assert seen == {rung.value for rung in ORDER}


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_on_real_machines_all_that_there_is_is_given_and_the_nearest_first(topology: Path, count: int) -> None:
    inventory = read_topology(topology)
    pairs = PairsRequest(gpus=count, nics=count, scope=Scope.LADDER)
    groups = groups_of(inventory, pairs)
    assert (groups is not None) == (min(len(inventory.gpus), len(inventory.nics)) >= count)
    if groups is not None:
        assert_each_group_is_the_nearest_of_what_was_left(inventory, pairs, groups)


@pytest.mark.parametrize("farthest", [Scope.ROOT, Scope.NUMA])
def test_a_ladder_that_ends_before_gives_nothing_farther_and_all_that_is_nearer(farthest: Scope) -> None:
    pairs = PairsRequest(gpus=1, nics=1, scope=Scope.LADDER, farthest=farthest)
    outcomes = set()
    for seed in range(SEEDS):
        inventory = random_machine(seed)
        groups = groups_of(inventory, pairs)
        nearest = min((level(one) for one in every_group(inventory.gpus, inventory.nics, pairs)), key=ORDER.index)
        outcomes.add(groups is None)
        assert (groups is None) == (ORDER.index(nearest) > ORDER.index(farthest)), seed
        if groups is not None:
            assert groups[0][0] == nearest.value
    assert outcomes == {True, False}


def without(inventory: Inventory, **unknown: tuple[()] | None) -> Inventory:
    def cut(path: PciePath) -> PciePath:
        return replace(path, **unknown)

    return replace(
        inventory,
        gpus=tuple(replace(gpu, pcie=cut(gpu.pcie)) for gpu in inventory.gpus),
        nics=tuple(replace(nic, pcie=cut(nic.pcie)) for nic in inventory.nics),
    )


@pytest.mark.parametrize(
    ("unknown", "rung"),
    [
        pytest.param({}, "switch", id="all-known"),
        pytest.param({"switches": ()}, "numa", id="no-switches"),
        pytest.param({"root": None}, "switch", id="no-roots"),
        pytest.param({"numa_node": None}, "switch", id="no-numa-nodes"),
        pytest.param({"switches": (), "root": None}, "numa", id="numa-nodes-alone"),
        pytest.param({"switches": (), "numa_node": None}, "node", id="roots-alone"),
        pytest.param({"switches": (), "numa_node": None, "root": None}, "node", id="nothing"),
    ],
)
def test_what_is_not_known_of_a_machine_refuses_nothing(unknown: dict[str, None], rung: str) -> None:
    inventory = without(read_topology(machine_file("azure-nd-h100-v5")), **unknown)
    groups = groups_of(inventory, PairsRequest(gpus=2, nics=2, scope=Scope.LADDER))
    assert groups is not None
    assert [found for found, _ in groups] == [rung, rung]


def test_two_sockets_under_one_virtual_root_are_no_nearer_than_the_node() -> None:
    inventory = read_topology(machine_file("azure-nd-h100-v5"))
    gpu, nic = inventory.gpus[0], inventory.nics[0]

    def with_numa_nodes(one: int | None, other: int | None) -> Inventory:
        path = PciePath(root="pci0000:00")
        return replace(
            inventory,
            gpus=(replace(gpu, pcie=replace(path, numa_node=one)),),
            nics=(replace(nic, pcie=replace(path, numa_node=other)),),
        )

    pairs = PairsRequest(gpus=1, nics=1, scope=Scope.LADDER)
    rungs = {
        numa_nodes: groups[0][0]
        for numa_nodes in ((0, 1), (0, 0), (None, None), (0, None), (None, 0))
        if (groups := groups_of(with_numa_nodes(*numa_nodes), pairs)) is not None
    }
    assert rungs == {(0, 1): "node", (0, 0): "root", (None, None): "root", (0, None): "root", (None, 0): "root"}
