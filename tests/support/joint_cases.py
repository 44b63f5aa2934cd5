"""Joint claims for every machine there is a topology of, and what each must come out as. Imported by its bare name.

What to expect is found by counting devices in the machine's inventory (:func:`best_levels`: the most groups that it has
at each level, nearest first), and not by asking the allocator or the layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from driver.adapters.machines.topology import read_topology
from driver.model.devices import Gpu, RdmaNic
from driver.model.inventory import Inventory
from driver.pairs import PairsRequest, Scope, claim_spec
from tests.support.topologies import REAL_MACHINE_FILES

__all__ = ["JointCase", "best_levels", "joint_cases", "levels_of"]

_COUNTS: Final = (1, 2, 4, 8)


@dataclass(frozen=True)
class JointCase:
    """One claim for one machine.

    Attributes:
        topology: The machine's NCCL topology file.
        pairs: What the claim asks for.
        levels: What each group must come out as, in any order: ``switch``, ``root``, ``numa`` or ``node``; None where
            the machine has no room for the claim.
    """

    topology: Path
    pairs: PairsRequest
    levels: tuple[str, ...] | None

    @property
    def id(self) -> str:
        """For pytest."""
        end = f"-{self.pairs.farthest}" if self.pairs.scope is Scope.LADDER else ""
        return f"{self.topology.stem}-{self.pairs.gpus}-gpus-{self.pairs.nics}-nics-{self.pairs.scope}{end}"

    @cached_property
    def inventory(self) -> Inventory:
        """The machine; the node is named after the file."""
        return read_topology(self.topology)

    @property
    def is_quick(self) -> bool:
        """Whether kube-scheduler, which remembers no failed situation, answers within its limit of 10 s.

        A ladder of more than three groups that does not fit takes it longer: it tries every order of the groups.
        """
        return self.levels is not None or self.pairs.scope is not Scope.LADDER or self.pairs.groups <= 3

    def manifest(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """The ResourceClaim as ``rootport pairs`` writes it."""
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": claim_spec(self.pairs).to_wire(),
        }

    def is_met(self, results: Sequence[Mapping[str, Any]] | None) -> bool:
        """Whether an allocation, None for none, is as near as the machine allows, or as the one scope asks."""
        if results is None or self.levels is None:
            return results is None and self.levels is None
        if self.pairs.scope is Scope.LADDER:
            return self.came_out(results) == self.levels
        order = [Scope.SWITCH, Scope.ROOT, Scope.NUMA]
        levels = self.came_out(results)
        return "node" not in levels and all(
            order.index(Scope(level)) <= order.index(self.pairs.scope) for level in levels
        )

    def came_out(self, results: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Each group's level, from ``status.allocation.devices.results``; sorted as :attr:`levels` is."""
        return tuple(sorted(levels_of(self.inventory, results)))


def joint_cases() -> Iterator[JointCase]:
    """1, 2, 4 and 8 pairs, and groups of two GPUs with one NIC, at every scope, on every machine."""
    for topology in REAL_MACHINE_FILES:
        inventory = read_topology(topology)
        for scope in (Scope.SWITCH, Scope.ROOT, Scope.NUMA):
            for count in _COUNTS:
                yield _case(topology, inventory, PairsRequest(gpus=count, nics=count, scope=scope))
            yield _case(topology, inventory, PairsRequest(gpus=4, nics=2, scope=scope))
        for gpus, nics in ((1, 1), (2, 2), (4, 4), (4, 2)):
            for farthest in (Scope.NUMA, Scope.NODE):
                pairs = PairsRequest(gpus=gpus, nics=nics, scope=Scope.LADDER, farthest=farthest)
                yield _case(topology, inventory, pairs)


def _case(topology: Path, inventory: Inventory, pairs: PairsRequest) -> JointCase:
    return JointCase(topology=topology, pairs=pairs, levels=best_levels(inventory, pairs))


def best_levels(inventory: Inventory, pairs: PairsRequest) -> tuple[str, ...] | None:
    """The level of each group where as many groups as can be are near, nearest first; None where there is no room.

    All ways to divide the GPUs and NICs are too many, but those of one switch (root, NUMA node) are alike in everything
    that a later level looks at, so that it is enough to count them: how many groups a place has room for.
    """
    gpus, nics = list(inventory.gpus), list(inventory.nics)
    found: list[str] = []
    scopes = pairs.rungs if pairs.scope is Scope.LADDER else (pairs.scope,)
    for scope in scopes:
        exact = pairs.scope is not Scope.LADDER
        places: defaultdict[object, tuple[list[Gpu], list[RdmaNic]]] = defaultdict(lambda: ([], []))
        for gpu in gpus:
            places[_place(gpu, scope, alone=exact)][0].append(gpu)
        for nic in nics:
            places[_place(nic, scope, alone=exact)][1].append(nic)
        for place, (its_gpus, its_nics) in places.items():
            while (
                place is not None
                and len(found) < pairs.groups
                and len(its_gpus) >= pairs.gpus_each
                and len(its_nics) >= pairs.nics_each
            ):
                for _ in range(pairs.gpus_each):
                    gpus.remove(its_gpus.pop())
                for _ in range(pairs.nics_each):
                    nics.remove(its_nics.pop())
                found.append(scope.value)
    return tuple(sorted(found)) if len(found) == pairs.groups else None


def levels_of(inventory: Inventory, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The nearest level that holds each group of an allocation together."""
    devices: dict[str, Gpu | RdmaNic] = {device.name: device for device in (*inventory.gpus, *inventory.nics)}
    groups: defaultdict[str, list[Gpu | RdmaNic]] = defaultdict(list)
    for result in results:
        groups[result["request"].partition("/")[0].rpartition("-")[2]].append(devices[result["device"]])
    for group in groups.values():
        assert {device.type.value for device in group} == {"gpu", "rdma"}
        for scope in (Scope.SWITCH, Scope.ROOT, Scope.NUMA):
            # Of the root alone, without the NUMA node: that is what the scope promises.
            places = [_place(device, scope, alone=True) for device in group]
            if None not in places and all(one == other for one, other in combinations(places, 2)):
                yield scope.value
                break
        else:
            yield "node"


def _place(device: Gpu | RdmaNic, scope: Scope, *, alone: bool) -> object | None:
    """What devices must have in common to be together at a scope."""
    path = device.pcie
    match scope:
        case Scope.SWITCH:
            return path.switch
        case Scope.ROOT:
            # The ladder's root rung is of one NUMA node as well.
            return path.root if alone or path.root is None else (path.root, path.numa_node)
        case Scope.NODE:
            return "anywhere"
        case _:
            return path.numa_node
