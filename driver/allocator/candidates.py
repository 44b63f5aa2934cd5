"""Which devices a demand may take on a node, before anything is chosen.

Source: isSelectable, taintPreventsAllocation and validateDeviceRequest in k8s.io/dynamic-resource-allocation v0.37.2,
structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, NamedTuple

from driver.allocator.capacity import consumption, fits
from driver.allocator.demands import ClaimDemand, Demand, claim_name
from driver.allocator.errors import AllocationError, CapacityError, SearchLimitError
from driver.allocator.features import Features
from driver.allocator.identity import PoolId
from driver.allocator.ledger import Ledger
from driver.allocator.node_selection import matches_node
from driver.allocator.selection import SelectionFailure, Selections
from driver.allocator.taints import refusing_taints
from driver.allocator.view import NodeView, PooledDevice, PoolState
from driver.api.quantity import Quantity
from driver.api.resource_v1 import ResourceClaim
from driver.budget import check
from driver.cel import CelLimitError

__all__ = [
    "MAX_RESULTS",
    "Candidate",
    "Candidates",
    "Offer",
    "Offers",
    "Request",
    "Scene",
    "gather",
    "gather_requests",
]

MAX_RESULTS: Final = 32
"""The most devices that one claim may get (k8s.io/api v0.37.2, resource/v1, AllocationResultsMaxSize)."""

_NOTHING: Final[Mapping[str, Quantity]] = {}

_REMEMBERED: Final = 8
"""For how many kinds of demands a view remembers its offers: there are thousands of views."""


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


class Candidate(NamedTuple):
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


class Offer(NamedTuple):
    """A device that a demand would get if nothing were in use.

    Attributes:
        name: The device's name in its pool.
        candidate: The device as a candidate.
        takes: What of its capacities must be free; also of a device that is not shared.
    """

    name: str
    candidate: Candidate
    takes: Mapping[str, Quantity]


class Offers(NamedTuple):
    """What a node has for all demands that want the same.

    Attributes:
        pools: What each pool offers, in the node's order.
        may_fail: Some device has a failure.
    """

    pools: tuple[tuple[PoolId, tuple[Offer, ...]], ...]
    may_fail: bool


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
        least: The fewest devices that serve it.
    """

    claim: int
    who: str
    alternatives: tuple[Candidates, ...]
    least: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "least", min([candidates.need for candidates in self.alternatives]))


def gather(scene: Scene, demand: Demand, *, claim: str) -> Candidates:
    """The candidates of ``demand``.

    Args:
        scene: The node.
        demand: What is asked for.
        claim: How messages name the claim.

    Raises:
        AllocationError: All devices are asked for, and a pool is incomplete or invalid, or a selector fails.
    """
    if demand.count is not None:
        offers = _offers(scene, demand, claim)
        items = _free(scene, demand, offers)
        may_fail = offers.may_fail and any(item.failure is not None for item in items)
        return Candidates(demand, demand.count, items, may_fail)
    for pool in scene.view.pools:
        if pool.state is not PoolState.USABLE:
            raise AllocationError(
                f"{claim}, request {demand.name}: asks for all devices, but resource pool {pool.id} is"
                f" {pool.state.value}: {pool.reason}"
            )
    items = tuple(_all(scene, demand, _offers(scene, demand, claim)))
    return Candidates(demand, len(items), items, may_fail=False)


def gather_requests(scene: Scene, claims: Sequence[ResourceClaim], demands: Sequence[ClaimDemand]) -> list[Request]:
    """All requests of all claims.

    Args:
        scene: The node.
        claims: In the pod's order.
        demands: What each of them asks for.

    Raises:
        AllocationError: As :func:`gather`, or a claim asks for more devices than a claim may get.
    """
    known: dict[object, Candidates] = {}
    requests = []
    for place, (claim, demand) in enumerate(zip(claims, demands, strict=True)):
        who = claim_name(claim)
        of_claim = [
            Request(place, who, tuple([_known_or_gathered(scene, part, who, known) for part in request.alternatives]))
            for request in demand.requests
        ]
        least = sum([request.least for request in of_claim])
        if least > MAX_RESULTS:
            raise AllocationError(
                f"{who}: asks for {least} devices, which exceeds the claim limit of {MAX_RESULTS}",
                hint="split the claim",
            )
        requests += of_claim
    return requests


def _known_or_gathered(scene: Scene, demand: Demand, who: str, known: dict[object, Candidates]) -> Candidates:
    """What was gathered for a demand of the same kind serves again; the search knows alike demands by that."""
    same = known.get(demand.kind)
    if same is not None and not same.may_fail:
        return replace(same, demand=demand)
    check()
    candidates = known[demand.kind] = gather(scene, demand, claim=who)
    return candidates


def _free(scene: Scene, demand: Demand, offers: Offers) -> tuple[Candidate, ...]:
    """What can be taken of the offers.

    Devices in use are not even looked at, as upstream: a selector that fails on one does not matter.
    """
    free: list[Candidate] = []
    for pool, offered in offers.pools:
        in_use = () if demand.admin else scene.ledger.whole_in(pool)
        free += [
            candidate
            for name, candidate, takes in offered
            if name not in in_use
            and not candidate.refused
            and (not takes or fits(takes, scene.ledger.consumed(candidate.device.id), candidate.device.device))
        ]
    return tuple(free)


def _all(scene: Scene, demand: Demand, offers: Offers) -> Iterator[Candidate]:
    """All offers, with those that are in use, or of which too little is left, as refused."""
    for _, candidate, takes in (offer for _, offered in offers.pools for offer in offered):
        if candidate.failure is not None:
            raise candidate.failure
        device = candidate.device
        in_use = not demand.admin and scene.ledger.is_whole(device.id)
        has_room = fits(takes, scene.ledger.consumed(device.id), device.device)
        yield candidate if has_room and not in_use else candidate._replace(refused=True)


def _offers(scene: Scene, demand: Demand, claim: str) -> Offers:
    """What the node has for the demand; ``claim`` is for messages."""
    remembered = scene.view.offers
    known = remembered.get(demand.wants)
    if known is None:
        items = tuple(_looked_up(scene, demand, f"{claim}, request {demand.name}"))
        by_pool = groupby(items, lambda item: item.candidate.device.id.pool_id)
        pools = tuple((pool, tuple(offered)) for pool, offered in by_pool)
        known = Offers(pools, any(item.candidate.failure is not None for item in items))
        if not known.may_fail:  # messages name the claim
            if len(remembered) >= _REMEMBERED:
                remembered.clear()
            remembered[demand.wants] = known
    return known


def _looked_up(scene: Scene, demand: Demand, where: str) -> Iterator[Offer]:
    start = 0
    for part in scene.view.slices:
        for place, failed in scene.selections.of(demand, part):
            device = part.devices[place]
            if failed is not None:
                error = _selector_error(failed, demand, device, where)
                yield Offer(device.id.device, Candidate(start + place, device, _NOTHING, failure=error), _NOTHING)
            elif device.simple and not demand.capacity:
                yield Offer(device.id.device, Candidate(start + place, device, _NOTHING), _NOTHING)
            else:
                yield from _closer_look(scene, demand, where, start + place, device)
        start += len(part.devices)


def _closer_look(scene: Scene, demand: Demand, where: str, position: int, device: PooledDevice) -> Iterator[Offer]:
    """What a selected device offers, if anything."""
    if device.slice.per_device_node_selection:
        try:
            if not _is_for_node(scene, device):
                return
        except AllocationError as error:
            yield _failed(device, position, f"{where}: device {device.id}: {error.message}")
            return
    try:
        takes = consumption(demand, device.device) if scene.features.consumable_capacity else _NOTHING
    except CapacityError as error:
        yield _failed(device, position, f"{where}: device {device.id}: {error.message}")
        return
    if takes is not None:
        consumed = takes if device.shareable else _NOTHING
        candidate = Candidate(position, device, consumed, refused=_refused(scene, demand, device))
        yield Offer(device.id.device, candidate, takes)


def _failed(device: PooledDevice, position: int, problem: str) -> Offer:
    failure = AllocationError(problem)
    return Offer(device.id.device, Candidate(position, device, _NOTHING, failure=failure), _NOTHING)


def _selector_error(failed: SelectionFailure, demand: Demand, device: PooledDevice, where: str) -> AllocationError:
    owner = f"class {demand.device_class}, " if failed.by_class else ""
    error: AllocationError
    if isinstance(failed.error, CelLimitError):
        error = SearchLimitError(
            f"{where}: {owner}selector #{failed.index}, device {device.id}: {failed.error.message}"
        )
        error.__cause__ = failed.error
        return error
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
