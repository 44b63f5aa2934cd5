"""Compares what a slice is to contain with what is stored, and makes its JSON; what equal nodes share is made once.

The layout gives nodes of equal hardware the very same objects of most devices (:func:`driver.layout.resource_slices`),
and pydantic takes most of a reconciliation's time to read or write them. So the JSON of each is remembered, and
compared with the stored JSON first. Only a device whose JSON differs is read, and compared by its meaning.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

from pydantic import ValidationError

from controller.slices.taints import is_same_taint
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.resource_v1 import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    ResourceSliceSpec,
)
from driver.memo import IdMemo

__all__ = ["has_content", "is_same_content", "read", "spec_wire"]

_Item: TypeAlias = Device | CounterSet
_Part: TypeAlias = DeviceAttribute | DeviceCapacity | DeviceCounterConsumption
_ItemT = TypeVar("_ItemT", Device, CounterSet)

# Twenty kinds of nodes with eight GPUs in all their ways; an item takes 5 kB.
_MOST: Final = 4096
_LOCK: Final = threading.Lock()
_WIRES: Final[IdMemo[_Item, JsonObject]] = IdMemo(_MOST)
_PARTS: Final[IdMemo[_Part, JsonObject]] = IdMemo(_MOST)
_OF_OTHER_NODES: Final = ("nodeSelector", "allNodes", "perDeviceNodeSelection")


def spec_wire(spec: ResourceSliceSpec) -> JsonObject:
    """Return ``spec.to_wire()``; its parts are shared, so they must not be changed."""
    wire = spec.model_copy(update={"devices": (), "shared_counters": ()}).to_wire()
    for field, items in (("devices", spec.devices), ("sharedCounters", spec.shared_counters)):
        if items:
            wire[field] = _wires(items)
    return wire


def has_content(stored: JsonObject, wanted: ResourceSliceSpec) -> bool:
    """Return whether a stored specification has the wanted content; its pool and node name may be any.

    Args:
        stored: The ``spec`` of a slice as the API server has it.
        wanted: The specification to compare it with.
    """
    if any(field in stored for field in _OF_OTHER_NODES) or wanted.node_selector is not None or wanted.all_nodes:
        spec = read(stored)
        return spec is not None and is_same_content(wanted, spec)
    return (
        not wanted.per_device_node_selection
        and _are_stored(wanted.devices, stored.get("devices") or (), Device)
        and _are_stored(wanted.shared_counters, stored.get("sharedCounters") or (), CounterSet)
    )


def is_same_content(wanted: ResourceSliceSpec, stored: ResourceSliceSpec) -> bool:
    """Return whether two specifications have the same content, pool and node name apart."""
    return (
        wanted.node_selector == stored.node_selector
        and bool(wanted.all_nodes) == bool(stored.all_nodes)
        and wanted.per_device_node_selection == stored.per_device_node_selection
        and wanted.shared_counters == stored.shared_counters
        and len(wanted.devices) == len(stored.devices)
        and all(map(_is_same, wanted.devices, stored.devices))
    )


def read(stored: JsonObject) -> ResourceSliceSpec | None:
    """Return a stored specification; None if this version could not have written it."""
    try:
        return ResourceSliceSpec.model_validate(stored, extra="ignore")
    except ValidationError:
        return None


def _are_stored(wanted: Sequence[_ItemT], stored: Sequence[object], model: type[_ItemT]) -> bool:
    return len(wanted) == len(stored) and all(
        wire == found or _means(item, found, model)
        for item, wire, found in zip(wanted, _wires(wanted), stored, strict=True)
    )


def _means(wanted: _ItemT, stored: object, model: type[_ItemT]) -> bool:
    """Return whether a stored item that is written differently means the same: another spelling, a taint's time."""
    try:
        found = model.model_validate(stored, extra="ignore")
    except ValidationError:
        return False
    return _is_same(wanted, found)


def _is_same(wanted: _Item, stored: _Item) -> bool:
    if wanted is stored:
        return True
    if not isinstance(wanted, Device) or not isinstance(stored, Device) or not (wanted.taints or stored.taints):
        return wanted == stored
    return (
        len(wanted.taints) == len(stored.taints)
        and all(map(is_same_taint, wanted.taints, stored.taints))
        and wanted.model_copy(update={"taints": ()}) == stored.model_copy(update={"taints": ()})
    )


def _wires(items: Sequence[_Item]) -> list[JsonObject]:
    with _LOCK:
        return [_WIRES.get(item) or _WIRES.put(item, _made(item)) for item in items]


def _made(item: _Item) -> JsonObject:
    """Return ``item.to_wire()``, of remembered parts: a device has most of them in common with those of equal nodes."""
    if not isinstance(item, Device):
        return item.to_wire()
    wire = item.model_copy(update={"attributes": {}, "capacity": {}, "consumes_counters": ()}).to_wire()
    if item.attributes:
        wire["attributes"] = {name: _part(value) for name, value in item.attributes.items()}
    if item.capacity:
        wire["capacity"] = {name: _part(value) for name, value in item.capacity.items()}
    if item.consumes_counters:
        wire["consumesCounters"] = [_part(value) for value in item.consumes_counters]
    return wire


def _part(part: _Part) -> JsonObject:
    return _PARTS.of(part, part.to_wire)
