"""Makes a device the variable ``device`` of an expression.

Source of the rules: k8s.io/dynamic-resource-allocation v0.37.2, cel/compile.go (DeviceMatches, getAttributeValue,
parseQualifiedName).
"""

from __future__ import annotations

from driver.api import resource_v1
from driver.cel.kubernetes import parse_version
from driver.cel.values import CelMap, DefaultMap, IntType, Value

__all__ = ["device_value"]


def device_value(driver: str, device: resource_v1.Device) -> Value:
    """Return the value of ``device``.

    Args:
        driver: The driver of the slice that the device is in; the domain of names without one.
        device: The device.

    Raises:
        ValueError: An attribute has no value that an expression can use; the message names it.
    """
    attributes: dict[str, CelMap] = {}
    for name, attribute in device.attributes.items():
        domain, identifier = _qualified(name, driver)
        try:
            value = _attribute(attribute)
        except ValueError as error:
            raise ValueError(f"attribute {name}: {error}") from error
        attributes.setdefault(domain, CelMap()).put(identifier, value)
    capacity: dict[str, CelMap] = {}
    for name, amount in device.capacity.items():
        domain, identifier = _qualified(name, driver)
        capacity.setdefault(domain, CelMap()).put(identifier, amount.value)
    return CelMap(
        {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": DefaultMap(dict(attributes)),
            "capacity": DefaultMap(dict(capacity)),
        }
    )


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(attribute: resource_v1.DeviceAttribute) -> Value:
    values = _list(attribute)
    if values is not None:
        return values
    if attribute.int_value is not None:
        return IntType(attribute.int_value)
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is not None:
        return parse_version(attribute.version_value)
    raise ValueError("unsupported attribute value")


def _list(attribute: resource_v1.DeviceAttribute) -> list[Value] | None:
    if attribute.int_values is not None:
        return [IntType(value) for value in attribute.int_values]
    if attribute.bool_values is not None:
        return list(attribute.bool_values)
    if attribute.string_values is not None:
        return list(attribute.string_values)
    if attribute.version_values is not None:
        return [parse_version(value) for value in attribute.version_values]
    return None
