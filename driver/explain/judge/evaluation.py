"""The evaluation of one node: the devices that each demand finds there, and which demand finds too few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.allocator.candidates import MAX_RESULTS, Scene
from driver.allocator.constraints import column
from driver.allocator.demands import ClaimDemand, Demand, RequestDemand
from driver.allocator.eligibility import FreeCounters
from driver.allocator.pools import Pool, PoolState
from driver.budget import check
from driver.explain.explanation import Step
from driver.explain.judge.constraints import ConstraintChecker
from driver.explain.judge.device_filter import STEPS, DeviceFilter, FilteredDevices
from driver.explain.known.cluster import NodeState
from driver.explain.known.state import ClusterState
from driver.memo import Memo

__all__ = [
    "Evaluations",
    "NodeEvaluation",
    "asks_plainly",
    "demands_of",
    "least_of",
    "remembered",
    "short_request",
    "unusable_pool",
]

_MOST_EVALUATIONS: Final = 512
"""For how many nodes evaluations are remembered, of claims of few demands; for others fewer."""
_IN_USE: Final = STEPS.index(Step.IN_USE)
_FEW_DEMANDS: Final = 16
_FIRST_OF_MANY: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class NodeEvaluation:
    """The evaluation of one node for the demands of a case.

    Attributes:
        scene: The node.
        counters: What is left of the counters of its pools.
        by_demand: The devices for each demand, by the claim's place and the demand's name. Demands that ask alike share
            one object.
    """

    scene: Scene
    counters: FreeCounters
    by_demand: Mapping[tuple[int, str], FilteredDevices]


class Evaluations:
    """Evaluates nodes, each once for an explanation: verdicts, texts and proposals share the result.

    Of thousands of nodes only some are remembered, and only for the demands that were asked about last.

    Args:
        state: The cluster.

    Attributes:
        constraints: Finds the constraints that cannot be met on an evaluated node.
    """

    def __init__(self, state: ClusterState) -> None:
        self.constraints = ConstraintChecker(lists=state.features.list_type_attributes)
        self._state = state
        self._filter = DeviceFilter()
        self._demands: tuple[ClaimDemand, ...] = ()
        self._known: Memo[str, tuple[int, object, NodeEvaluation]] = Memo(1)

    def of(self, node: NodeState, demands: tuple[ClaimDemand, ...], *, is_one_of_many: bool = False) -> NodeEvaluation:
        """Return the evaluation of a node.

        Args:
            node: The node.
            demands: The demands of the case.
            is_one_of_many: Whether all nodes are being judged. Of these only the first are remembered: they stand for
                the others of their kind, and to keep more takes longer than to evaluate again what texts are about.

        Raises:
            AllocationError: A slice for the node has an invalid node selector.
        """
        if demands is not self._demands:
            self._demands, self._known = demands, Memo(remembered(demands))
        name = node.node.metadata.name
        version = self._state.version(name)
        known = self._known.get(name)
        if known is None or known[0] != version or known[1] is not node.node:
            known = (version, node.node, self._evaluated(node, demands))
            if not is_one_of_many or len(self._known) < _FIRST_OF_MANY:
                self._known.put(name, known)
        return known[2]

    def _evaluated(self, node: NodeState, demands: tuple[ClaimDemand, ...]) -> NodeEvaluation:
        state = self._state
        scene = Scene(state.index.view(node.node), state.ledger, state.features, state.selections)
        counters = FreeCounters(scene.view, scene.ledger)
        by_demand: dict[tuple[int, str], FilteredDevices] = {}
        alike: dict[object, FilteredDevices] = {}
        for place, _, demand in demands_of(demands):
            filtered = alike.get(demand.kind)
            if filtered is None:
                check()
                filtered = alike[demand.kind] = self._filter.apply(scene, demand, counters)
            by_demand[place, demand.name] = filtered
        return NodeEvaluation(scene, counters, by_demand)


def remembered(demands: Sequence[ClaimDemand]) -> int:
    """Return for how many nodes the evaluations are remembered; the fewer, the more devices one may hold."""
    return max(1, _MOST_EVALUATIONS // max(1, sum(1 for _ in demands_of(demands)) // _FEW_DEMANDS))


def demands_of(demands: Sequence[ClaimDemand]) -> Iterator[tuple[int, RequestDemand, Demand]]:
    """Yield all alternatives of all requests of all claims, in order, with the claim's place and the request."""
    for place, demand in enumerate(demands):
        for request in demand.requests:
            for alternative in request.alternatives:
                yield place, request, alternative


def asks_plainly(evaluation: NodeEvaluation, demands: Sequence[ClaimDemand]) -> bool:
    """Whether a search could say no more than no, and each device counts once.

    Not with requests for all devices, admin access, more devices than a claim may get, or attributes of no known type.
    """
    if any(demand.admin or not demand.count for _, _, demand in demands_of(demands)):
        return False
    if any(least_of(place, claim, evaluation.by_demand) > MAX_RESULTS for place, claim in enumerate(demands)):
        return False
    lists = evaluation.scene.features.list_type_attributes
    attributes = {constraint.attribute for claim in demands for constraint in claim.constraints}
    return not any(
        frozenset() in column(part, name, lists=lists) for name in attributes for part in evaluation.scene.view.slices
    )


def unusable_pool(scene: Scene, demand: Demand) -> Pool | None:
    """Return a pool of the node that cannot be used, and could have devices for ``demand``.

    Selectors cannot be evaluated for devices that are not there: a pool counts unless the class names other drivers.
    """
    texts = demand.class_selectors
    drivers = {pool.id.driver for pool in scene.view.pools}
    named = {driver for driver in drivers if any(driver in text for text in texts)}
    for pool in scene.view.pools:
        if pool.state is not PoolState.USABLE and (not named or pool.id.driver in named):
            return pool
    return None


def short_request(
    demands: Sequence[ClaimDemand], by_demand: Mapping[tuple[int, str], FilteredDevices]
) -> tuple[int, str, Step, int] | None:
    """Return the request that has too few devices by itself.

    Of a request's alternatives the one that comes furthest counts, and the first of those whose devices are in use; of
    the requests, the one that fails earliest.

    Returns:
        The claim's place, the name of the alternative, the step, and how many devices all such requests lack; None
        where each request has enough by itself.
    """
    first: tuple[int, str, Step] | None = None
    lacks = 0
    for place, claim in enumerate(demands):
        for request in claim.requests:
            best: tuple[tuple[int, int], Step, str] | None = None
            for demand in request.alternatives:
                filtered = by_demand[place, demand.name]
                step = filtered.short_at
                if step is None:
                    break
                # Whether devices, room or counters are in use says nothing about how far the alternative is.
                found = (min(STEPS.index(step), _IN_USE), -filtered.lacks)
                if best is None or found > best[0]:
                    best = (found, step, demand.name)
            else:
                if best is None:
                    continue
                lacks -= best[0][1]
                if first is None or STEPS.index(best[1]) < STEPS.index(first[2]):
                    first = (place, best[2], best[1])
    return None if first is None else (*first, lacks)


def least_of(place: int, claim: ClaimDemand, by_demand: Mapping[tuple[int, str], FilteredDevices]) -> int:
    """Return the fewest devices that serve a claim."""
    return sum(min(by_demand[place, demand.name].need for demand in request.alternatives) for request in claim.requests)
