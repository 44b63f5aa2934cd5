"""Makes the attributes of published devices out of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from driver.api.resource_v1 import DeviceAttribute
from driver.layout.values import Value

__all__ = ["published", "published_value"]

_FIELDS: Final[Mapping[str, Callable[[Any], DeviceAttribute]]] = {
    "string": lambda value: DeviceAttribute(string_value=value),
    "int": lambda value: DeviceAttribute(int_value=value),
    "bool": lambda value: DeviceAttribute(bool_value=value),
    "version": lambda value: DeviceAttribute(version_value=value),
    "strings": lambda value: DeviceAttribute(string_values=value),
    "ints": lambda value: DeviceAttribute(int_values=value),
}


def published(values: Mapping[str, Value]) -> dict[str, DeviceAttribute]:
    """Return the attributes with these values, by the same names."""
    return {name: published_value(value) for name, value in values.items()}


def published_value(value: Value) -> DeviceAttribute:
    """Return the attribute with a value."""
    return _FIELDS[value.kind](value.value)
