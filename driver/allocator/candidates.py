"""Which devices a demand may take on a node, before anything is chosen.

Source: isSelectable, taintPreventsAllocation and validateDeviceRequest in k8s.io/dynamic-resource-allocation v0.36.3,
structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from driver.allocator.capacity import consumption, fits
from driver.allocator.demands import Demand
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.allocator.ledger import Ledger
from driver.allocator.node_selection import matches_node
from driver.allocator.pools import NodeView, PooledDevice, PoolState
from driver.allocator.selection import SelectionFailure, Selections
from driver.allocator.taints import refusing_taints
from driver.api.quantity import Quantity

__all__ = ["MAX_RESULTS", "Candidate", "Candidates", "Request", "Scene", "gather"]

MAX_RESULTS: Final = 32
"""The most devices that one claim may get (k8s.io/api v0.36.3, resource/v1, AllocationResultsMaxSize)."""

_NOTHING: Final[Mapping[str, Quantity]] = {}


@dataclass(frozen=True, slots=True)
class Scene:
    """One node at one moment.

    Attributes:
        view: What is published for it.
        ledger: What is in use.
        features: What is on.
        selections: Answers of selectors.
    """

    view: NodeView
    ledger: Ledger
    features: Features
    selections: Selections


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that a demand selects.

    Attributes:
        position: Its place in the node's order.
        device: The device.
        consumed: What the demand takes of its capacities.
        failure: Nobody can tell whether it is selected: the search must stop if it comes here.
        refused: It is selected, but in use, tainted, or needs a feature that is off.
    """

    position: int
    device: PooledDevice
    consumed: Mapping[str, Quantity]
    failure: AllocationError | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The candidates of one demand.

    Attributes:
        demand: The demand.
        need: How many of them it takes.
        items: In the node's order. All of them are needed where the demand is for all devices; otherwise those that
            are refused are left out.
        may_fail: Some of them has a failure.
    """

    demand: Demand
    need: int
    items: tuple[Candidate, ...]
    may_fail: bool


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request on a node.

    Attributes:
        claim: Its claim's place.
        who: How messages name the claim.
        alternatives: The candidates of each alternative, best first.
    """

    claim: int
    who: str
    alternatives: tuple[Candidates, ...]

    @property
    def least(self) -> int:
        """The fewest devices that serve it."""
        return min(candidates.need for candidates in self.alternatives)


def gather(scene: Scene, demand: Demand, *, claim: str) -> Candidates:
    """The candidates of ``demand``.

    Args:
        scene: The node.
        demand: What is asked for.
        claim: How messages name the claim.

    Raises:
        AllocationError: All devices are asked for, and a pool is incomplete or invalid, or a selector fails.
    """
    where = f"{claim}, request {demand.name}"
    if demand.count is not None:
        items = tuple(item for item in _items(scene, demand, where) if not item.refused)
        return Candidates(demand, demand.count, items, any(item.failure is not None for item in items))
    for pool in scene.view.pools:
        if pool.state is not PoolState.USABLE:
            raise AllocationError(
                f"{where}: asks for all devices, but resource pool {pool.id} is {pool.state.value}: {pool.reason}"
            )
    items = tuple(_items(scene, demand, where))
    for item in items:
        if item.failure is not None:
            raise item.failure
    return Candidates(demand, len(items), items, may_fail=False)


def _items(scene: Scene, demand: Demand, where: str) -> Iterator[Candidate]:
    everything = demand.count is None
    start = 0
    for part in scene.view.slices:
        for place, failed in scene.selections.of(demand, part):
            device = part.devices[place]
            in_use = not demand.admin and scene.ledger.is_whole(device.id)
            if in_use and not everything:
                continue  # not even looked at, as upstream: a selector that fails on it does not matter
            if failed is not None:
                error = _selector_error(failed, demand, device, where)
                yield Candidate(start + place, device, _NOTHING, failure=error)
            elif device.simple and not demand.capacity:
                yield Candidate(start + place, device, _NOTHING, refused=in_use)
            else:
                yield from _closer_look(scene, demand, where, start + place, device, in_use=in_use)
        start += len(part.devices)


def _closer_look(
    scene: Scene, demand: Demand, where: str, position: int, device: PooledDevice, *, in_use: bool
) -> Iterator[Candidate]:
    """The candidate that a selected device makes, if it makes one."""
    if device.slice.per_device_node_selection:
        try:
            if not _is_for_node(scene, device):
                return
        except AllocationError as error:
            failure = AllocationError(f"{where}: device {device.id}: {error.message}")
            yield Candidate(position, device, _NOTHING, failure=failure)
            return
    consumed = consumption(demand, device.device) if scene.features.consumable_capacity else _NOTHING
    if consumed is None or not fits(consumed, scene.ledger.consumed(device.id), device.device):
        return
    yield Candidate(
        position,
        device,
        consumed if device.shareable else _NOTHING,
        refused=in_use or _refused(scene, demand, device),
    )


def _selector_error(failed: SelectionFailure, demand: Demand, device: PooledDevice, where: str) -> AllocationError:
    owner = f"class {demand.device_class}, " if failed.by_class else ""
    message = f"{where}: {owner}selector #{failed.index} fails for device {device.id}: {failed.error.message}"
    error = AllocationError(message, hint=failed.error.hint)
    error.__cause__ = failed.error
    return error


def _is_for_node(scene: Scene, device: PooledDevice) -> bool:
    what = device.device
    return matches_node(
        scene.view.node, node_name=what.node_name, all_nodes=what.all_nodes, selector=what.node_selector
    )


def _refused(scene: Scene, demand: Demand, device: PooledDevice) -> bool:
    if device.device.consumes_counters and not scene.features.partitionable_devices:
        return True
    return scene.features.device_taints and bool(refusing_taints(device.device.taints, demand.tolerations))
