"""A device to evaluate selectors for."""

from __future__ import annotations

from typing import Final

from driver.api.resource_v1 import Device

__all__ = ["DRIVER", "gpu"]

DRIVER: Final = "gpu.example.com"


def gpu(**attributes: object) -> Device:
    """A GPU of 80Gi with these attributes."""
    kinds: dict[type, str] = {str: "string", int: "int", bool: "bool"}
    wire = {name: {kinds[type(value)]: value} for name, value in attributes.items()}
    return Device.model_validate({"name": "gpu-0", "attributes": wire, "capacity": {"memory": {"value": "80Gi"}}})
