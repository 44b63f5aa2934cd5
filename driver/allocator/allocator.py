"""The allocator: for a node and a pod's claims, what kube-scheduler would allocate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from driver.allocator.candidates import Scene
from driver.allocator.demands import ClaimDemand, read_claim
from driver.allocator.errors import AllAtOnceError, AllocationError, NodeAllocationError
from driver.allocator.features import Features
from driver.allocator.ledger import Ledger, holdings
from driver.allocator.on_node import MAX_STEPS, allocate_on, random_uid
from driver.allocator.pools import PoolIndex
from driver.allocator.selection import Selections
from driver.allocator.view import NodeView
from driver.api.resource_v1 import AllocationResult, DeviceClass, Node, ResourceClaim, ResourceSlice
from driver.memo import Memo

__all__ = ["Allocator", "Fit"]

_REMEMBERED: Final = 256
"""For how many kinds of claims the allocator remembers which nodes have no room for them."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Where claims fit.

    Attributes:
        node: The node.
        results: One a claim, in their order.
    """

    node: Node
    results: tuple[AllocationResult, ...]


class Allocator:
    """Allocates devices to claims as Kubernetes' structured allocator does, v1.37.2.

    An allocation changes nothing; :meth:`commit` counts its devices as in use.

    Args:
        slices: All ResourceSlices of the cluster.
        classes: All DeviceClasses.
        allocated: Claims whose ``status.allocation`` is in use.
        features: The feature gates; by default those that Kubernetes 1.36 has on.
        new_share_id: Makes a UID for each share of a device; random by default, as in Kubernetes.
        max_steps: After so many steps of the search for devices a node is given up.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        *,
        allocated: Iterable[ResourceClaim] = (),
        features: Features | None = None,
        new_share_id: Callable[[], str] = random_uid,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._features = features if features is not None else Features()
        self._index = PoolIndex(slices, self._features)
        self._classes = {item.metadata.name: item for item in classes}
        self._selections = Selections(self._features)
        self._ledger = Ledger(self._features)
        self._new_share_id = new_share_id
        self._max_steps = max_steps
        # Nodes on which claims did not fit; commits do not change that, a release may.
        self._full: Memo[tuple[ClaimDemand, ...], set[NodeView]] = Memo(_REMEMBERED)
        for claim in allocated:
            if claim.status.allocation is not None:
                self._ledger.add(holdings(claim.status.allocation))

    def commit(self, results: Iterable[AllocationResult]) -> None:
        """Count allocations as in use from now on."""
        for result in results:
            self._ledger.add(holdings(result))

    def release(self, results: Iterable[AllocationResult]) -> None:
        """Give back allocations that were committed, or that were in use from the start."""
        for result in results:
            self._ledger.remove(holdings(result))
        self._full.clear()

    def allocate(self, node: Node, claims: Sequence[ResourceClaim]) -> tuple[AllocationResult, ...] | None:
        """Allocate ``claims`` together on ``node``.

        Args:
            node: Its name and labels.
            claims: A pod's claims, with the API's defaults, in the pod's order.

        Returns:
            One result a claim; None where they do not fit.

        Raises:
            AllocationError: A claim, a class or a slice is wrong; ``kind`` says whether another node may do.
        """
        return self._allocate(self._index.view(node), claims, self._read(claims))

    def allocate_first(self, nodes: Iterable[Node], claims: Sequence[ResourceClaim]) -> Fit | None:
        """Allocate ``claims`` together on the first of ``nodes`` on which they fit.

        Returns:
            The node and the results; None where they fit nowhere.

        Raises:
            AllocationError: A claim, a class or a slice is wrong, so that no node can do. An error that concerns one
                node only is raised where no other node does.
        """
        demands: tuple[ClaimDemand, ...] | None = None
        full: set[NodeView] | None = None
        error: AllocationError | None = None
        for node in nodes:
            view = self._index.view(node)
            if demands is None:
                demands = self._read(claims)
                full = self._full.get(demands) if self._full else None
            if full is not None and view in full:
                continue
            try:
                results = self._allocate(view, claims, demands)
            except (NodeAllocationError, AllAtOnceError) as raised:
                error = raised if error is None else error
                continue
            if results is not None:
                return Fit(node, results)
            if full is None:
                full = self._full.of(demands, set)
            full.add(view)
        if error is not None:
            raise error
        return None

    def _read(self, claims: Sequence[ResourceClaim]) -> tuple[ClaimDemand, ...]:
        return tuple([read_claim(claim, self._classes, self._features) for claim in claims])

    def _allocate(
        self, view: NodeView, claims: Sequence[ResourceClaim], demands: tuple[ClaimDemand, ...]
    ) -> tuple[AllocationResult, ...] | None:
        return allocate_on(
            Scene(view, self._ledger, self._features, self._selections),
            claims,
            demands,
            classes=self._classes,
            new_share_id=self._new_share_id,
            max_steps=self._max_steps,
        )
