"""Which devices a demand loses on a node, and at which step: each device is counted out at the first step it fails.

The steps ask what the allocator asks (:mod:`driver.allocator.candidates` and ``state``), in an order that tells most:
first what no ended claim would change, then what is in use. What is left behind the last step are the devices that the
demand could take if it were alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from driver.allocator.candidates import Scene
from driver.allocator.capacity import consumption
from driver.allocator.demands import Demand
from driver.allocator.errors import AllocationError, CapacityError
from driver.allocator.identity import PoolId
from driver.allocator.node_selection import matches_node
from driver.allocator.pools import CounterKey, PooledDevice, SliceDevices
from driver.allocator.selection import SelectionFailure
from driver.allocator.taints import refusing_taints
from driver.api.resource_v1 import Device, DeviceCapacity
from driver.explain.explanation import Step

__all__ = ["STEPS", "Funnels", "Sieve", "lacking_counters", "whole_amounts"]

STEPS: Final = tuple(Step)

Amounts = Mapping[str, int]
"""Nano-units by capacity name."""

_NOTHING: Final[Amounts] = {}
_REMEMBERED: Final = 65_536


@dataclass(slots=True, eq=False)
class Sieve:
    """What one demand finds on one node.

    Attributes:
        demand: The demand.
        published: How many devices of usable pools are there for the node.
        of_class: How many of them the class selects.
        selected: How many of them the request's own selectors select.
        failures: Those for which a selector has no answer, with what is wrong; they are not selected.
        size: Devices that are too small, or lack a capacity.
        tainted: Devices with taints that are not tolerated.
        in_use: Devices that claims have, and of which the demand cannot have a share.
        no_room: Devices of which the demand wants a share, with too little left.
        no_counters: Devices whose counters other devices hold.
        free: What is left: (device, what the demand would take of it).
    """

    demand: Demand
    published: int = 0
    of_class: int = 0
    selected: int = 0
    failures: list[tuple[PooledDevice, SelectionFailure | AllocationError]] = field(default_factory=list)
    size: list[PooledDevice] = field(default_factory=list)
    tainted: list[PooledDevice] = field(default_factory=list)
    in_use: list[PooledDevice] = field(default_factory=list)
    no_room: list[PooledDevice] = field(default_factory=list)
    no_counters: list[PooledDevice] = field(default_factory=list)
    free: list[PooledDevice] = field(default_factory=list)

    @property
    def left(self) -> tuple[int, ...]:
        """How many devices are left after each step, in the order of :data:`STEPS`."""
        sized = self.selected - len(self.size)
        untainted = sized - len(self.tainted)
        unused = untainted - len(self.in_use)
        roomy = unused - len(self.no_room)
        return (self.published, self.of_class, self.selected, sized, untainted, unused, roomy, len(self.free))

    @property
    def need(self) -> int:
        """How many devices the demand needs here: at least one where it asks for all that there are."""
        if self.demand.count is not None:
            return self.demand.count
        return max(1, self.selected - len(self.size))

    @property
    def short_at(self) -> Step | None:
        """The first step after which too few devices are left; None where there are enough.

        A request for all devices needs each that it selects and that is large enough, free or not.
        """
        need = self.demand.count
        if need is not None:
            if len(self.free) >= need:
                return None
            if not self.published:
                return Step.PUBLISHED
            # Devices that are too few in all are too few of the class.
            steps = zip(STEPS[1:], self.left[1:], strict=True)
            return next((step for step, left in steps if left < need), None)
        if self.tainted:
            return Step.TAINTS
        if self.in_use:
            return Step.IN_USE
        if self.no_room:
            return Step.ROOM
        if self.no_counters:
            return Step.COUNTERS
        return next((step for step, left in zip(STEPS, self.left, strict=True) if left == 0), None)

    @property
    def lacks(self) -> int:
        """How many devices are missing at that step."""
        step = self.short_at
        if step is None:
            return 0
        if self.demand.count is None:
            return max(1, self.need - len(self.free))
        return self.need - self.left[STEPS.index(step)]


class Funnels:
    """Sifts nodes, remembering what is the same on many of them."""

    def __init__(self) -> None:
        # Sizes repeat from node to node: kept with what they were found for, so that its id stays its own.
        self._sizes: dict[tuple[int, object], tuple[Mapping[str, DeviceCapacity], Amounts | None]] = {}
        self._of_class: dict[Demand, Demand] = {}

    def sift(self, scene: Scene, demand: Demand, free_counters: dict[PoolId, Mapping[CounterKey, int]]) -> Sieve:
        """What ``demand`` finds on a node.

        Args:
            scene: The node.
            demand: What is asked for.
            free_counters: Filled with what is left of the counters of the node's pools; the same for all demands.
        """
        sieve = Sieve(demand)
        of_class = self._without_own_selectors(demand)
        for part in scene.view.slices:
            self._sift_slice(scene, demand, of_class, part, sieve, free_counters)
        return sieve

    def _without_own_selectors(self, demand: Demand) -> Demand:
        if not demand.selectors:
            return demand
        known = self._of_class.get(demand)
        if known is None:
            if len(self._of_class) >= _REMEMBERED:
                self._of_class.clear()
            known = self._of_class[demand] = replace(demand, selectors=())
        return known

    def _sift_slice(
        self,
        scene: Scene,
        demand: Demand,
        of_class: Demand,
        part: SliceDevices,
        sieve: Sieve,
        free_counters: dict[PoolId, Mapping[CounterKey, int]],
    ) -> None:
        devices, ledger = part.devices, scene.ledger
        selection = scene.selections.of(demand, part)
        by_class = selection if of_class is demand else scene.selections.of(of_class, part)
        reached = _reached(scene, part)
        if reached is None:
            sieve.published += len(devices)
            sieve.of_class += sum(failure is None for _, failure in by_class)
        else:
            sieve.published += len(reached)
            sieve.of_class += sum(failure is None and place in reached for place, failure in by_class)
        plain = not demand.capacity
        for place, failure in selection:
            device = devices[place]
            if failure is not None:
                if demand.admin or demand.count is None or not ledger.is_whole(device.id):
                    sieve.failures.append((device, failure))
                continue
            if reached is not None:
                problem = reached.get(place)
                if problem is not None:
                    sieve.failures.append((device, problem))
                    continue
                if place not in reached:
                    continue
            sieve.selected += 1
            if device.simple and plain:
                if demand.admin or not ledger.is_whole(device.id):
                    sieve.free.append(device)
                else:
                    sieve.in_use.append(device)
                continue
            try:
                self._step(scene, sieve, device, free_counters).append(device)
            except CapacityError as error:
                sieve.failures.append((device, error))

    def _step(
        self,
        scene: Scene,
        sieve: Sieve,
        device: PooledDevice,
        free_counters: dict[PoolId, Mapping[CounterKey, int]],
    ) -> list[PooledDevice]:
        """Where a selected device belongs: to those that a step takes out, or to the free ones."""
        demand, ledger = sieve.demand, scene.ledger
        amounts = self._size(demand, device.device) if scene.features.consumable_capacity else _NOTHING
        if amounts is None:
            return sieve.size
        if scene.features.device_taints and _is_refused(device.device, demand):
            return sieve.tainted
        if not demand.admin and ledger.is_whole(device.id):
            return sieve.in_use
        if not _has_room(device, amounts, ledger.consumed(device.id)):
            # Who names no amount wants the device as it is; then somebody else simply has it.
            return sieve.no_room if demand.capacity or demand.count is None else sieve.in_use
        if device.device.consumes_counters and not _has_counters(scene, device, free_counters):
            return sieve.no_counters
        return sieve.free

    def _size(self, demand: Demand, device: Device) -> Amounts | None:
        """What ``demand`` takes of ``device``, whatever is in use; None where it is too small."""
        key = (id(device.capacity), demand.capacity)
        known = self._sizes.get(key)
        if known is None:
            if len(self._sizes) >= _REMEMBERED:
                self._sizes.clear()
            known = self._sizes[key] = (device.capacity, whole_amounts(demand, device))
        return known[1]


def whole_amounts(demand: Demand, device: Device) -> dict[str, int] | None:
    """What ``demand`` takes of each capacity of ``device``, in nano-units; None where the device cannot give it."""
    consumed = consumption(demand, device)
    return None if consumed is None else {name: amount.nano for name, amount in consumed.items()}


def lacking_counters(
    scene: Scene, device: PooledDevice, free_counters: dict[PoolId, Mapping[CounterKey, int]]
) -> list[CounterKey]:
    """The counters of which too little is left for ``device``; none where it has them.

    While any counter of a pool is overdrawn, nothing that consumes counters of the pool is given, as upstream.
    """
    pool_id = PoolId(device.id.driver, device.id.pool)
    free = free_counters.get(pool_id)
    if free is None:
        pool = next(pool for pool in scene.view.pools if pool.id == pool_id)
        free = free_counters[pool_id] = scene.ledger.free_counters(pool)
    if device.shareable and scene.ledger.is_shared(device.id):
        return []  # charged with its first share
    lacking = [key for key, amount in device.counters.items() if free.get(key, 0) < amount]
    if lacking or not device.counters:
        return lacking
    return [key for key, amount in free.items() if amount < 0]


def _has_counters(scene: Scene, device: PooledDevice, free_counters: dict[PoolId, Mapping[CounterKey, int]]) -> bool:
    return scene.features.partitionable_devices and not lacking_counters(scene, device, free_counters)


def _has_room(device: PooledDevice, amounts: Amounts, used: Amounts) -> bool:
    if not used:
        return True
    capacity = device.device.capacity
    return all(amount + used.get(name, 0) <= capacity[name].value.nano for name, amount in amounts.items())


def _is_refused(device: Device, demand: Demand) -> bool:
    return bool(device.taints) and bool(refusing_taints(device.taints, demand.tolerations))


def _reached(scene: Scene, part: SliceDevices) -> dict[int, AllocationError | None] | None:
    """Of a slice whose devices select nodes themselves: the places that are for this node; None for other slices."""
    if not part.devices or not part.devices[0].slice.per_device_node_selection:
        return None
    reached: dict[int, AllocationError | None] = {}
    for place, device in enumerate(part.source):
        try:
            if matches_node(
                scene.view.node, node_name=device.node_name, all_nodes=device.all_nodes, selector=device.node_selector
            ):
                reached[place] = None
        except AllocationError as error:
            reached[place] = error
    return reached
