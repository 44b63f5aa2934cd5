"""Counts the devices of a node out for a demand, each at the first step that it does not pass.

The steps behind the selectors are the allocator's own (:mod:`driver.allocator.eligibility`). They are ordered so that
what no ended claim would change comes before what is in use. What passes all of them could be taken by the demand if it
were alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from driver.allocator.candidates import Scene
from driver.allocator.demands import Demand
from driver.allocator.eligibility import (
    FilterStep,
    FreeCounters,
    Usage,
    eligibility,
    is_for_node,
    required_capacity,
)
from driver.allocator.errors import AllocationError, CapacityError
from driver.allocator.pools import PooledDevice, SliceDevices
from driver.allocator.selection import SelectionFailure
from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceCapacity
from driver.explain.explanation import Step
from driver.memo import IdMemo, Memo

__all__ = ["STEPS", "DeviceFilter", "FilteredDevices"]

STEPS: Final = tuple(Step)

_Capacities = IdMemo[Mapping[str, DeviceCapacity], tuple[Mapping[str, Quantity] | None]]
"""By the capacities of a device: what a demand takes of them; None where the device is too small."""

_ELSEWHERE: Final = AllocationError("the device is for other nodes")
_MOST_DEMANDS: Final = 1024
# Of each amount that is asked for, the devices' capacities: at most 65,536 in all.
_MOST_AMOUNTS: Final = 64
_MOST_CAPACITIES: Final = 1024


@dataclass(slots=True, eq=False)
class FilteredDevices:
    """The devices of one node for one demand, by the step at which they are filtered out.

    Attributes:
        demand: The demand.
        published: The number of devices in usable pools that are for the node.
        of_class: How many of them the class selects.
        selected: How many of these the request's own selectors select.
        failures: Devices for which a selector has no answer, with what is wrong; they are not selected.
        size: Devices that are too small, or lack a capacity.
        tainted: Devices with taints that are not tolerated.
        in_use: Devices that claims have, and of which the demand cannot have a share.
        no_room: Devices of which the demand asks for a share, with too little left.
        no_counters: Devices whose counters other devices hold.
        free: The eligible devices.
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
    def devices(self) -> Iterator[PooledDevice]:
        """All selected devices."""
        return chain(self.free, self.in_use, self.no_room, self.no_counters, self.tainted, self.size)

    @property
    def left(self) -> tuple[int, ...]:
        """The number of devices left after each step, in the order of :data:`STEPS`."""
        sized = self.selected - len(self.size)
        untainted = sized - len(self.tainted)
        unused = untainted - len(self.in_use)
        roomy = unused - len(self.no_room)
        return (self.published, self.of_class, self.selected, sized, untainted, unused, roomy, len(self.free))

    @property
    def need(self) -> int:
        """The number of devices that the demand needs here: at least one where it asks for all of them."""
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
        """The number of devices that are missing at that step; 0 where there are enough."""
        step = self.short_at
        if step is None:
            return 0
        if self.demand.count is None:
            return max(1, self.need - len(self.free))
        return self.need - self.left[STEPS.index(step)]

    def leave_out(self, device: PooledDevice, step: FilterStep) -> None:
        """Filter a selected device out at a step."""
        if step is FilterStep.SIZE:
            self.size.append(device)
        elif step is FilterStep.TAINTS:
            self.tainted.append(device)
        elif step is FilterStep.COUNTERS:
            self.no_counters.append(device)
        elif step is FilterStep.ROOM and (self.demand.capacity or self.demand.count is None):
            self.no_room.append(device)
        else:  # in use; also for a request that names no amount and finds a share gone: it asks for the device as it is
            self.in_use.append(device)


class DeviceFilter:
    """Filters the devices of nodes, and remembers what is the same on many of them."""

    def __init__(self) -> None:
        # By the amounts that a demand names.
        self._taken: Memo[object, _Capacities] = Memo(_MOST_AMOUNTS)
        self._of_class: Memo[Demand, Demand] = Memo(_MOST_DEMANDS)

    def apply(self, scene: Scene, demand: Demand, counters: FreeCounters) -> FilteredDevices:
        """Return the node's devices by the step at which ``demand`` loses them.

        Args:
            scene: The node.
            demand: The demand.
            counters: The free counters of the node's pools; the same for all demands.
        """
        filtered = FilteredDevices(demand)
        of_class = demand
        if demand.selectors:
            of_class = self._of_class.of(demand, lambda: replace(demand, selectors=()))
        taken = self._taken.of(demand.capacity, lambda: IdMemo(_MOST_CAPACITIES))
        for pool in scene.view.pools:
            usage = Usage.of(demand, pool.id, scene.ledger, counters)
            for part in pool.slices:
                _filter_slice(scene, of_class, part, filtered, usage, taken)
        return filtered


def _filter_slice(
    scene: Scene,
    of_class: Demand,
    part: SliceDevices,
    filtered: FilteredDevices,
    usage: Usage,
    taken: _Capacities,
) -> None:
    demand = filtered.demand
    selection = scene.selections.of(demand, part)
    by_class = selection if of_class is demand else scene.selections.of(of_class, part)
    reached = _reached(scene, part)
    if reached is None:
        filtered.published += len(part.source)
        filtered.of_class += sum(failure is None for _, failure in by_class)
    else:
        filtered.published += len(reached)
        filtered.of_class += sum(failure is None and place in reached for place, failure in by_class)
    devices, whole, features, names_no_amount = part.devices, usage.whole, scene.features, not demand.capacity
    for place, failure in selection:
        device = devices[place]
        if failure is not None:
            if demand.count is None or device.id.device not in whole:
                filtered.failures.append((device, failure))
            continue
        if reached is not None and (problem := reached.get(place, _ELSEWHERE)) is not None:
            if problem is not _ELSEWHERE:
                filtered.failures.append((device, problem))
            continue
        filtered.selected += 1
        if device.simple and names_no_amount:  # no other step can take it out: most devices are so
            (filtered.in_use if device.id.device in whole else filtered.free).append(device)
            continue
        known = taken.get(device.device.capacity)
        if known is None:
            try:
                known = taken.put(device.device.capacity, (required_capacity(demand, device.device, features),))
            except CapacityError as error:
                filtered.failures.append((device, error))
                continue
        step = eligibility(demand, device, known[0], features, usage)
        if step is None:
            filtered.free.append(device)
        else:
            filtered.leave_out(device, step)


def _reached(scene: Scene, part: SliceDevices) -> dict[int, AllocationError | None] | None:
    """Return the places of the devices that are for this node, with an error where that is not known.

    Returns:
        None for a slice whose devices do not select nodes themselves.
    """
    if not part.devices or not part.devices[0].slice.per_device_node_selection:
        return None
    reached: dict[int, AllocationError | None] = {}
    for place, device in enumerate(part.source):
        try:
            if is_for_node(device, scene.view.node):
                reached[place] = None
        except AllocationError as error:
            reached[place] = error
    return reached
