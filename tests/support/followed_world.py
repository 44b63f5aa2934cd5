"""A cluster whose pending claims the modes of GPUs follow, without an API server."""

from __future__ import annotations

from collections.abc import Sequence

from controller.demand.follower import DemandFollower
from controller.demand.turns import DemandPace, TrackedPod
from controller.explanations.shared_state import SharedClusterState
from controller.modes.wishes import Wishes
from driver.explain.known.cluster import Kind
from driver.modes.rule import Layout
from driver.modes.supply import InventoryGpus
from tests.support.demand_world import World

__all__ = ["FollowedWorld"]


class FollowedWorld:
    """A world behind the lock that the controller's threads share, followed with a clock that a test moves."""

    def __init__(self, *, nodes: int = 1, gpus: int = 2, pace: DemandPace | None = None) -> None:
        self.shared = SharedClusterState()
        self.world = World(nodes, gpus, state=self.shared._state)
        self.layout = Layout.ONE
        self.now = 1000.0
        self.enqueued: list[str] = []
        self.wishes = Wishes(self.enqueued.append)
        self.follower = DemandFollower(self.shared, is_synced=lambda: True, pace=pace, clock=lambda: self.now)

    @property
    def rules(self) -> Sequence[object]:
        return (self.world.policies,)

    def gpus_of(self, node: str) -> InventoryGpus | None:
        return self.world.gpus_of(node)

    def look(self, after_s: float = 3.0) -> None:
        self.now += after_s
        self.follower.look(self, self.wishes)

    def tracked(self) -> Sequence[TrackedPod]:
        """The pods that are followed."""
        return tuple(self.follower._turns._pods.values())

    def gpu_wishes(self, node: str = "n1") -> dict[int, frozenset[str]]:
        """The wishes by the GPU's place in the inventory."""
        places = {gpu.name: index for index, gpu in enumerate(self.world.inventories[node].gpus)}
        return {places[name]: frozenset(wanted) for name, wanted in self.wishes.of(node).items()}

    def carry_out(self) -> None:
        self.world.carry_out({node: self.wishes.of(node) for node in self.world.inventories})

    def place(self, pod: str, namespace: str = "ml") -> None:
        """As if the scheduler had placed it: its pod is not watched any more."""
        self.shared._state.remove(Kind.POD, f"{namespace}/{pod}")
        self.world.release(pod, namespace)
