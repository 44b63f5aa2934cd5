"""Claims for one device of Rootport's classes."""

from __future__ import annotations

from typing import Any

from driver.api.resource_v1 import ResourceClaim
from driver.api.validation.defaults import with_defaults

__all__ = ["class_claim"]


def class_claim(kind: str, *, profile: str = "", **amounts: Any) -> ResourceClaim:
    """A claim with the API's defaults for one device.

    Args:
        kind: Of the class ``<kind>.rootport.dev``.
        profile: Of a MIG partition.
        amounts: The capacity requests, such as ``core=50``.
    """
    exactly: dict[str, Any] = {"deviceClassName": f"{kind}.rootport.dev"}
    if amounts:
        exactly["capacity"] = {"requests": {name: str(amount) for name, amount in amounts.items()}}
    if profile:
        expression = f'device.attributes["rootport.dev"].profile == "{profile}"'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    wire = {
        "metadata": {"name": "c", "namespace": "default", "uid": "u"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    return with_defaults(ResourceClaim.model_validate(wire))
