"""What one node sees of the published devices.

Views and their parts live until a slice changes, so what is found out about them is remembered in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from driver.allocator.identity import DeviceId, PoolId
from driver.api.resource_v1 import Device, Node, ResourceSliceSpec

if TYPE_CHECKING:
    from driver.allocator.candidates import Offers
    from driver.allocator.constraints import Values
    from driver.cel import Read

__all__ = ["Column", "CounterKey", "NodeView", "Pool", "PoolState", "PooledDevice", "SliceDevices"]

CounterKey = tuple[str, str]
"""A counter of a pool: its counter set, its name. Of two pools, equal keys are two counters."""


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
class Column:
    """What the devices of a slice have for one thing that selectors read; one object for equal values."""

    values: tuple[object, ...]


class SliceDevices:
    """The devices of one slice.

    Attributes:
        driver: Whose they are.
        source: The very tuple that the slice holds, by which selections are cached.
        columns: What the devices have for an attribute, in order, as far as it was asked for
            (:func:`driver.allocator.constraints.column`).
        read: What they have for what selectors read, likewise (:mod:`driver.allocator.selection`).
        plain: Whether selectors see nothing of them but what they read; None as long as nobody asked.
        shape: Equal for slices whose devices differ in attributes at most; None where nobody can say.
    """

    __slots__ = ("_build", "_devices", "columns", "driver", "plain", "read", "shape", "source")

    def __init__(
        self,
        driver: str,
        source: tuple[Device, ...],
        build: Callable[[], tuple[PooledDevice, ...]],
        *,
        shape: int | None = None,
    ) -> None:
        self.driver = driver
        self.source = source
        self.shape = shape
        self.columns: dict[str, tuple[Values | None, ...]] = {}
        self.read: dict[Read, Column] = {}
        self.plain: bool | None = None
        self._build = build
        self._devices: tuple[PooledDevice, ...] | None = None

    @property
    def devices(self) -> tuple[PooledDevice, ...]:
        """In order; made when somebody asks, for of thousands of nodes that are alike few are looked at closely."""
        if self._devices is None:
            self._devices = self._build()
        return self._devices


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """What a node sees of a pool.

    Attributes:
        id: Driver and name.
        state: Devices are taken from usable pools only.
        reason: Why it is not usable; empty where it is.
        slices: In the order in which they are tried.
        elsewhere: Slices of the pool that this node does not reach; their devices may hold the pool's counters.
        counters: What the pool has of each counter, in nano-units.
        comes_last: Some device has binding conditions.
        shape: Equal for pools whose devices differ in attributes at most; None where nobody can say.
    """

    id: PoolId
    state: PoolState
    reason: str = ""
    slices: tuple[SliceDevices, ...] = ()
    elsewhere: tuple[SliceDevices, ...] = ()
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    comes_last: bool = False
    shape: int | None = None


class NodeView:
    """What can be allocated from one node.

    Attributes:
        node: The node.
        pools: All pools that are not obsolete, in the order in which they are tried.
        slices: The slices of the usable pools, in order.
        invalid_pool: The first invalid pool, if there is one.
        offers: What is there for demands of a kind, were nothing in use (:mod:`driver.allocator.candidates`).
    """

    __slots__ = ("_devices", "invalid_pool", "node", "offers", "pools", "slices")

    def __init__(
        self, node: Node, pools: tuple[Pool, ...], slices: tuple[SliceDevices, ...], invalid_pool: Pool | None
    ) -> None:
        self.node = node
        self.pools = pools
        self.slices = slices
        self.invalid_pool = invalid_pool
        self.offers: dict[object, Offers] = {}
        self._devices: tuple[PooledDevice, ...] | None = None

    @property
    def size(self) -> int:
        """How many devices there are."""
        return sum([len(part.source) for part in self.slices])

    @property
    def devices(self) -> tuple[PooledDevice, ...]:
        """The devices of the slices, in order: a position in it names a device within one allocation."""
        if self._devices is None:
            self._devices = tuple([device for part in self.slices for device in part.devices])
        return self._devices
