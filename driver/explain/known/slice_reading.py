"""ResourceSlices from the API's JSON, with equal parts held once.

The same few attributes, capacities and counters stand in a cluster's tens of thousands of devices. So each is checked
and made a model once, and found again afterwards; devices that are equal (the NICs of nodes of one kind) are one
object, and so are the tuples that slices hold, by which selectors' answers are remembered.

What makes a device its own (a UUID) must not fill memory for good: a mapping is kept to be found again only when it is
seen for the second time, and all that is kept is dropped when there is too much of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from driver.api.resource_v1 import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    ObjectMeta,
    ResourceSlice,
    ResourceSliceSpec,
)

__all__ = ["SliceReader"]

_MOST: Final = 1 << 16
"""How many values, mappings or devices are kept to be found again: more than different ones in a cluster of a few
kinds of nodes, and at most a few dozen MiB."""

_OFTEN: Final = frozenset({"name", "attributes", "capacity", "consumesCounters", "allowMultipleAllocations"})
_SHARED: Final = frozenset({"devices", "sharedCounters"})

_Pair = tuple[str, DeviceAttribute]


@dataclass(frozen=True, slots=True, eq=False)
class _Resources:
    """What a device has, and what it consumes of its pool's counters."""

    capacity: dict[str, DeviceCapacity]
    counters: tuple[DeviceCounterConsumption, ...]


class SliceReader:
    """Reads slices; one reader for all that are kept, for sharing is between the slices of one reader."""

    def __init__(self) -> None:
        # Keys have ids of what the values of the same tables hold; so they are emptied together, or not at all.
        self._attributes: dict[tuple[str, str, object], _Pair] = {}
        self._mappings: dict[tuple[int, ...], dict[str, DeviceAttribute]] = {}
        self._resources: dict[str, _Resources] = {}
        self._devices: dict[tuple[object, ...], Device] = {}
        self._tuples: dict[tuple[int, ...], tuple[Device, ...]] = {}
        self._counter_sets: dict[str, tuple[CounterSet, ...]] = {}
        self._no_labels: dict[str, str] = {}

    def read(self, wire: Mapping[str, Any]) -> ResourceSlice:
        """Read a slice; fields that this version does not know are skipped, as Kubernetes' own clients do.

        Raises:
            pydantic.ValidationError: A known field is of another type, or a required one is missing.
            ValueError: As before.
            TypeError: As before.
            AttributeError: As before.
            KeyError: As before.
            RecursionError: It is nested too deeply.
        """
        self._bound()
        metadata, spec = wire["metadata"], wire["spec"]
        read = ResourceSliceSpec.model_validate(
            {key: value for key, value in spec.items() if key not in _SHARED}, extra="ignore"
        )
        _fill(
            read,
            devices=self._devices_of(spec.get("devices") or ()),
            shared_counters=self._counter_sets_of(spec.get("sharedCounters") or ()),
        )
        return ResourceSlice.model_construct(
            _fields_set=_FIELDS_OF_SLICE,
            api_version="",
            kind="",
            metadata=ObjectMeta.model_construct(
                _fields_set=_FIELDS_OF_METADATA,
                name=_text(metadata["name"]),
                generate_name="",
                namespace="",
                uid=_text(metadata.get("uid") or ""),
                labels=self._no_labels,
                annotations=self._no_labels,
                resource_version=_text(metadata.get("resourceVersion") or ""),
            ),
            spec=read,
        )

    def _bound(self) -> None:
        tables = (self._attributes, self._mappings, self._resources, self._devices, self._tuples, self._counter_sets)
        if any(len(table) > _MOST for table in tables):
            for table in tables:
                table.clear()

    def _counter_sets_of(self, wire: Any) -> tuple[CounterSet, ...]:
        key = repr(wire)
        known = self._counter_sets.get(key)
        if known is None:
            known = tuple(CounterSet.model_validate(item, extra="ignore") for item in wire)
            self._counter_sets[key] = known
        return known

    def _devices_of(self, wire: Any) -> tuple[Device, ...]:
        read = [self._device(item) for item in wire]
        devices = tuple(device for device, _ in read)
        if not all(kept for _, kept in read):
            return devices
        return self._tuples.setdefault(tuple(map(id, devices)), devices)

    def _device(self, wire: Mapping[str, Any]) -> tuple[Device, bool]:
        """Return the device, and whether it is one that is found again."""
        name = intern(_text(wire["name"]))  # claims name it, and other nodes have it too
        attributes, kept = self._attributes_of(wire.get("attributes") or {})
        resources = self._resources_of(name, wire.get("capacity"), wire.get("consumesCounters"))
        shareable = wire.get("allowMultipleAllocations")
        if wire.keys() - _OFTEN or not (shareable is None or isinstance(shareable, bool)):
            seldom = {key: value for key, value in wire.items() if key not in _OFTEN}
            seldom |= {"name": name, "allowMultipleAllocations": shareable}
            device = Device.model_validate(seldom, extra="ignore")
            _fill(device, attributes=attributes, capacity=resources.capacity, consumes_counters=resources.counters)
            return device, False
        key = (name, id(attributes), id(resources), shareable)
        known = self._devices.get(key) if kept else None
        if known is not None:
            return known, True
        device = _plain_device(name, attributes, resources, shareable=shareable)
        if kept:
            self._devices[key] = device
        return device, kept

    def _attributes_of(self, wire: Mapping[str, Any]) -> tuple[dict[str, DeviceAttribute], bool]:
        """Return the attributes, and whether they are a mapping that is found again."""
        known, new = self._attributes, self._new_attribute
        before = len(known)
        try:
            # Twelve attributes a device, tens of thousands of devices: a third of the time that reading takes is here.
            pairs = [
                known.get((name, kind, plain)) or new(name, kind, plain)
                for name, value in wire.items()
                for kind, plain in value.items()
            ]
        except TypeError:  # a list of values, which is no key
            return _odd_attributes(wire), False
        mapping = dict(pairs)
        if not len(pairs) == len(mapping) == len(wire):  # not exactly one value each
            return _odd_attributes(wire), False
        if len(known) != before:
            return mapping, False
        return self._mappings.setdefault(tuple(map(id, pairs)), mapping), True

    def _new_attribute(self, name: str, kind: str, plain: object) -> _Pair:
        pair = (name, DeviceAttribute.model_validate({kind: plain}, extra="ignore"))
        self._attributes[name, kind, plain] = pair
        return pair

    def _resources_of(self, name: str, capacity: Any, counters: Any) -> _Resources:
        key = repr((capacity, counters))
        known = self._resources.get(key)
        if known is None:
            device = Device.model_validate(
                {"name": name, "capacity": capacity, "consumesCounters": counters}, extra="ignore"
            )
            known = self._resources[key] = _Resources(device.capacity, device.consumes_counters)
        return known


_TEMPLATE: Final = Device(name="template")
_FIELDS_OF_METADATA: Final = {"name", "uid", "resource_version"}
_FIELDS_OF_SLICE: Final = {"metadata", "spec"}


def _plain_device(
    name: str, attributes: dict[str, DeviceAttribute], resources: _Resources, *, shareable: bool | None
) -> Device:
    """Return a device of parts that are checked already; all other fields are as pydantic would default them."""
    device = _TEMPLATE.model_copy()
    _fill(
        device,
        name=name,
        attributes=attributes,
        capacity=resources.capacity,
        consumes_counters=resources.counters,
        allow_multiple_allocations=shareable,
    )
    return device


def _fill(model: Device | ResourceSliceSpec, **values: object) -> None:
    """Set fields of a model that nobody else has yet.

    ``model_copy(update=...)`` would do, but notes the fields in a set of each model's own: 700 bytes a device.
    """
    model.__dict__.update(values)


def _odd_attributes(wire: Mapping[str, Any]) -> dict[str, DeviceAttribute]:
    return {name: DeviceAttribute.model_validate(value, extra="ignore") for name, value in wire.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {value!r:.60}")
    return value
