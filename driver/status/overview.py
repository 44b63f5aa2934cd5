"""Summarizes a node and its devices for a heat map or a table of the cluster.

The wire form, :meth:`NodeOverview.to_wire`, is a part of the HTTP API under /api/v1 (docs/operator/http-api.md) and of
``rootport status -o json``: fields are added, and never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import Device, DeviceAmounts
from driver.objects.device_conditions import DEGRADED, HAS_RIVAL, HEALTHY

__all__ = [
    "DeviceOverview",
    "NodeOverview",
    "ReadyState",
    "Usage",
    "device_overview",
    "has_rival",
    "is_available",
    "is_offered",
    "total",
]

ReadyState: TypeAlias = Literal["Ready", "NotReady", "Silent"]
"""Ready: all conditions of its plugin are True. NotReady: one is not. Silent: the plugin's heartbeats have ended."""

_NOT_WATCHED: Final = "NotWatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How much of something there is and how much is allocated: percent, bytes, bits per second or a number."""

    used: int
    total: int

    @property
    def free(self) -> int:
        """How much is not allocated; never below 0."""
        return max(self.total - self.used, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOverview:
    """A GPU, NIC, VF or FPGA.

    Attributes:
        name: The device's name in the node's pool.
        type: ``gpu``, ``rdma``, ``rdma-vf`` or ``fpga``.
        index: Its order among the node's devices of its type.
        model: The product's name; empty if it is not known.
        parent: The name of a VF's NIC; empty for other devices.
        state: ``Healthy``, ``Unhealthy`` or ``Unknown``.
        reason: Why it is not healthy, or how it is degraded, as a CamelCase word; empty if neither.
        mode: How it is allocated: ``whole``, ``shared``, ``ratio`` or ``mig``; empty while it is free.
        offered: Whether it, or parts of it, are in a ResourceSlice.
        has_rival: Whether another system may give it out as well, so that no claim is given it.
        core: A GPU's core, in percent.
        memory: A GPU's memory, in bytes.
        bandwidth: A NIC's bandwidth, in bits per second.
        bandwidth_ratio: The same in percent, of a NIC whose speed is not known.
        vfs: A NIC's virtual functions.
        free_core: The core that one more share can get, in percent.
        free_memory: The memory that one more share or partition can get, in bytes.
        free_profile: The largest MIG profile that can still be created; empty if there is none.
        holders: How many claims have it, or parts of it.
    """

    name: str
    type: str
    index: int
    model: str = ""
    parent: str = ""
    state: Literal["Healthy", "Unhealthy", "Unknown"] = "Unknown"
    reason: str = ""
    mode: str = ""
    offered: bool = True
    has_rival: bool = False
    core: Usage | None = None
    memory: Usage | None = None
    bandwidth: Usage | None = None
    bandwidth_ratio: Usage | None = None
    vfs: Usage | None = None
    free_core: int | None = None
    free_memory: int | None = None
    free_profile: str = ""
    holders: int = 0

    def to_wire(self) -> dict[str, Any]:
        """Return the overview as JSON; empty fields are left out, a usage is ``[used, total]``."""
        wire: dict[str, Any] = {"name": self.name, "type": self.type, "index": self.index, "state": self.state}
        amounts = {
            "core": self.core,
            "memory": self.memory,
            "bandwidth": self.bandwidth,
            "bandwidthRatio": self.bandwidth_ratio,
            "vfs": self.vfs,
        }
        wire |= {name: [item.used, item.total] for name, item in amounts.items() if item is not None}
        optional = {
            "model": self.model,
            "parent": self.parent,
            "reason": self.reason,
            "mode": self.mode,
            "freeCore": self.free_core,
            "freeMemory": self.free_memory,
            "freeProfile": self.free_profile,
            "holders": self.holders,
            "hasRival": self.has_rival,
        }
        wire |= {name: value for name, value in optional.items() if value}
        return wire if self.offered else wire | {"offered": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOverview:
    """A node and its devices.

    Attributes:
        name: The node's name.
        state: Whether its plugin reports that it is ready.
        reason: Why it is not; empty if it is.
        cannot_prepare: Whether its plugin can prepare no claim at all: its devices are tainted then. A plugin that is
            not ready for another reason goes on preparing claims.
        managed: Whether Rootport's placement allocates its devices. That is no fault.
        devices: Its devices, in the inventory's order.
    """

    name: str
    state: ReadyState = "Ready"
    reason: str = ""
    cannot_prepare: bool = False
    managed: bool = False
    devices: tuple[DeviceOverview, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the overview as JSON."""
        wire: dict[str, Any] = {"name": self.name, "state": self.state}
        if self.reason:
            wire["reason"] = self.reason
        if self.cannot_prepare:
            wire["cannotPrepare"] = True
        if self.managed:
            wire["managed"] = True
        return wire | {"devices": [device.to_wire() for device in self.devices]}


def device_overview(device: Device) -> DeviceOverview:
    """Return the overview of a Device object."""
    spec, status = device.spec, device.status
    capacity = status.capacity if status else None
    allocated = status.allocated if status else None
    free = status.largest_free if status else None
    return DeviceOverview(
        name=spec.device_name,
        type=spec.type,
        index=spec.index,
        model=spec.model or "",
        parent=spec.parent or "",
        state=status.state if status else "Unknown",
        reason=_reason(device),
        mode=(status.mode if status else None) or "",
        offered=is_offered(device),
        has_rival=has_rival(device),
        core=_percent(capacity, allocated),
        memory=_quantity("memory", capacity, allocated),
        bandwidth=_quantity("bandwidth", capacity, allocated),
        bandwidth_ratio=_count("bandwidth_ratio", capacity, allocated),
        vfs=_count("vfs", capacity, allocated),
        free_core=free.core if free else None,
        free_memory=free.memory.ceil() if free and free.memory is not None else None,
        free_profile=(free.profile if free else None) or "",
        holders=len({item.uid for item in status.allocations}) if status else 0,
    )


def is_available(node: NodeOverview, device: DeviceOverview) -> bool:
    """Whether the free part of a device can be allocated.

    It can if the device is offered, not unhealthy and given out by nobody else, and its node is neither silent nor
    unable to prepare claims.
    """
    is_ours = device.state != "Unhealthy" and not device.has_rival
    return device.offered and is_ours and node.state != "Silent" and not node.cannot_prepare


def is_offered(device: Device) -> bool:
    """Whether a device, or parts of it, are in a ResourceSlice.

    ``leftOut`` is about the device itself. A GPU may be offered by percent or by MIG partitions alone, and a NIC by its
    virtual functions; then some of it can be allocated all the same. Nothing can while the device is unhealthy, or its
    node silent or unable to prepare claims, but what a claim has of it was offered.
    """
    if device.spec.left_out is None:
        return True
    if device.status is None:
        return False
    allocatable = device.status.allocatable or DeviceAmounts()
    return bool(allocatable.core or allocatable.vfs or device.status.allocations)


def _reason(device: Device) -> str:
    """Return the reason of the condition Healthy if it is not True, HasRival, or else the reason of Degraded.

    That nobody watches the device comes behind a rival.
    """
    conditions = {item.type: item for item in device.status.conditions} if device.status else {}
    healthy, degraded = conditions.get(HEALTHY), conditions.get(DEGRADED)
    if healthy is not None and healthy.status != "True" and healthy.reason != _NOT_WATCHED:
        return healthy.reason
    if has_rival(device):
        return HAS_RIVAL
    if healthy is not None and healthy.status != "True":
        return healthy.reason
    return degraded.reason if degraded is not None and degraded.status == "True" else ""


def has_rival(device: Device) -> bool:
    """Whether another system may give out the device as well."""
    conditions = device.status.conditions if device.status else ()
    return any(item.type == HAS_RIVAL and item.status == "True" for item in conditions)


def _percent(capacity: DeviceAmounts | None, allocated: DeviceAmounts | None) -> Usage | None:
    if capacity is None or capacity.core is None:
        return None
    return Usage(used=(allocated.core if allocated else None) or 0, total=capacity.core)


def _count(
    field: Literal["bandwidth_ratio", "vfs"], capacity: DeviceAmounts | None, allocated: DeviceAmounts | None
) -> Usage | None:
    total: int | None = getattr(capacity, field, None)
    return None if total is None else Usage(used=getattr(allocated, field, None) or 0, total=total)


def _quantity(
    field: Literal["memory", "bandwidth"], capacity: DeviceAmounts | None, allocated: DeviceAmounts | None
) -> Usage | None:
    total: Quantity | None = getattr(capacity, field, None)
    if total is None:
        return None
    used: Quantity | None = getattr(allocated, field, None)
    return Usage(used=0 if used is None else used.ceil(), total=total.ceil())


def total(amounts: Iterable[Usage | None]) -> Usage:
    """Return the sum of the usages that are known."""
    known = [item for item in amounts if item is not None]
    return Usage(used=sum(item.used for item in known), total=sum(item.total for item in known))
