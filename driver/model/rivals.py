"""Who else gives out a node's devices: a device plugin, or another DRA driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from driver.model.devices import DeviceName

__all__ = ["DEVICE_PLUGIN", "DRA_DRIVER", "RIVAL_TAINT", "Rival"]

RIVAL_TAINT: Final = "rootport.dev/rival-plugin"
"""The key of the taint of a device that another system gives out as well; its value is the rival's kind."""

DEVICE_PLUGIN: Final = "DevicePlugin"
"""The kind of what gives devices out as an extended resource: a device plugin, or what writes the Node's resources."""

DRA_DRIVER: Final = "DRADriver"
"""The kind of a DRA driver that publishes the same devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another system that gives out some of a node's devices.

    Attributes:
        name: The extended resource, such as ``nvidia.com/gpu``, or the DRA driver's name.
        kind: :data:`DEVICE_PLUGIN` or :data:`DRA_DRIVER`; a newer plugin may report others.
        devices: The devices concerned: GPUs, NICs and FPGAs, whose parts and virtual functions are meant too, and
            single virtual functions.
        message: What is known, what is not, and what to do, for a person.
    """

    name: str
    kind: str
    devices: tuple[DeviceName, ...]
    message: str
