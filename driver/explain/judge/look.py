"""A close look at one node: what each demand finds there, and which of them finds too little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from driver.allocator.candidates import MAX_RESULTS, Scene
from driver.allocator.constraints import column
from driver.allocator.demands import ClaimDemand, Demand, RequestDemand
from driver.allocator.identity import PoolId
from driver.allocator.pools import CounterKey, Pool, PoolState
from driver.explain.explanation import Step
from driver.explain.judge.funnel import STEPS, Sieve
from driver.explain.reasons import Reason

__all__ = ["SKIPPED", "Judgement", "Look", "asks_plainly", "demands_of", "least_of", "short_request", "unusable_pool"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """What a node's devices say.

    Attributes:
        reason: Why they do not do; None where they do.
        claim: The place of the claim that decides.
        request: The name of the request, or of the alternative, that decides; empty where none does.
        lacks: How many devices are missing at the step that decides.
        left: Per demand, how many devices are left after each step; empty where the node was skipped.
        problem: What the allocator says, where that is more than "no".
        stops: kube-scheduler ends with an error when it comes to this node, whatever other nodes say.
        skipped: The node was not looked at, or not to the end: it would take longer than there may be time.
    """

    reason: Reason | None
    claim: int = 0
    request: str = ""
    lacks: int = 0
    left: tuple[tuple[int, ...], ...]
    problem: str = ""
    stops: bool = False
    skipped: bool = False


SKIPPED: Final = Judgement(
    reason=Reason.SEARCH_LIMIT,
    lacks=MAX_RESULTS,
    left=(),
    problem="what came before took as long as one explanation may take, for the claims have selectors, alternatives or"
    " constraints that take very long",
    skipped=True,
)
"""Of a node that nobody came to."""


@dataclass(slots=True, eq=False)
class Look:
    """A close look at one node.

    Attributes:
        scene: The node.
        sieves: What each demand finds there, by the claim's place and the demand's name.
        free_counters: What is left of the pools' counters, as far as somebody asked.
    """

    scene: Scene
    sieves: dict[tuple[int, str], Sieve]
    free_counters: dict[PoolId, Mapping[CounterKey, int]] = field(default_factory=dict)


def demands_of(demands: Sequence[ClaimDemand]) -> Iterator[tuple[int, RequestDemand, Demand]]:
    """All alternatives of all requests of all claims, in order, with the claim's place."""
    for place, demand in enumerate(demands):
        for request in demand.requests:
            for alternative in request.alternatives:
                yield place, request, alternative


def asks_plainly(look: Look, demands: Sequence[ClaimDemand]) -> bool:
    """Whether a search would say no more than no, and each device counts for what it seems.

    Not with all devices, admin access, more devices than a claim may get, or attributes of no known type.
    """
    if any(demand.admin or not demand.count for _, _, demand in demands_of(demands)):
        return False
    if any(least_of(place, claim, look.sieves) > MAX_RESULTS for place, claim in enumerate(demands)):
        return False
    lists = look.scene.features.list_type_attributes
    attributes = {constraint.attribute for claim in demands for constraint in claim.constraints}
    return not any(
        frozenset() in column(part, name, lists=lists) for name in attributes for part in look.scene.view.slices
    )


def unusable_pool(scene: Scene, demand: Demand) -> Pool | None:
    """A pool of the node that cannot be used, and could have devices for ``demand``.

    Nobody can ask a selector about devices that are not there: a pool counts unless the class names other drivers only.
    """
    texts = demand.class_selectors
    drivers = {pool.id.driver for pool in scene.view.pools}
    named = {driver for driver in drivers if any(driver in text for text in texts)}
    for pool in scene.view.pools:
        if pool.state is not PoolState.USABLE and (not named or pool.id.driver in named):
            return pool
    return None


def short_request(
    demands: Sequence[ClaimDemand], sieves: Mapping[tuple[int, str], Sieve]
) -> tuple[int, str, Step, int] | None:
    """The request that has too few devices by itself: (claim, alternative, step, how many all such requests lack).

    Of a request's alternatives the one that comes furthest speaks; of the requests, the one that fails earliest.
    """
    first: tuple[int, str, Step] | None = None
    lacks = 0
    for place, claim in enumerate(demands):
        for request in claim.requests:
            best: tuple[int, int, str] | None = None
            for demand in request.alternatives:
                sieve = sieves[place, demand.name]
                step = sieve.short_at
                if step is None:
                    break
                found = (STEPS.index(step), -sieve.lacks, demand.name)
                if best is None or found[:2] > best[:2]:
                    best = found
            else:
                if best is None:
                    continue
                lacks -= best[1]
                if first is None or best[0] < STEPS.index(first[2]):
                    first = (place, best[2], STEPS[best[0]])
    return None if first is None else (*first, lacks)


def least_of(place: int, claim: ClaimDemand, sieves: Mapping[tuple[int, str], Sieve]) -> int:
    """The fewest devices that serve a claim."""
    return sum(min(sieves[place, demand.name].need for demand in request.alternatives) for request in claim.requests)
