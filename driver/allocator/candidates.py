"""Finds the devices that a demand may take on a node, before anything is chosen.

Source: isSelectable, taintPreventsAllocation and validateDeviceRequest in k8s.io/dynamic-resource-allocation v0.37.2,
structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from driver.allocator.demands import ClaimDemand, Demand, claim_name
from driver.allocator.eligibility import eligibility, is_for_node, required_capacity, usage_step
from driver.allocator.errors import AllocationError, SearchLimitError
from driver.allocator.features import Features
from driver.allocator.ledger import Ledger
from driver.allocator.selection import SelectionFailure, Selections
from driver.allocator.view import Candidate, NodeView, Offer, Offers, PooledDevice, PoolState
from driver.api.quantity import Quantity
from driver.api.resource_v1 import ResourceClaim
from driver.budget import check
from driver.cel import CelLimitError

__all__ = [
    "MAX_RESULTS",
    "Candidates",
    "RequestCandidates",
    "Scene",
    "gather",
    "gather_requests",
    "offers",
]

MAX_RESULTS: Final = 32
"""The most devices that one claim may get (k8s.io/api v0.37.2, resource/v1, AllocationResultsMaxSize)."""

_NOTHING: Final[Mapping[str, Quantity]] = {}


class Scene(NamedTuple):
    """One node at one moment.

    Attributes:
        view: The devices that are published for it.
        ledger: What claims hold.
        features: The feature gates.
        selections: The answers of selectors.
    """

    view: NodeView
    ledger: Ledger
    features: Features
    selections: Selections


class Candidates(NamedTuple):
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


class RequestCandidates(NamedTuple):
    """The candidates of a request on a node.

    Attributes:
        claim: Its claim's place.
        who: How messages name the claim.
        alternatives: The candidates of each alternative, best first.
        least: The fewest devices that serve it.
    """

    claim: int
    who: str
    alternatives: tuple[Candidates, ...]
    least: int


def gather(scene: Scene, demand: Demand, *, claim: str) -> Candidates:
    """Return the candidates of ``demand``.

    Args:
        scene: The node.
        demand: What is asked for.
        claim: How messages name the claim.

    Raises:
        AllocationError: All devices are asked for, and a pool is incomplete or invalid, or a selector fails.
    """
    if demand.count is not None:
        found = offers(scene, demand, claim)
        items = _free(scene, demand, found)
        may_fail = found.may_fail and any(item.failure is not None for item in items)
        return Candidates(demand, demand.count, items, may_fail)
    for pool in scene.view.pools:
        if pool.state is not PoolState.USABLE:
            raise AllocationError(
                f"{claim}, request {demand.name}: asks for all devices, but resource pool {pool.id} is"
                f" {pool.state.value}: {pool.reason}"
            )
    items = tuple(_all(scene, demand, offers(scene, demand, claim)))
    return Candidates(demand, len(items), items, may_fail=False)


def gather_requests(
    scene: Scene, claims: Sequence[ResourceClaim], demands: Sequence[ClaimDemand]
) -> list[RequestCandidates]:
    """Return the candidates of all requests of all claims.

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
        least = 0
        for request in demand.requests:
            alternatives = tuple([_gathered_once(scene, part, who, known) for part in request.alternatives])
            fewest = min([candidates.need for candidates in alternatives])
            requests.append(RequestCandidates(place, who, alternatives, fewest))
            least += fewest
        if least > MAX_RESULTS:
            raise AllocationError(
                f"{who}: asks for {least} devices, which exceeds the claim limit of {MAX_RESULTS}",
                hint="split the claim",
            )
    return requests


def _gathered_once(scene: Scene, demand: Demand, who: str, known: dict[object, Candidates]) -> Candidates:
    """Gather for a demand, or take what a demand of the same kind has: by that the search knows alike demands."""
    same = known.get(demand.kind)
    if same is not None and not same.may_fail:
        return same._replace(demand=demand)
    check()
    candidates = known[demand.kind] = gather(scene, demand, claim=who)
    return candidates


def _free(scene: Scene, demand: Demand, found: Offers) -> tuple[Candidate, ...]:
    """Return the offers that can be taken.

    Of devices in use not even a failure counts, as upstream: a selector that fails on one does not matter.
    """
    free: list[Candidate] = []
    ledger = scene.ledger
    for pool, offered in found.pools:
        whole = () if demand.admin else ledger.whole_in(pool)
        # The first step of usage_step stands here as well, for most devices need no other: no call for each of them.
        free += [
            offer.candidate
            for offer in offered
            if offer.name not in whole
            and not offer.candidate.refused
            and (not offer.takes or usage_step(offer.candidate.device, offer.takes, whole, ledger) is None)
        ]
    return tuple(free)


def _all(scene: Scene, demand: Demand, found: Offers) -> Iterator[Candidate]:
    """Yield all offers, with those that are in use, or of which too little is left, as refused."""
    for pool, offered in found.pools:
        whole = () if demand.admin else scene.ledger.whole_in(pool)
        for offer in offered:
            candidate = offer.candidate
            if candidate.failure is not None:
                raise candidate.failure
            is_free = usage_step(candidate.device, offer.takes, whole, scene.ledger) is None
            yield candidate if is_free else replace(candidate, refused=True)


def offers(scene: Scene, demand: Demand, claim: str) -> Offers:
    """Return what the node has for the demand, in use or not; ``claim`` is for messages."""
    known = scene.view.offers.get(demand.wants)
    if known is None:
        items = tuple(_offered(scene, demand, f"{claim}, request {demand.name}"))
        by_pool = groupby(items, lambda item: item.candidate.device.id.pool_id)
        pools = tuple((pool, tuple(offered)) for pool, offered in by_pool)
        known = Offers(pools, any(item.candidate.failure is not None for item in items))
        if not known.may_fail:  # messages name the claim
            scene.view.offers.put(demand.wants, known)
    return known


def _offered(scene: Scene, demand: Demand, where: str) -> Iterator[Offer]:
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
                yield from _evaluated(scene, demand, where, start + place, device)
        start += len(part.devices)


def _evaluated(scene: Scene, demand: Demand, where: str, position: int, device: PooledDevice) -> Iterator[Offer]:
    """Yield the offer of a selected device, if it makes one."""
    try:
        if device.slice.per_device_node_selection and not is_for_node(device.device, scene.view.node):
            return
        takes = required_capacity(demand, device.device, scene.features)
    except AllocationError as error:
        yield _failed(device, position, f"{where}: device {device.id}: {error.message}")
        return
    if takes is not None:
        consumed = takes if device.shareable else _NOTHING
        is_refused = eligibility(demand, device, takes, scene.features, usage=None) is not None
        yield Offer(device.id.device, Candidate(position, device, consumed, refused=is_refused), takes)


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
