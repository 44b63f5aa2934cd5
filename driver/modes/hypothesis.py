"""Asks the allocator whether a pod's claims would fit a node of which some GPUs are published in other ways."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from driver import DRIVER_NAME
from driver.allocator.candidates import Scene, gather_requests
from driver.allocator.demands import ClaimDemand, Demand
from driver.allocator.errors import AllocationError
from driver.allocator.identity import DeviceId, PoolId
from driver.allocator.ledger import Holding, holding
from driver.allocator.likeness import KnownDevices
from driver.allocator.search import search
from driver.allocator.selection import Selections
from driver.allocator.view import NodeView
from driver.api.resource_v1 import Node, ResourceClaim, ResourceSlice
from driver.budget import check
from driver.layout.conflicts import GpuModes
from driver.layout.taints import MODE_CHANGE_TAINT
from driver.memo import Memo
from driver.model.devices import DeviceName, DeviceType
from driver.modes.gpu import card_of

__all__ = ["NodeGpus", "NodeNow", "Waiting", "is_for_gpus", "would_hold"]

_MAX_STEPS: Final = 20_000
"""Of one search, a tenth of what the allocator allows itself: many nodes are asked about."""
_VIEWS: Final = 16
_OTHER_TYPES: Final = f"{DeviceType.RDMA}|{DeviceType.RDMA_VF}|{DeviceType.FPGA}"
# Without what could make it true of a device of another type: ||, !, ?: and calls.
_OF_ANOTHER_TYPE: Final = re.compile(
    rf'[^|?!()/]*\["{re.escape(DRIVER_NAME)}"\]\.type == "(?:{_OTHER_TYPES})"\s*(?:&&[^|?!()/]*)?'
)


class NodeGpus(Protocol):
    """What a node's GPUs could be published as."""

    @property
    def gpus(self) -> Sequence[GpuModes]:
        """Its GPUs, in the order in which whole ones are allocated."""

    def slices(
        self, only: Mapping[DeviceName, frozenset[DeviceName]], closed: Collection[DeviceName]
    ) -> tuple[ResourceSlice, ...]:
        """Return its slices with these devices of each GPU, with counters where they exclude each other.

        Args:
            only: The devices of each GPU; of one that is not named, all.
            closed: Those with the taint that keeps them from being allocated.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiting:
    """A pod that waits for a node.

    Attributes:
        uid: Its UID.
        key: ``namespace/name``.
        claims: Its claims that are not allocated, with the API's defaults, in the pod's order.
        demands: What they ask for, one each.
        may_be_on: Whether it may be on a node, whatever the node's devices, by the node's name.
        places: Equal for pods that may be on the same nodes.
    """

    uid: str
    key: str
    claims: tuple[ResourceClaim, ...]
    demands: tuple[ClaimDemand, ...]
    may_be_on: Callable[[str], bool]
    places: object

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.key.partition("/")[0]

    @property
    def may_need_gpus(self) -> bool:
        """Whether some request of its claims may be for GPUs of this driver."""
        requests = (request for claim in self.demands for request in claim.requests)
        return any(is_for_gpus(demand) for request in requests for demand in request.alternatives)

    @property
    def kind(self) -> object:
        """Equal for pods that the same devices of the same nodes serve."""
        return self.demands, self.places


def is_for_gpus(demand: Demand) -> bool:
    """Whether a demand may be for GPUs of this driver, by the text of its selectors.

    They name the driver's domain, and none of them asks for another type of device and nothing else instead.
    """
    expressions = (*demand.class_selectors, *demand.selectors)
    names_driver = any(DRIVER_NAME in expression for expression in expressions)
    return names_driver and not any(_OF_ANOTHER_TYPE.fullmatch(expression) for expression in expressions)


def would_hold(
    known: KnownDevices, view: NodeView, pod: Waiting, *, selections: Selections | None = None
) -> tuple[Holding, ...] | None:
    """Return what the pod's claims would hold on a node; None where they do not fit, or it takes too long to find out.

    Args:
        known: The cluster's devices, and what of them is in use.
        view: The devices of the node.
        pod: The pod.
        selections: Answers of selectors about these devices; None for those of ``known``.
    """
    check()
    scene = Scene(view, known.ledger, known.features, selections or known.selections)
    try:
        requests = gather_requests(scene, pod.claims, pod.demands)
        taken = search(scene, requests, [demand.constraints for demand in pod.demands], max_steps=_MAX_STEPS)
    except AllocationError:
        return None
    if taken is None:
        return None
    held = (
        holding(
            item.candidate.device.id,
            admin_access=item.demand.admin,
            share_id=f"{pod.uid}/{number}" if item.candidate.device.shareable else None,
            consumed={name: amount.nano for name, amount in item.candidate.consumed.items()},
        )
        for number, item in enumerate(taken)
    )
    return tuple(item for item in held if item is not None)


class NodeNow:
    """A node whose GPUs could be published in other ways.

    Args:
        node: The node.
        known: The cluster's devices, and what of them is in use.
        supply: What its GPUs could be published as.
        selections: Answers of selectors about devices that are not published.

    Raises:
        AllocationError: A slice's node selector is invalid.

    Attributes:
        gpus: Its GPUs, in the order in which whole ones are allocated.
    """

    def __init__(self, node: Node, known: KnownDevices, supply: NodeGpus, selections: Selections) -> None:
        self.gpus = tuple(supply.gpus)
        self.selections = selections
        self._node = node
        self._known = known
        self._supply = supply
        self._pool = PoolId(DRIVER_NAME, node.metadata.name)
        self._views: Memo[object, NodeView] = Memo(_VIEWS)
        self._by_card = {card_of(gpu.gpu): gpu for gpu in self.gpus}
        opened: defaultdict[str | None, set[DeviceName]] = defaultdict(set)
        closed: defaultdict[str | None, set[DeviceName]] = defaultdict(set)
        for device, is_closed in _devices_of(known.index.view(node), self._pool):
            (closed if is_closed else opened)[card_of(device)].add(device)
        self._opened = {gpu.gpu: frozenset(opened[card_of(gpu.gpu)]) for gpu in self.gpus}
        self._closed = {gpu.gpu: frozenset(closed[card_of(gpu.gpu)]) for gpu in self.gpus}

    def gpu_of(self, device: DeviceId) -> GpuModes | None:
        """Return the GPU of a device; None where it belongs to none of this node's."""
        card = card_of(device.device)
        return self._by_card.get(card) if card is not None and device.pool_id == self._pool else None

    def opened(self, gpu: DeviceName) -> frozenset[DeviceName]:
        """Return the published devices of a GPU that can be allocated."""
        return self._opened[gpu]

    def published(self, gpu: DeviceName) -> frozenset[DeviceName]:
        """Return the published devices of a GPU, with those that have the taint of a change."""
        return self._opened[gpu] | self._closed[gpu]

    def in_use(self, gpu: DeviceName) -> frozenset[DeviceName]:
        """Return the devices of a GPU that claims have."""
        return self._in_use()[gpu]

    def changeable(self) -> list[GpuModes]:
        """Return the GPUs that could publish something else, those first of which a change costs least.

        First those on the way to another mode, then those of which partitions are in use, beside which there may be
        room for others; then those of which nothing is, the last of them first: claims for whole GPUs come from the
        front.
        """
        on_the_way: list[GpuModes] = []
        partitioned: list[GpuModes] = []
        free: list[GpuModes] = []
        in_use = self._in_use()
        for gpu in reversed(self.gpus):
            if self._opened[gpu.gpu].issuperset(gpu.names):
                continue
            if not in_use[gpu.gpu]:
                (on_the_way if self._closed[gpu.gpu] else free).append(gpu)
            elif all(gpu.mode_of(name) == "mig" for name in in_use[gpu.gpu]):
                partitioned.append(gpu)
        return [*on_the_way, *partitioned, *free]

    def view(self, changing: Mapping[DeviceName, frozenset[DeviceName]]) -> NodeView:
        """Return what the node would offer.

        What is in use counts against the GPU's other devices, whether or not it is published.

        Args:
            changing: By the GPU's name, the devices that it publishes instead of those that can be allocated now.

        Raises:
            AllocationError: A slice's node selector is invalid.
            InputError: The node cannot be laid out.
        """
        only: dict[DeviceName, frozenset[DeviceName]] = {}
        closed: set[DeviceName] = set()
        for name, in_use in self._in_use().items():
            wanted = changing.get(name, self._opened[name])
            only[name] = wanted | in_use
            closed |= (in_use - wanted) & self._closed[name]
        key = (frozenset(only.items()), frozenset(closed))
        return self._views.of(key, lambda: self._known.index.view_with(self._node, self._supply.slices(only, closed)))

    def _in_use(self) -> dict[DeviceName, frozenset[DeviceName]]:
        by_card: defaultdict[str | None, set[DeviceName]] = defaultdict(set)
        for name in self._known.ledger.in_use(self._pool):
            by_card[card_of(name)].add(DeviceName(name))
        return {gpu.gpu: frozenset(by_card.get(card_of(gpu.gpu), ())) for gpu in self.gpus}


def _devices_of(view: NodeView, pool: PoolId) -> Iterator[tuple[DeviceName, bool]]:
    """Yield the devices of a pool, and whether they have the taint of a change."""
    for found in view.pools:
        if found.id == pool:
            for part in found.slices:
                for device in part.source:
                    yield DeviceName(device.name), any(taint.key == MODE_CHANGE_TAINT for taint in device.taints)
