"""What one node sees of the published devices.

Views and their parts live until a slice changes, so what is found out about them is remembered in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from driver.allocator.identity import DeviceId, PoolId
from driver.api.resource_v1 import Device, Node, ResourceSliceSpec

if TYPE_CHECKING:
    from driver.allocator.candidates import Offers
    from driver.allocator.constraints import Values

__all__ = ["CounterKey", "NodeView", "Pool", "PoolState", "PooledDevice", "SliceDevices"]

CounterKey = tuple[PoolId, str, str]
"""A counter: its pool, its counter set, its name."""


class PoolState(Enum):
    """Whether devices can be taken from a pool."""

    USABLE = "usable"
    INCOMPLETE = "being updated"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, eq=False)
class PooledDevice:
    """A device where it is published.

    Attributes:
        id: Its name in results.
        device: The device.
        slice: The specification of its slice.
        counters: What it consumes of its pool's shared counters, in nano-units.
        shareable: Several claims may have it at once (the feature is on, and the device allows it).
        simple: Nothing but selectors and use decides about it: no taints, counters, sizes or node selection of its own.
    """

    id: DeviceId
    device: Device
    slice: ResourceSliceSpec
    counters: Mapping[CounterKey, int]
    shareable: bool
    simple: bool


@dataclass(frozen=True, slots=True, eq=False)
class SliceDevices:
    """The devices of one slice.

    Attributes:
        driver: Whose they are.
        source: The very tuple that the slice holds, by which selections are cached.
        devices: In order.
        columns: What the devices have for an attribute, in order, as far as it was asked for
            (:func:`driver.allocator.constraints.column`).
    """

    driver: str
    source: tuple[Device, ...]
    devices: tuple[PooledDevice, ...]
    columns: dict[str, tuple[Values | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """What a node sees of a pool.

    Attributes:
        id: Driver and name.
        state: Devices are taken from usable pools only.
        reason: Why it is not usable; empty where it is.
        slices: In the order in which they are tried.
        elsewhere: Devices of the pool that this node does not reach; they may hold the pool's counters.
        counters: What the pool has of each counter, in nano-units.
        comes_last: Some device has binding conditions.
    """

    id: PoolId
    state: PoolState
    reason: str = ""
    slices: tuple[SliceDevices, ...] = ()
    elsewhere: tuple[PooledDevice, ...] = ()
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    comes_last: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """What can be allocated from one node.

    Attributes:
        node: The node.
        pools: All pools that are not obsolete, in the order in which they are tried.
        slices: The slices of the usable pools, in order.
        devices: The devices of these slices, in order: a position in it names a device within one allocation.
        invalid_pool: The first invalid pool, if there is one.
        offers: What is there for demands of a kind, were nothing in use (:mod:`driver.allocator.candidates`).
    """

    node: Node
    pools: tuple[Pool, ...]
    slices: tuple[SliceDevices, ...]
    devices: tuple[PooledDevice, ...]
    invalid_pool: Pool | None
    offers: dict[object, Offers] = field(default_factory=dict)
