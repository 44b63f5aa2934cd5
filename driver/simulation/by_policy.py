"""Places simulated pods by a policy of Rootport's placement, instead of on the first node that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from driver.allocator import Fit
from driver.allocator.ledger import holdings
from driver.api.resource_v1 import DeviceClass, Node, ResourceClaim, ResourceSlice
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.placement.placer import Placer
from driver.simulation.workloads import SimulatedPod

__all__ = ["Fragmented", "PolicyPlacement"]


@dataclass(frozen=True, slots=True)
class Fragmented:
    """How fragmented the nodes' GPUs are.

    Attributes:
        policy: The policy by which pods were placed.
        unusable: By node, how many thousandths of free GPUs typical pods cannot use.
        free: How many thousandths of GPUs are free on all nodes.
    """

    policy: str
    unusable: dict[str, float]
    free: int


class PolicyPlacement:
    """Places pods, and remembers what was placed.

    Args:
        policy: The policy's name.
        slices: What all nodes publish.
        classes: The DeviceClasses.
        nodes: The nodes.
        claims: The claims of the files; those that are allocated keep their devices.
        new_share_id: Makes a UID for each share of a device.
    """

    def __init__(
        self,
        policy: str,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        nodes: Sequence[Node],
        claims: Iterable[ResourceClaim],
        new_share_id: Callable[[], str],
    ) -> None:
        self._policy = policy
        self._state = state = ClusterState()
        self._nodes = {node.metadata.name: node for node in nodes}
        for item in slices:
            state.publish(item)
        for item_class in classes:
            state.put(Kind.CLASS, item_class.to_wire())
        for node in nodes:
            state.put(Kind.NODE, {"metadata": node.metadata.to_wire()})
        for claim in claims:
            state.put(Kind.CLAIM, claim.to_wire())
        self._placer = Placer(state, policy=policy, managed_only=False, new_share_id=new_share_id)

    def place(self, pod: SimulatedPod, claims: Sequence[ResourceClaim]) -> Fit | None:
        """Place a pod whose claims are all known.

        Args:
            pod: The pod.
            claims: Those that have no allocation, in its order.

        Returns:
            The node and the results; None where it fits nowhere.
        """
        decision = self._placer.place(pod.state)
        if decision.chosen is None:
            return None
        self._placer.assume(decision)
        keys = [claim.key for claim in decision.claims]
        results = dict(zip(keys, decision.chosen.results, strict=True))
        return Fit(self._nodes[decision.chosen.node], tuple(results[_key(claim)] for claim in claims))

    def expect(self, pods: Iterable[SimulatedPod]) -> None:
        """Take all pods of the files for what is typical, also those that will fit nowhere."""
        self._placer.learn(pod.state for pod in pods)

    def took(self, claims: Sequence[ResourceClaim], fit: Fit) -> None:
        """Count what was placed otherwise."""
        for claim, result in zip(claims, fit.results, strict=True):
            self._state.put(Kind.CLAIM, claim.to_wire())
            known = self._state.claim(_key(claim))
            if known is not None:
                holds = tuple(holdings(result))
                self._state.assume(replace(known, claim=None, allocated=True, holds=holds))

    def fragmentation(self) -> Fragmented:
        """Return how fragmented the nodes are now."""
        return Fragmented(self._policy, dict(self._placer.fragmentation()), self._placer.free_thousandths())


def _key(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
