"""Gives alike slices and pools the same number, so that work is done once for all of them: hash-consing (interning).

Of thousands of nodes most are of a few kinds, and their slices differ in names, UUIDs and other attributes only. A
*shape* is a number for all that selection by attributes does not look at: equal shapes mean equal devices but for their
attributes. It stands in keys of memos, in place of the slice.

Parts of devices are compared by identity, since equal ones mostly are one object
(:mod:`driver.explain.known.slice_reading`). Where they are not, two slices of one shape get two numbers, which costs
time and is never wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from driver.allocator.view import CounterKey, SliceDevices
from driver.api.resource_v1 import CounterSet, Device, DeviceCounterConsumption, ResourceSlice, ResourceSliceSpec
from driver.memo import IdMemo, Memo

__all__ = ["Shapes", "pool_problem"]

_MOST: Final = 4096
"""So many of a kind are remembered; numbers are never used twice."""
_NO_COUNTERS: Final[Mapping[CounterKey, int]] = {}


class Shapes:
    """Numbers the shapes of slices and pools, and remembers what holds for all of one shape."""

    def __init__(self) -> None:
        self._next = 0
        # Keys have ids of objects; those are kept beside the result, so that no other object gets their ids.
        self._numbers: Memo[object, tuple[int, object]] = Memo(_MOST)
        self._amounts: Memo[tuple[int, ...], tuple[Mapping[CounterKey, int], object]] = Memo(_MOST)
        self._consumptions: IdMemo[Sequence[DeviceCounterConsumption], Mapping[CounterKey, int]] = IdMemo(_MOST)
        self._problems: Memo[int, str] = Memo(_MOST)

    def of(self, spec: ResourceSliceSpec) -> int | None:
        """Return the number of a slice's shape; None for one whose devices select nodes themselves."""
        if spec.per_device_node_selection:
            return None
        devices = spec.devices
        key = (
            spec.driver,
            tuple(
                [
                    (
                        device.name,
                        device.allow_multiple_allocations,
                        id(device.capacity),
                        id(device.consumes_counters),
                        tuple([(taint.key, taint.value, taint.effect) for taint in device.taints])
                        if device.taints
                        else None,
                        bool(device.binding_conditions),
                    )
                    for device in devices
                ]
            ),
        )
        return self._number(key, devices)

    def of_pool(
        self, slices: Sequence[SliceDevices], elsewhere: Sequence[SliceDevices], counters: Sequence[ResourceSlice]
    ) -> int | None:
        """Return the number of the shape of a whole pool; None where a slice has none.

        Args:
            slices: Those with devices.
            elsewhere: Those that the node does not reach.
            counters: Those with counter sets.
        """
        here, there = tuple([part.shape for part in slices]), tuple([part.shape for part in elsewhere])
        if None in here or None in there:
            return None
        sets = [item.spec.shared_counters for item in counters]
        # Slices elsewhere may have counter sets as well, but then they have no devices; nothing asks for them.
        return self._number((here, there, tuple(map(id, sets))), sets)

    def consumption(self, device: Device) -> Mapping[CounterKey, int]:
        """Return what a device consumes of its pool's counters, in nano-units."""
        wanted = device.consumes_counters
        if not wanted:
            return _NO_COUNTERS
        return self._consumptions.of(wanted, lambda: _consumption(wanted))

    def amounts(self, slices: Sequence[ResourceSlice]) -> Mapping[CounterKey, int]:
        """Return what a pool has of each counter, in nano-units; ``slices`` are those with counter sets."""
        sets = [item.spec.shared_counters for item in slices]
        key = tuple(map(id, sets))
        known = self._amounts.get(key)
        if known is None:
            amounts = {
                (part.name, name): counter.value.nano
                for part in {part.name: part for item in sets for part in item}.values()
                for name, counter in part.counters.items()
            }
            known = self._amounts.put(key, (amounts, sets))
        return known[0]

    def problem(
        self,
        pool: int | None,
        current: Sequence[ResourceSlice],
        elsewhere: Sequence[ResourceSlice],
        *,
        counters: bool,
    ) -> str:
        """Return what makes a pool of that shape invalid; empty where nothing does.

        Args:
            pool: Its shape; None where it is not known.
            current: Its slices that reach the node.
            elsewhere: Its other slices.
            counters: Whether counters are checked.
        """
        if pool is None:
            return pool_problem(current, elsewhere, counters=counters)
        return self._problems.of(pool, lambda: pool_problem(current, elsewhere, counters=counters))

    def _number(self, key: object, kept: object) -> int:
        known = self._numbers.get(key)
        if known is None:
            self._next += 1
            known = self._numbers.put(key, (self._next, kept))
        return known[0]


def pool_problem(current: Sequence[ResourceSlice], elsewhere: Sequence[ResourceSlice], *, counters: bool) -> str:
    """Return what makes a pool invalid; empty where nothing does."""
    problem = _duplicate_device(item for item in current if not item.spec.shared_counters)
    if problem or not counters:
        return problem
    sets = {part.name: part for item in current for part in item.spec.shared_counters}
    if len(sets) != sum(len(item.spec.shared_counters) for item in current):
        return "the name of a counter set is used twice"
    return _unknown_counter([*current, *elsewhere], sets)


def _consumption(wanted: Sequence[DeviceCounterConsumption]) -> Mapping[CounterKey, int]:
    consumed: defaultdict[CounterKey, int] = defaultdict(int)
    for consumption in wanted:
        for name, counter in consumption.counters.items():
            consumed[consumption.counter_set, name] += counter.value.nano
    return dict(consumed)


def _duplicate_device(slices: Iterable[ResourceSlice]) -> str:
    names: set[str] = set()
    for item in slices:
        for device in item.spec.devices:
            if device.name in names:
                return f"device name {device.name} is used twice"
            names.add(device.name)
    return ""


def _unknown_counter(slices: Iterable[ResourceSlice], sets: Mapping[str, CounterSet]) -> str:
    for item in slices:
        for device in item.spec.devices:
            for consumption in device.consumes_counters:
                there = sets.get(consumption.counter_set)
                if there is None:
                    return (
                        f"device {device.name} consumes from counter set {consumption.counter_set}, which is not there"
                    )
                for name in consumption.counters:
                    if name not in there.counters:
                        return f"device {device.name} consumes counter {name}, which counter set {there.name} has not"
    return ""
