"""Allocates on one node: from what claims ask for to their results."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from driver.allocator.candidates import RequestCandidates, Scene, gather_requests
from driver.allocator.demands import ClaimDemand, Demand
from driver.allocator.errors import InvalidPoolError
from driver.allocator.identity import DeviceId
from driver.allocator.results import allocation_result
from driver.allocator.search import search
from driver.api.resource_v1 import AllocationResult, DeviceClass, ResourceClaim

__all__ = ["MAX_STEPS", "Ranks", "allocate_on", "random_uid"]

MAX_STEPS: Final = 200_000
"""Some seconds. Real claims take hundreds; what takes more is made to (the general problem is NP-hard)."""

Ranks = Mapping[DeviceId, int]
"""Devices that are tried first, by their ranks, the lowest first; then all others, in the node's order."""

_NO_RANKS: Final[Ranks] = {}


def random_uid() -> str:
    """Return a random UUID (RFC 9562, version 4) as text, in a quarter of the time that :mod:`uuid` takes."""
    digits = f"{random.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def allocate_on(
    scene: Scene,
    claims: Sequence[ResourceClaim],
    demands: Sequence[ClaimDemand],
    *,
    classes: Mapping[str, DeviceClass],
    new_share_id: Callable[[], str] = random_uid,
    max_steps: int = MAX_STEPS,
    ranks: Ranks = _NO_RANKS,
) -> tuple[AllocationResult, ...] | None:
    """Allocate ``claims`` together on a node.

    Args:
        scene: The node.
        claims: A pod's claims, with the API's defaults, in the pod's order.
        demands: What each of them asks for.
        classes: All DeviceClasses by name.
        new_share_id: Makes a UID for each share of a device.
        max_steps: After so many steps of the search for devices the node is given up.
        ranks: Devices to try first. Which devices are free and serve a request, and whether the claims fit at all, does
            not depend on it; without it the answer is kube-scheduler's.

    Returns:
        One result a claim; None where they do not fit.

    Raises:
        AllocationError: A claim, a class or a slice is wrong; ``kind`` says whether another node may do.
    """
    requests = gather_requests(scene, claims, demands)
    if ranks:
        requests = _ranked(requests, ranks)
    taken = search(scene, requests, [demand.constraints for demand in demands], max_steps=max_steps)
    view = scene.view
    if taken is None:
        invalid = view.invalid_pool
        if invalid is not None:
            raise InvalidPoolError(
                f"node {view.node.metadata.name}: the claims do not fit, and resource pool {invalid.id} is invalid:"
                f" {invalid.reason}",
                hint="the driver that publishes the pool must repair it",
            )
        return None
    results = []
    for place, (claim, demand) in enumerate(zip(claims, demands, strict=True)):
        of_claim = [item for item in taken if item.claim == place]
        chosen = _chosen(demand, {item.demand.name for item in of_claim})
        results.append(
            allocation_result(
                claim,
                chosen,
                of_claim,
                node=view.node.metadata.name,
                classes=classes,
                features=scene.features,
                new_share_id=new_share_id,
            )
        )
    return tuple(results)


def _ranked(requests: Sequence[RequestCandidates], ranks: Ranks) -> list[RequestCandidates]:
    """Return the requests with the candidates in another order; those that were one object stay one."""
    last = len(ranks)
    known = {
        id(part.items): tuple(sorted(part.items, key=lambda item: ranks.get(item.device.id, last)))
        for request in requests
        for part in request.alternatives
        if part.demand.count is not None
    }
    return [
        request._replace(
            alternatives=tuple(
                part._replace(items=known.get(id(part.items), part.items)) for part in request.alternatives
            )
        )
        for request in requests
    ]


def _chosen(demand: ClaimDemand, served: set[str]) -> list[Demand]:
    """Return the alternative of each request by which it was served."""
    return [
        request.alternatives[0]
        if len(request.alternatives) == 1
        else next((part for part in request.alternatives if part.name in served), request.alternatives[0])
        for request in demand.requests
    ]
