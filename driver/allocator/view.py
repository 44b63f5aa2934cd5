"""What one node sees of the published devices, and what it offers to demands.

Views and their parts live until a slice changes, so what is found out about them is remembered in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from driver.allocator.errors import AllocationError
from driver.allocator.identity import DeviceId, PoolId
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device, Node, ResourceSliceSpec
from driver.memo import Memo

if TYPE_CHECKING:  # loads cel-python
    from driver.cel import Read

__all__ = [
    "Candidate",
    "Column",
    "CounterKey",
    "NodeView",
    "Offer",
    "Offers",
    "Pool",
    "PoolState",
    "PooledDevice",
    "SliceDevices",
    "Values",
]

CounterKey = tuple[str, str]
"""A counter of a pool: its counter set, its name. Of two pools, equal keys are two counters."""

Values = frozenset[tuple[str, int | bool | str]]
"""The values of an attribute, each with its type."""

_MOST_OFFERS: Final = 8
"""For how many kinds of demands a view remembers its offers: there are thousands of views."""


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
        shareable: Whether several claims may have it at once (the feature is on, and the device allows it).
        simple: Whether nothing but selectors and use decides about it: it has no taints, counters, sizes or node
            selection of its own.
    """

    id: DeviceId
    device: Device
    slice: ResourceSliceSpec
    counters: Mapping[CounterKey, int]
    shareable: bool
    simple: bool


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The values that the devices of a slice have for one thing that selectors read; one object for equal values."""

    values: tuple[object, ...]


class SliceDevices:
    """The devices of one slice.

    Attributes:
        driver: The driver that publishes them.
        source: The very tuple that the slice holds, by which selections are cached.
        columns: The devices' values for an attribute, in order, for the attributes that were asked for
            (:func:`driver.allocator.constraints.column`).
        read: Their values for what selectors read, likewise (:mod:`driver.allocator.selection`).
        plain: Whether selectors see nothing of them but what they read; None until it is asked for.
        shape: Equal for slices whose devices differ in attributes at most (:mod:`driver.allocator.shapes`); None where
            that is not known.
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
        """The devices in order; made on first use, since of thousands of alike nodes few are evaluated."""
        if self._devices is None:
            self._devices = self._build()
        return self._devices


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The part of a pool that a node sees.

    Attributes:
        id: Driver and name.
        state: Devices are taken from usable pools only.
        reason: Why it is not usable; empty where it is.
        slices: In the order in which they are tried.
        elsewhere: Slices of the pool that this node does not reach; their devices may hold the pool's counters.
        counters: What the pool has of each counter, in nano-units.
        comes_last: Whether some device has binding conditions.
        shape: Equal for pools whose devices differ in attributes at most; None where that is not known.
    """

    id: PoolId
    state: PoolState
    reason: str = ""
    slices: tuple[SliceDevices, ...] = ()
    elsewhere: tuple[SliceDevices, ...] = ()
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    comes_last: bool = False
    shape: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A device that a demand selects.

    Attributes:
        position: Its place in the node's order.
        device: The device.
        consumed: The amounts of its capacities that the demand takes.
        failure: Why it is not known whether it is selected: the search must stop if it comes here. None where it is.
        refused: Whether it is selected, but not eligible (:mod:`driver.allocator.eligibility`).
    """

    position: int
    device: PooledDevice
    consumed: Mapping[str, Quantity]
    failure: AllocationError | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A device that a demand would get if nothing were in use.

    Attributes:
        name: The device's name in its pool.
        candidate: The device as a candidate.
        takes: The amounts of its capacities that must be free; also of a device that is not shared.
    """

    name: str
    candidate: Candidate
    takes: Mapping[str, Quantity]


class Offers(NamedTuple):
    """The devices of a node for all demands that want the same.

    Attributes:
        pools: The offers of each pool, in the node's order.
        may_fail: Whether some device has a failure.
    """

    pools: tuple[tuple[PoolId, tuple[Offer, ...]], ...]
    may_fail: bool


class NodeView:
    """The devices that can be allocated from one node.

    Attributes:
        node: The node.
        pools: All pools that are not obsolete, in the order in which they are tried.
        slices: The slices of the usable pools, in order.
        invalid_pool: The first invalid pool, if there is one.
        offers: The offers for demands of a kind, by what they want (:mod:`driver.allocator.candidates`).
    """

    __slots__ = ("_devices", "invalid_pool", "node", "offers", "pools", "slices")

    def __init__(
        self, node: Node, pools: tuple[Pool, ...], slices: tuple[SliceDevices, ...], invalid_pool: Pool | None
    ) -> None:
        self.node = node
        self.pools = pools
        self.slices = slices
        self.invalid_pool = invalid_pool
        self.offers: Memo[object, Offers] = Memo(_MOST_OFFERS)
        self._devices: tuple[PooledDevice, ...] | None = None

    @property
    def size(self) -> int:
        """The number of devices."""
        return sum([len(part.source) for part in self.slices])

    @property
    def devices(self) -> tuple[PooledDevice, ...]:
        """The devices of the slices, in order: a position in it names a device within one allocation."""
        if self._devices is None:
            self._devices = tuple([device for part in self.slices for device in part.devices])
        return self._devices
