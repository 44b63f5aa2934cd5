"""Finds what the API server would refuse in ResourceSlices, and consumers in the pools that they form.

Sources: k8s.io/kubernetes v1.36.3, pkg/apis/resource/validation/validation.go; the limits in k8s.io/api v0.36.3,
resource/v1/types.go; for pools k8s.io/dynamic-resource-allocation v0.36.3, structured/internal/incubating/
pools_incubating.go. ``nodeAllocatableResourceMappings`` is not looked at: its gate is alpha, and while that is off the
API server drops the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from driver.api.resource_v1 import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCounterConsumption,
    DeviceTaint,
    DeviceToleration,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from driver.api.validation import fragments, names
from driver.api.validation.errors import FieldError, each, shown
from driver.layout.limits import (
    COUNTER_SETS_PER_SLICE,
    COUNTERS_PER_SET,
    DEVICES_PER_SLICE,
    DEVICES_PER_SLICE_WITH_MORE,
)
from tests.support.slice_validation.capacity import capacity
from tests.support.slice_validation.pools import pool_errors

__all__ = ["validate_slices"]

_ATTRIBUTES_AND_CAPACITIES: Final = 32
_ATTRIBUTE_VALUES: Final = 48
_VALUE_LENGTH: Final = 64
_TAINTS: Final = 16
_CONSUMPTIONS: Final = 2

_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PRE_RELEASE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def validate_slices(slices: Sequence[ResourceSlice]) -> tuple[FieldError, ...]:
    """Return all that the API server would refuse in slices, then all for which consumers would skip a pool of them.

    Paths begin with ``slices[N]``, N counted in the order given. Empty for valid slices that form complete pools.
    """

    def errors() -> Iterator[FieldError]:
        yield from each("slices", slices, _slice)
        yield from pool_errors(slices)

    return tuple(errors())


def _slice(path: str, item: ResourceSlice) -> Iterator[FieldError]:
    spec = item.spec
    yield from names.metadata(item.metadata, namespaced=False, path=f"{path}.metadata")
    path = f"{path}.spec"
    yield from names.driver_name(f"{path}.driver", spec.driver)
    yield from _pool(f"{path}.pool", spec.pool)
    yield from _nodes(path, spec)
    if spec.shared_counters and spec.devices:
        yield FieldError(path, "only one of devices and sharedCounters is allowed")

    def device(item_path: str, item: Device) -> Iterator[FieldError]:
        return _device(item_path, item, per_device_nodes=spec.per_device_node_selection is True)

    advanced = any(_is_advanced(device) for device in spec.devices)
    limit = DEVICES_PER_SLICE_WITH_MORE if advanced else DEVICES_PER_SLICE
    yield from each(f"{path}.devices", spec.devices, device, limit=limit, key=lambda item: item.name)
    yield from each(
        f"{path}.sharedCounters",
        spec.shared_counters,
        _counter_set,
        limit=COUNTER_SETS_PER_SLICE,
        key=lambda item: item.name,
    )


def _pool(path: str, pool: ResourcePool) -> Iterator[FieldError]:
    yield from names.pool_name(f"{path}.name", pool.name)
    if pool.resource_slice_count <= 0:
        yield FieldError(f"{path}.resourceSliceCount", f"must be greater than zero, not {pool.resource_slice_count}")
    if pool.generation < 0:
        yield FieldError(f"{path}.generation", f"must not be negative, but is {pool.generation}")


def _nodes(path: str, spec: ResourceSliceSpec) -> Iterator[FieldError]:
    given = _node_fields(spec)
    if spec.per_device_node_selection is not None:
        given.append("perDeviceNodeSelection")
    if len(given) != 1:
        known = "nodeName, nodeSelector, allNodes and perDeviceNodeSelection"
        yield FieldError(path, f"exactly one of {known} is required, given: {', '.join(given) or 'none'}")
    yield from _node_values(path, spec)
    if spec.per_device_node_selection is False:
        yield FieldError(f"{path}.perDeviceNodeSelection", "must be true or absent")
    if spec.node_selector is not None and len(spec.node_selector.node_selector_terms) > 1:
        yield FieldError(f"{path}.nodeSelector.nodeSelectorTerms", "must have exactly one term in a ResourceSlice")


def _node_fields(owner: ResourceSliceSpec | Device) -> list[str]:
    fields = {"nodeName": owner.node_name, "nodeSelector": owner.node_selector, "allNodes": owner.all_nodes}
    return [name for name, value in fields.items() if value is not None]


def _node_values(path: str, owner: ResourceSliceSpec | Device) -> Iterator[FieldError]:
    if owner.node_name is not None:
        yield from names.subdomain(f"{path}.nodeName", owner.node_name)
    if owner.node_selector is not None:
        yield from fragments.node_selector(f"{path}.nodeSelector", owner.node_selector)
    if owner.all_nodes is False:
        yield FieldError(f"{path}.allNodes", "must be true or absent")


def _is_advanced(device: Device) -> bool:
    """Whether the device has something for which a slice may have 64 devices only."""
    return bool(device.taints or device.consumes_counters) or any(
        values is not None for attribute in device.attributes.values() for values in _lists(attribute).values()
    )


def _device(path: str, device: Device, *, per_device_nodes: bool) -> Iterator[FieldError]:
    yield from names.label(f"{path}.name", device.name)
    entries = len(device.attributes) + len(device.capacity)
    if entries > _ATTRIBUTES_AND_CAPACITIES:
        limit = _ATTRIBUTES_AND_CAPACITIES
        yield FieldError(path, f"has {entries} attributes and capacities together, at most {limit} are allowed")
    values = sum(_value_count(attribute) for attribute in device.attributes.values())
    if values > _ATTRIBUTE_VALUES:
        yield FieldError(path, f"has {values} attribute values together, at most {_ATTRIBUTE_VALUES} are allowed")
    for name, attribute in device.attributes.items():
        key_path = _key(f"{path}.attributes", name)
        yield from names.attribute_name(key_path, name)
        yield from _attribute(key_path, attribute)
    for name, amount in device.capacity.items():
        key_path = _key(f"{path}.capacity", name)
        yield from names.attribute_name(key_path, name)
        yield from capacity(key_path, amount, shareable=device.allow_multiple_allocations is True)
    yield from each(f"{path}.taints", device.taints, _taint, limit=_TAINTS)
    yield from each(
        f"{path}.consumesCounters",
        device.consumes_counters,
        _consumption,
        limit=_CONSUMPTIONS,
        key=lambda item: item.counter_set,
    )
    yield from _device_nodes(path, device, per_device_nodes=per_device_nodes)
    yield from fragments.binding_conditions(path, device.binding_conditions, device.binding_failure_conditions)


def _device_nodes(path: str, device: Device, *, per_device_nodes: bool) -> Iterator[FieldError]:
    given = _node_fields(device)
    if per_device_nodes:
        if len(given) != 1:
            known = "nodeName, nodeSelector and allNodes"
            message = f"exactly one of {known} is required with the slice's perDeviceNodeSelection, given: "
            yield FieldError(path, message + (", ".join(given) or "none"))
        yield from _node_values(path, device)
    elif given:
        yield FieldError(path, f"{', '.join(given)} can be set only with the slice's perDeviceNodeSelection")


def _lists(attribute: DeviceAttribute) -> dict[str, Sequence[object] | None]:
    return {
        "ints": attribute.int_values,
        "bools": attribute.bool_values,
        "strings": attribute.string_values,
        "versions": attribute.version_values,
    }


def _value_count(attribute: DeviceAttribute) -> int:
    return sum(len(values) for values in _lists(attribute).values() if values) or 1


def _attribute(path: str, attribute: DeviceAttribute) -> Iterator[FieldError]:
    scalars = (attribute.int_value, attribute.bool_value, attribute.string_value, attribute.version_value)
    lists = _lists(attribute)
    given = sum(value is not None for value in (*scalars, *lists.values()))
    if given != 1:
        yield FieldError(path, f"exactly one value is required, {given} are set")
    if attribute.string_value is not None:
        yield from _string(f"{path}.string", attribute.string_value)
    if attribute.version_value is not None:
        yield from _version(f"{path}.version", attribute.version_value)
    for field, values in lists.items():
        if values is not None and not values:
            yield FieldError(f"{path}.{field}", "must not be empty where it is set")
    yield from each(f"{path}.strings", attribute.string_values or (), _string)
    yield from each(f"{path}.versions", attribute.version_values or (), _version)


def _string(path: str, value: str) -> Iterator[FieldError]:
    length = names.byte_length(value)
    if length > _VALUE_LENGTH:
        yield FieldError(path, f"{shown(value)} has {length} bytes, at most {_VALUE_LENGTH} are allowed")


def _version(path: str, value: str) -> Iterator[FieldError]:
    if names.byte_length(value) > _VALUE_LENGTH:
        yield from _string(path, value)
    elif _SEMVER.fullmatch(value) is None:
        yield FieldError(path, f"{shown(value)} is not a semantic version (semver.org 2.0.0), such as 580.65.6")


def _counter_set(path: str, counter_set: CounterSet) -> Iterator[FieldError]:
    yield from names.label(f"{path}.name", counter_set.name)
    yield from _counters(f"{path}.counters", counter_set.counters)


def _consumption(path: str, consumption: DeviceCounterConsumption) -> Iterator[FieldError]:
    yield from names.label(f"{path}.counterSet", consumption.counter_set)
    yield from _counters(f"{path}.counters", consumption.counters)


def _counters(path: str, counters: Mapping[str, Counter]) -> Iterator[FieldError]:
    if not counters:
        yield FieldError(path, "is required")
    elif len(counters) > COUNTERS_PER_SET:
        yield FieldError(path, f"has {len(counters)} items, at most {COUNTERS_PER_SET} are allowed")
    else:
        for name in counters:
            yield from names.label(_key(path, name), name)


def _key(path: str, key: str) -> str:
    """Return the path of a map's entry. A long key is cut: all of it is no help in a message."""
    return f"{path}[{key if len(key) <= 96 else key[:93] + '...'}]"


def _taint(path: str, value: DeviceTaint) -> Iterator[FieldError]:
    if not value.key:
        yield from names.label_key(f"{path}.key", value.key)
    alike = DeviceToleration(key=value.key, operator="Equal", value=value.value, effect=value.effect)
    yield from fragments.toleration(path, alike)
    if not value.effect:
        yield FieldError(f"{path}.effect", "is required")
