"""The status of a NodeInventory as its writer handles it: the fields of the models of the same names.

The node's plugin uses these instead of :mod:`driver.api.rootport_v1alpha1`, which takes a process much memory. Their
bounds are the API server's to check: the CRD is made from those models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Condition", "DeviceFault", "DeviceRival", "NodeInventoryStatus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition."""

    WIRE: ClassVar[bool] = True

    type: str
    status: str
    observed_generation: int | None = None
    last_transition_time: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFault:
    """One thing that is wrong with one device."""

    WIRE: ClassVar[bool] = True

    device: str
    reason: str
    effect: str
    since: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRival:
    """Another system that gives out some of the node's devices."""

    WIRE: ClassVar[bool] = True

    name: str
    kind: str
    devices: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventoryStatus:
    """What the plugin reports about itself and the node."""

    WIRE: ClassVar[bool] = True

    conditions: tuple[Condition, ...] = ()
    plugin_version: str | None = None
    observed_generation: int | None = None
    watched: tuple[str, ...] = ()
    faults: tuple[DeviceFault, ...] = ()
    rivals: tuple[DeviceRival, ...] = ()
    prepares_before_binding: tuple[str, ...] = ()
