"""Whatever happens in a cluster, in whatever order: no device twice, no node over its capacity, the same answers."""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pytest

from driver.allocator import Allocator
from driver.allocator.ledger import holdings
from driver.api.resource_v1 import AllocationResult
from driver.explain.known.cluster import PodState
from driver.modes.rule import Layout
from driver.placement.decision import Decision
from driver.placement.mix import Mix
from driver.placement.placer import Placer
from driver.placement.policies import POLICIES
from driver.placement.shapes import PodShape
from tests.support.placement_world import PlacementWorld, gpus, mig, nics, share

MIX: Final = Mix.of(
    [PodShape(4000, 1 << 34, 1, 500), PodShape(8000, 1 << 35, 1, 1000), PodShape(8000, 1 << 35, 4, 1000)]
)
STEPS: Final = 100
CHECKED: Final = 0.3
"""Of the decisions: what makes sure of one takes a hundred times as long."""


class _Sequence:
    """One cluster, and a random course of events that a seed decides."""

    def __init__(self, seed: int, policy: str, layout: Layout) -> None:
        self.draw = random.Random(seed)
        self.policy = policy
        self.world = PlacementWorld(2, layout=layout, policy=policy, mix=MIX, new_share_id=self._share_id)
        self.shares = 0
        self.waiting: list[str] = []
        self.assumed: dict[str, Decision] = {}
        self.running: list[str] = []
        self.results: dict[str, tuple[AllocationResult, ...]] = {}
        self.number = self.placed = self.refused = 0

    def _share_id(self) -> str:
        self.shares += 1
        return f"00000000-0000-4000-8000-{self.shares:012}"

    def step(self) -> None:
        choice = self.draw.choice((*("come", "decide") * 4, "write", "write", "forget", "end", "cordon", "label"))
        if choice == "come":
            self.come()
        elif choice == "decide" and self.waiting:
            self.decide(self.draw.choice(self.waiting))
        elif choice == "write" and self.assumed:
            name = self.draw.choice(sorted(self.assumed))
            decision = self.assumed.pop(name)
            assert decision.chosen is not None
            self.world.write(decision)
            self.world.bind(name, decision.chosen.node)
            self.running.append(name)
        elif choice == "forget" and self.assumed:
            name = self.draw.choice(sorted(self.assumed))
            self.world.placer.forget(self.assumed.pop(name))
            del self.results[name]
            self.waiting.append(name)
        elif choice == "end" and self.running:
            name = self.running.pop(self.draw.randrange(len(self.running)))
            self.world.end(name)
            del self.results[name]
        elif choice in {"cordon", "label"}:
            node = f"n000{self.draw.randrange(2)}"
            spec = {"unschedulable": True} if choice == "cordon" and self.draw.random() < 0.5 else {}
            self.world.add_node(node, spec=spec, managed=choice == "cordon" or self.draw.random() < 0.8)

    def come(self) -> None:
        kinds = (
            lambda: [[share(self.draw.choice((10, 25, 50)))]],
            lambda: [[gpus(self.draw.choice((1, 1, 2, 4, 8)))]],
            lambda: [[gpus(2), nics(2)]],
            lambda: [[share(30)], [nics()]],
            *((lambda: [[mig(self.draw.choice(("1g.10gb", "3g.40gb")))]],) if self.world.layout is Layout.FULL else ()),
        )
        name = f"p{self.number}"
        self.number += 1
        cpu = self.draw.choice(("0", "8", "40"))
        self.world.pod(name, *self.draw.choice(kinds)(), cpu=cpu, memory=self.draw.choice(("0", "200Gi")))
        self.waiting.append(name)

    def decide(self, name: str) -> None:
        decision = self.world.place(name)
        self.placed += decision.chosen is not None
        self.refused += decision.chosen is None
        if self.draw.random() < CHECKED:
            self.check_same(name, decision)
            self.check_allocator(name, decision)
        if decision.chosen is not None and self.draw.random() < 0.8:
            self.world.placer.assume(decision)
            self.waiting.remove(name)
            self.assumed[name] = decision
            self.results[name] = decision.chosen.results

    def check_same(self, name: str, decision: Decision) -> None:
        """Asked again, and by a placer that is new, the answer is the same."""
        assert _bare(self.world.place(name)) == _bare(decision)
        fresh = Placer(self.world.state, policy=self.policy, mix=MIX)
        for key in self.running:
            fresh.put_bound_pod(f"ml/{key}", self.world.bound_wire(key))
        pod = self.world.state.pod(f"ml/{name}")
        assert pod is not None
        assert _bare(fresh.place(pod)) == _bare(decision)

    def check_allocator(self, name: str, decision: Decision) -> None:
        """The node is one where the allocator serves the claims, or there is no such node with room."""
        state = self.world.state
        allocator = Allocator(self.world.slices(), state.classes.values())
        allocator.commit([result for results in self.results.values() for result in results])
        claims = [claim.claim for claim in decision.claims if claim.claim is not None]
        pod = state.pod(f"ml/{name}")
        assert pod is not None
        fitting = {
            node.node.metadata.name
            for node in state.nodes.values()
            if node.node.metadata.labels.get("rootport.dev/placement") == "managed"
            and not node.unschedulable
            and self._has_room(node.node.metadata.name, pod)
            and allocator.allocate(node.node, claims) is not None
        }
        if decision.chosen is None:
            assert not fitting, decision.why
        else:
            assert decision.chosen.node in fitting
            assert (decision.runner_up is not None) == (len(fitting) > 1)

    def _has_room(self, node: str, pod: PodState) -> bool:
        there = self.world.state.nodes[node].allocatable
        assert there is not None
        used = self.used(node)
        return all(amount + used[resource] <= there[resource] for resource, amount in pod.needs.requests.items())

    def used(self, node: str) -> Counter[str]:
        """What the pods request that are on a node, or about to be."""
        used: Counter[str] = Counter()
        for name, results in self.results.items():
            if results[0].devices.results[0].pool == node:
                used.update(self.world.requests(name))
        return used

    def check_capacity(self) -> None:
        """No device is given twice, no more of a device than there is, and no node holds more than it has."""
        whole: Counter[str] = Counter()
        consumed: Counter[tuple[str, str]] = Counter()
        for results in self.results.values():
            for held in (item for result in results for item in holdings(result)):
                if held.share_id is None:
                    whole[str(held.device)] += 1
                for name, amount in held.consumed.items():
                    consumed[str(held.device), name] += amount
        assert all(count == 1 for count in whole.values())
        capacities = self.world.capacities()
        assert all(amount <= capacities[key] for key, amount in consumed.items())
        for name, node in self.world.state.nodes.items():
            assert node.allocatable is not None
            assert all(amount <= node.allocatable[resource] for resource, amount in self.used(name).items())


def _bare(decision: Decision) -> object:
    """A decision without the UIDs of shares, which are drawn."""
    places = [
        place
        and (place.node, place.score, [[item.device for item in result.devices.results] for result in place.results])
        for place in (decision.chosen, decision.runner_up)
    ]
    return places, decision.why, [claim.key for claim in decision.claims]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(("layout", "seed"), [(Layout.ONE, 1), (Layout.ONE, 2), (Layout.FULL, 1)])
def test_every_course_of_events_keeps_to_what_there_is(seed: int, policy: str, layout: Layout) -> None:
    course = _Sequence(seed, policy, layout)
    for _ in range(STEPS):
        course.step()
        course.check_capacity()
    assert course.placed
