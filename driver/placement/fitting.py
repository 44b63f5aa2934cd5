"""Whether a pod's claims fit on a node, by the allocator's word, and with which devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.candidates import Scene, offers
from driver.allocator.demands import ClaimDemand
from driver.allocator.errors import AllAtOnceError, NodeAllocationError
from driver.allocator.likeness import Likeness
from driver.allocator.on_node import Ranks, allocate_on
from driver.allocator.view import NodeView
from driver.api.resource_v1 import AllocationResult
from driver.explain.known.needs import PodNeeds
from driver.explain.known.state import ClusterState
from driver.memo import Memo
from driver.placement.asking import Asked
from driver.placement.devices.order import best_set, device_ranks
from driver.placement.nodes import KnownNode, Nodes
from driver.placement.policies import Policy
from driver.placement.shapes import WHOLE_GPU
from driver.placement.sizing import Size, size_of
from driver.wording import short

__all__ = ["Fitting", "Rung"]

_KINDS: Final = 128
_ALIKE: Final = 8192
_MAX_STEPS: Final = 20_000
"""Of a search on one node, a tenth of what a simulation allows: there are thousands of nodes."""
_TOO_FEW: Final = "too few free devices for its claims"
_NO_RANKS: Final[Ranks] = {}


@dataclass(slots=True, eq=False)
class Rung:
    """What a pod's claims ask for, with the best of their alternatives alone, or with more of them.

    Attributes:
        demands: Of each claim.
        size: How large that is.
        likeness: Recognizes nodes with the same answer.
        refused: The nodes on which they do not fit: as of which version, which view, and why.
        alike: Likewise, by what is alike.
    """

    demands: tuple[ClaimDemand, ...]
    size: Size
    likeness: Likeness
    refused: dict[str, tuple[int, NodeView, str]]
    alike: dict[object, str]

    def refusal(self, name: str, node: KnownNode) -> str:
        """Return why they do not fit on a node as it is now; empty where that is not known, or they may."""
        known = self.refused.get(name)
        return known[2] if known is not None and known[0] == node.version and known[1] is node.view else ""


@dataclass(slots=True, eq=False)
class _Kind:
    """What is remembered of claims that ask for the same."""

    likeness: Likeness
    refused: dict[str, tuple[int, NodeView, str]] = field(default_factory=dict)
    alike: Memo[object, str] = field(default_factory=lambda: Memo(_ALIKE))


class Fitting:
    """Asks the allocator, and remembers where claims do not fit.

    Args:
        state: The cluster.
        nodes: Its nodes.
        policy: Decides which GPUs of a node come first.
        new_share_id: Makes a UID for each share of a device.
    """

    def __init__(self, state: ClusterState, nodes: Nodes, policy: Policy, new_share_id: Callable[[], str]) -> None:
        self._new_share_id = new_share_id
        self._state = state
        self._nodes = nodes
        self._policy = policy
        self._kinds: Memo[tuple[ClaimDemand, ...], _Kind] = Memo(_KINDS)
        self._sizes: Memo[object, Size] = Memo(4 * _KINDS)

    def rung(self, demands: tuple[ClaimDemand, ...], needs: PodNeeds) -> Rung:
        """Return what is known of demands."""
        kind = self._kinds.of(demands, lambda: _Kind(Likeness(self._state, demands)))
        key = (demands, needs.requests.get("cpu", 0), needs.requests.get("memory", 0), self._nodes.layouts_changed)
        size = self._sizes.of(
            key,
            lambda: size_of(demands, needs, [(node.layout, self._nodes.scene(node)) for node in self._nodes.samples()]),
        )
        return Rung(demands, size, kind.likeness, kind.refused, kind.alike)

    def allocated(
        self, name: str, node: KnownNode, asked: Asked, rung: Rung, gpus: Sequence[int]
    ) -> tuple[AllocationResult, ...] | str:
        """Return the results of all claims of a pod on a node; a text that says why they do not fit.

        Ask :meth:`Rung.refusal` first.

        Args:
            name: The node's name.
            node: The node.
            asked: What the pod asks for.
            rung: The same, with some of its alternatives.
            gpus: The GPUs that the policy would take.

        Raises:
            AllocationError: A claim or a class is wrong, so that no node can do.
        """
        shape = rung.size.shape
        if rung.size.is_least and sum([free >= shape.gpu_milli for free in node.shape.gpus]) < shape.gpus:
            return _TOO_FEW
        alike = rung.likeness.of(node.state.node)
        why = rung.alike.get(alike) if alike is not None else None
        if why is None:
            scene = self._nodes.scene(node)
            try:
                results = allocate_on(
                    scene,
                    asked.specs,
                    rung.demands,
                    classes=self._state.classes,
                    new_share_id=self._new_share_id,
                    max_steps=_MAX_STEPS,
                    ranks=self._ranks(node, scene, asked, rung, gpus),
                )
            except (NodeAllocationError, AllAtOnceError) as error:
                results, why = None, short(error.message)
            if results is not None:
                return results
            why = why or _TOO_FEW
            if alike is not None and why == _TOO_FEW:
                rung.alike[alike] = why
        rung.refused[name] = (node.version, node.view, why)
        return why

    def _ranks(self, node: KnownNode, scene: Scene, asked: Asked, rung: Rung, gpus: Sequence[int]) -> Ranks:
        if not self._policy.orders_gpus:
            return _NO_RANKS
        layout, free, size = node.layout, node.shape.gpus, rung.size
        pools = [pool.id.pool for pool in scene.view.pools if pool.id.driver == DRIVER_NAME]
        if not pools or not (layout.gpus or layout.nics):
            return _NO_RANKS
        eligible = self._eligible(node, scene, rung) if size.shape.gpus else []
        chosen: list[int] = []
        if size.shape.gpu_milli == WHOLE_GPU:
            untouched = [index for index in eligible if free[index] == WHOLE_GPU]
            count = min(size.shape.gpus, len(untouched))
            chosen = list(best_set(layout, untouched, count, with_nics=size.wants_nics))
        elif size.takes_partitions:
            whole = {held for pool in scene.view.pools for held in scene.ledger.whole_in(pool.id)}
            parted = [
                index
                for index in eligible
                if not whole.isdisjoint([partition for partition, _ in layout.gpus[index].partitions])
            ]
            chosen = sorted(parted, key=lambda index: (free[index], index))
        else:
            chosen = [index for index in gpus if index in eligible]
        sign = 1 if self._policy.prefers_full else -1
        rest = sorted(set(eligible).difference(chosen), key=lambda index: (sign * free[index], index))
        beside: list[int] = []
        if size.wants_nics:
            held = {item.device.device for claim in asked.allocated for item in claim.holds}
            has = [index for index, gpu in enumerate(layout.gpus) if not held.isdisjoint(gpu.devices)]
            beside = [*has, *(chosen or rest)[: size.shape.gpus]]
        return device_ranks(layout, pools[0], [*chosen, *rest], beside=beside)

    def _eligible(self, node: KnownNode, scene: Scene, rung: Rung) -> list[int]:
        """Return the GPUs of which some device serves some request."""
        names: set[str] = set()
        for claim in rung.demands:
            for request in claim.requests:
                for demand in request.alternatives:
                    for _, offered in offers(scene, demand, "").pools:
                        names.update(offer.name for offer in offered if not offer.candidate.refused)
        return [index for index, gpu in enumerate(node.layout.gpus) if not names.isdisjoint(gpu.devices)]
