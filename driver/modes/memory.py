"""Remembers what is known about pods that wait: on which nodes their claims do not fit, and where no change helps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from driver import DRIVER_NAME
from driver.allocator.demands import ClaimDemand
from driver.allocator.identity import PoolId
from driver.allocator.likeness import KnownDevices, Likeness
from driver.allocator.selection import Selections
from driver.api.resource_v1 import Node
from driver.errors import RootportError
from driver.memo import Memo
from driver.model.devices import DeviceName
from driver.modes.gpu import card_of
from driver.modes.hypothesis import NodeGpus, NodeNow

__all__ = ["Case", "Cluster", "DemandMemory"]

_CASES: Final = 32
"""For how many kinds of claims it is remembered which nodes have no room for them."""
_LAID_OUT: Final = 64
"""After so many nodes were laid out, the answers of selectors about their devices are forgotten: they hold these."""
_USES: Final = 4096


class Cluster(KnownDevices, Protocol):
    """The devices of a cluster, what of them is in use, and whether that has changed."""

    def version(self, node: str) -> int:
        """Return a number that grows when the node's devices, taints, holdings or inventory may have changed."""


@dataclass(slots=True, eq=False)
class Case:
    """What is known about pods whose claims ask for the same.

    Attributes:
        likeness: Recognizes nodes with equal answers.
        kinds: Whether the claims fit a node of a kind, with what is published.
        fits: The same by the node's name, with its version and the node as it was.
        in_vain: By the node's name, its version when no change of its GPUs would have helped.
    """

    likeness: Likeness
    kinds: dict[tuple[object, ...], bool] = field(default_factory=dict)
    fits: dict[str, tuple[int, Node, bool]] = field(default_factory=dict)
    in_vain: dict[str, int] = field(default_factory=dict)


class DemandMemory:
    """What is remembered from round to round, so that only what has changed is worked out again. Not thread-safe.

    Args:
        cluster: The cluster's devices; may change between two rounds, not during one.
        gpus_of: Returns what a node's GPUs could be published as; None where nothing can be published for it.

    Attributes:
        cluster: The same.
        sets: By node and GPU, the wishes at the end of the last round.
    """

    def __init__(self, cluster: Cluster, gpus_of: Callable[[str], NodeGpus | None]) -> None:
        self.cluster = cluster
        self.sets: Mapping[str, Mapping[DeviceName, frozenset[DeviceName]]] = {}
        self._gpus_of = gpus_of
        self._cases: OrderedDict[tuple[ClaimDemand, ...], Case] = OrderedDict()
        self._selections = Selections(cluster.features)
        self._laid_out = 0
        self._rooms: Memo[tuple[int, int], int] = Memo(_USES)

    def forget(self) -> None:
        """Forget all answers, because something has changed that no version tells: the policies."""
        self._cases.clear()

    def case(self, demands: tuple[ClaimDemand, ...], *, nodes: int) -> Case:
        """Return what is known about pods with these demands; ``nodes`` are as many as there are."""
        known = self._cases.get(demands)
        if known is None:
            known = self._cases[demands] = Case(Likeness(self.cluster, demands))
        self._cases.move_to_end(demands)
        while len(self._cases) > _CASES:
            self._cases.popitem(last=False)
        for memory in (known.kinds, known.fits, known.in_vain):
            if len(memory) > 2 * nodes:  # there are nodes or kinds of nodes in it that are gone
                memory.clear()
        return known

    def node_now(self, node: Node) -> NodeNow | None:
        """Return a node with what its GPUs could be published as; None where nothing can be changed on it."""
        supply = self._gpus_of(node.metadata.name)
        if supply is None:
            return None
        self._laid_out += 1
        if self._laid_out % _LAID_OUT == 0:
            self._selections = Selections(self.cluster.features)
        try:
            return NodeNow(node, self.cluster, supply, self._selections)
        except RootportError:
            return None

    def room(self, node: Node) -> int:
        """Return how many of a node's GPUs are not in use, or are so in partitions; remembered for equal use."""
        try:
            view = self.cluster.index.view(node)
        except RootportError:
            return 0
        pool_id = PoolId(DRIVER_NAME, node.metadata.name)
        pool = next((pool for pool in view.pools if pool.id == pool_id), None)
        if pool is None:
            return 0
        ledger = self.cluster.ledger

        def count() -> int:
            names = (device.name for part in pool.slices for device in part.source)
            taken = {card_of(name) for name in ledger.in_use(pool_id) if not name.startswith("mig-")}
            return len({card_of(name) for name in names} - taken - {None})

        return count() if pool.shape is None else self._rooms.of((pool.shape, ledger.use(pool_id)), count)
