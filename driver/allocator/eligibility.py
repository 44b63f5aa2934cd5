"""Which devices are eligible for a request on a node: the one home of the filter steps that follow the selectors.

The allocator takes the truth value of a step, :mod:`driver.explain` the step itself. What a search takes in its course
is not looked at here (:mod:`driver.allocator.state`).

Source: isSelectable, taintPreventsAllocation, validateDeviceRequest and allocateDevice in
k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/incubating/allocator_incubating.go. Where upstream errs,
this follows the API's words: a counter belongs to its driver's pool, and a shared device's counters are charged once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from driver.allocator.capacity import consumption, fits
from driver.allocator.demands import Demand
from driver.allocator.features import Features
from driver.allocator.identity import PoolId
from driver.allocator.ledger import Ledger
from driver.allocator.node_selection import matches_node
from driver.allocator.taints import refusing_taints
from driver.allocator.view import CounterKey, NodeView, PooledDevice
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device, Node

__all__ = ["FilterStep", "FreeCounters", "Usage", "eligibility", "is_for_node", "required_capacity", "usage_step"]

_NOTHING: Final[Mapping[str, Quantity]] = {}


class FilterStep(Enum):
    """What keeps a device that is for the node, and that the selectors select, from a request; in order."""

    SIZE = "it lacks a capacity, or has too little of one in all"
    TAINTS = "it has taints that the request does not tolerate"
    IN_USE = "a claim has it for itself"
    ROOM = "shares of claims leave too little of a capacity"
    COUNTERS = "other devices hold the counters that it consumes, or the feature is off"


class FreeCounters:
    """What is left of the shared counters of a node's pools; of a pool it is computed on first use.

    Args:
        view: The node's devices.
        ledger: The devices in use.
    """

    __slots__ = ("_ledger", "_of_pool", "_view")

    def __init__(self, view: NodeView, ledger: Ledger) -> None:
        self._view = view
        self._ledger = ledger
        # By driver and pool: what is left, and the counters that are overdrawn.
        self._of_pool: dict[tuple[str, str], tuple[dict[CounterKey, int], Sequence[CounterKey]]] = {}

    def lacking(self, device: PooledDevice) -> Sequence[CounterKey]:
        """Return the counters of which too little is left for a device of the view; empty where it can be charged.

        While allocated devices hold more of some counter than its pool has, no device that consumes counters of the
        pool can be allocated, as upstream.
        """
        if not device.counters or (device.shareable and self._ledger.is_shared(device.id)):
            return ()  # a shared device was charged with its first share
        free, overdrawn = self._of_pool.get(device.id[:2]) or self._pool(device)
        for key, amount in device.counters.items():
            if free.get(key, 0) < amount:
                return [key for key, amount in device.counters.items() if free.get(key, 0) < amount]
        return overdrawn

    def charge(self, device: PooledDevice, times: int) -> None:
        """Take what the device consumes ``times`` times; -1 gives it back."""
        free, _ = self._pool(device)
        for key, amount in device.counters.items():
            free[key] -= times * amount

    def _pool(self, device: PooledDevice) -> tuple[dict[CounterKey, int], Sequence[CounterKey]]:
        pool_id = device.id[:2]
        known = self._of_pool.get(pool_id)
        if known is None:
            free = self._ledger.free_counters(next(pool for pool in self._view.pools if pool.id == pool_id))
            overdrawn = min(free.values(), default=0) < 0 and [key for key, amount in free.items() if amount < 0]
            known = self._of_pool[pool_id] = (free, overdrawn or ())
        return known


class Usage(NamedTuple):
    """What claims hold, as far as it concerns one demand for devices of one pool.

    Attributes:
        whole: The names of the pool's devices that claims have for themselves; none for a demand with admin access.
        ledger: What all claims hold.
        counters: What is left of the counters of the node's pools.
    """

    whole: Collection[str]
    ledger: Ledger
    counters: FreeCounters

    @classmethod
    def of(cls, demand: Demand, pool: PoolId, ledger: Ledger, counters: FreeCounters) -> Usage:
        """Return the usage of a pool."""
        return cls(() if demand.admin else ledger.whole_in(pool), ledger, counters)


def is_for_node(device: Device, node: Node) -> bool:
    """Whether a device of a slice with ``perDeviceNodeSelection`` can be used from the node.

    Raises:
        AllocationError: The device's node selector is invalid.
    """
    return matches_node(node, node_name=device.node_name, all_nodes=device.all_nodes, selector=device.node_selector)


def required_capacity(demand: Demand, device: Device, features: Features) -> Mapping[str, Quantity] | None:
    """Return the amounts of the device's capacities that must be free for the demand; None where it is too small.

    Raises:
        CapacityError: As :func:`driver.allocator.capacity.consumption`.
    """
    return consumption(demand, device) if features.consumable_capacity else _NOTHING


def eligibility(
    demand: Demand,
    device: PooledDevice,
    takes: Mapping[str, Quantity] | None,
    features: Features,
    usage: Usage | None,
) -> FilterStep | None:
    """Return the first step that a selected device does not pass; None where it is eligible.

    Args:
        demand: The demand.
        device: A device that is for the node, and that the demand's selectors select.
        takes: What :func:`required_capacity` returns.
        features: The feature gates.
        usage: What is in use; None to leave it out of account.
    """
    if takes is None:
        return FilterStep.SIZE
    published = device.device
    if published.taints and features.device_taints and refusing_taints(published.taints, demand.tolerations):
        return FilterStep.TAINTS
    if usage is not None:
        step = usage_step(device, takes, usage.whole, usage.ledger)
        if step is not None:
            return step
    if published.consumes_counters and (
        not features.partitionable_devices or (usage is not None and usage.counters.lacking(device))
    ):
        return FilterStep.COUNTERS
    return None


def usage_step(
    device: PooledDevice, takes: Mapping[str, Quantity], whole: Collection[str], ledger: Ledger
) -> FilterStep | None:
    """Return the step at which what claims hold of the device itself keeps it from a demand; None where none does.

    Args:
        device: The device.
        takes: What :func:`required_capacity` returns.
        whole: As :attr:`Usage.whole`.
        ledger: What all claims hold.
    """
    if device.id.device in whole:
        return FilterStep.IN_USE
    if takes:
        used = ledger.consumed(device.id)
        # What is not in use at all has room: nobody takes more than all of a capacity.
        if used and not fits(takes, used, device.device):
            return FilterStep.ROOM
    return None
