"""The contents of a node's slices: devices in their order, then counter sets, within the API server's limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from driver.api.resource_v1 import CounterSet, Device
from driver.layout.limits import COUNTER_SETS_PER_SLICE, DEVICES_PER_SLICE, DEVICES_PER_SLICE_WITH_MORE

__all__ = ["Chunk", "chunks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The content of one slice: devices or counter sets, never both (the API server refuses that).

    Attributes:
        devices: Devices.
        counter_sets: Counter sets.
    """

    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()


def chunks(devices: Iterable[Device], counter_sets: Sequence[CounterSet]) -> tuple[Chunk, ...]:
    """Fill slices with devices, and then with counter sets; return one empty slice where there is nothing."""
    filled: list[list[Device]] = []
    limit = DEVICES_PER_SLICE
    for device in devices:
        has_more = device.consumes_counters or device.taints or _has_list(device)
        own_limit = DEVICES_PER_SLICE_WITH_MORE if has_more else DEVICES_PER_SLICE
        limit = min(limit, own_limit)
        if not filled or len(filled[-1]) >= limit:
            filled.append([])
            limit = own_limit
        filled[-1].append(device)
    starts = range(0, len(counter_sets), COUNTER_SETS_PER_SLICE)
    return (
        *(Chunk(devices=tuple(part)) for part in filled or [[]]),
        *(Chunk(counter_sets=tuple(counter_sets[start : start + COUNTER_SETS_PER_SLICE])) for start in starts),
    )


def _has_list(device: Device) -> bool:
    return any(
        value.int_values or value.bool_values or value.string_values or value.version_values
        for value in device.attributes.values()
    )
