"""matchAttribute and distinctAttribute.

Source of what they mean: k8s.io/api v0.37.2, resource/v1/types.go (DeviceConstraint), and lookupAttribute,
matchAttributeConstraint and distinctAttributeConstraint in k8s.io/dynamic-resource-allocation v0.37.2,
structured/internal/{incubating,experimental}. An attribute is a set of values here, a plain one a set of one: devices
match if one value is common to all of them, and are distinct if no two have one in common. Values of different types
are different.

Where upstream errs, this follows the API's words: it remembers one device per request only, so that distinctAttribute
lets devices of one request share a value, and it forgets to widen the common values again when it takes a device back
(kubernetes#140438, kubernetes#140326).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from driver.allocator.demands import Constraint
from driver.allocator.view import PooledDevice, SliceDevices, Values
from driver.api.resource_v1 import Device, DeviceAttribute

__all__ = ["attribute_values", "column", "extend"]

_OF_NO_KNOWN_TYPE: Final[Values] = frozenset()


def attribute_values(device: PooledDevice, attribute: str, *, lists: bool) -> Values | None:
    """Return the values of ``device`` for the attribute of that full name.

    Args:
        device: The device.
        attribute: The full name; in a device, attributes of the driver's own domain may stand without it.
        lists: Attributes may be lists.

    Returns:
        The values; none of them where the attribute has no type that counts; None where the device has no such
        attribute.
    """
    return _values_of(device.device, device.id.driver, attribute, lists=lists)


def _values_of(device: Device, driver: str, attribute: str, *, lists: bool) -> Values | None:
    value = device.attributes.get(attribute)
    if value is None:
        domain, _, name = attribute.partition("/")
        value = device.attributes.get(name) if domain == driver else None
    if value is None:
        return None
    return (_list_values(value) if lists else None) or _plain_value(value)


def column(part: SliceDevices, attribute: str, *, lists: bool) -> tuple[Values | None, ...]:
    """Return the values of each device of a slice, as :func:`attribute_values` does; remembered in the slice."""
    known = part.columns.get(attribute)
    if known is None:
        known = tuple([_values_of(device, part.driver, attribute, lists=lists) for device in part.source])
        part.columns[attribute] = known
    return known


def extend(constraint: Constraint, state: Values | None, values: Values | None, *, lists: bool) -> Values | None:
    """Add a device to those that a constraint holds together.

    Args:
        constraint: The constraint.
        state: What the devices so far have in common (match) or have all together (distinct); None before the first.
        values: The device's values.
        lists: Attributes may be lists.

    Returns:
        The new state; None where the device breaks the constraint.
    """
    if values is None:
        return None
    if state is None:
        # A value of no known type equals nothing, but upstream takes it for the first device unless it works with sets.
        return values if values or constraint.distinct or not lists else None
    if not constraint.distinct:
        return state & values or None
    return None if not values or state & values else state | values


def _plain_value(value: DeviceAttribute) -> Values:
    if value.string_value is not None:
        return _single(("string", value.string_value))
    if value.int_value is not None:
        return _single(("int", value.int_value))
    if value.bool_value is not None:
        return _single(("bool", value.bool_value))
    if value.version_value is not None:
        return _single(("version", value.version_value))
    return _OF_NO_KNOWN_TYPE


@lru_cache(maxsize=4096)
def _single(value: tuple[str, int | bool | str]) -> Values:
    """Return a set of one value; the same few are in most devices, so they share them."""
    return frozenset((value,))


def _list_values(value: DeviceAttribute) -> Values:
    if value.int_values:
        return frozenset(("int", item) for item in value.int_values)
    if value.bool_values:
        return frozenset(("bool", item) for item in value.bool_values)
    if value.string_values:
        return frozenset(("string", item) for item in value.string_values)
    return frozenset(("version", item) for item in value.version_values or ())
