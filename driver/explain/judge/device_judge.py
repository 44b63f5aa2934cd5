"""Judges nodes by their devices: once for a case, and again only where a node's devices, taints or holdings changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from driver.allocator.candidates import MAX_RESULTS
from driver.allocator.demands import ClaimDemand
from driver.allocator.errors import AllocationError
from driver.allocator.likeness import Likeness
from driver.allocator.pools import PoolState
from driver.allocator.selection import SelectionFailure
from driver.api.resource_v1 import ResourceClaim
from driver.budget import SpentError, is_spent, share
from driver.cel import CelLimitError
from driver.explain.explanation import Step
from driver.explain.judge.case import SKIPPED, Judgement
from driver.explain.judge.constraints import ConstraintProblem
from driver.explain.judge.device_filter import STEPS, FilteredDevices
from driver.explain.judge.evaluation import (
    Evaluations,
    NodeEvaluation,
    asks_plainly,
    demands_of,
    least_of,
    short_request,
    unusable_pool,
)
from driver.explain.judge.first_fit import is_obvious
from driver.explain.judge.sets import too_many_sets
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import NodeState
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason

__all__ = ["DeviceJudge"]

_CASES: Final = 32
"""For how many kinds of cases the nodes' judgements are remembered."""
_NODE_S: Final = 0.2
"""CPU seconds for one node, so that a bad one does not use up what there is for all. Mostly it takes some 0.1 ms."""
_OF_ALL: Final = 0.5
"""Nor may it take more than this part of what is left."""

_BY_STEP: Final = {
    Step.PUBLISHED: Reason.NO_DEVICES_PUBLISHED,
    Step.CLASS: Reason.CLASS_SELECTS_TOO_FEW,
    Step.SELECTOR: Reason.SELECTOR_SELECTS_TOO_FEW,
    Step.SIZE: Reason.CAPACITY_TOO_LARGE,
    Step.TAINTS: Reason.DEVICE_TAINTED,
    Step.IN_USE: Reason.DEVICES_IN_USE,
    Step.ROOM: Reason.CAPACITY_IN_USE,
    Step.COUNTERS: Reason.COUNTERS_IN_USE,
}
_SELECTING: Final = frozenset({Step.CLASS, Step.SELECTOR})
_IN_USE: Final = frozenset({Step.IN_USE, Step.ROOM, Step.COUNTERS})


_NOT_ANSWERED: Final = Judgement(
    reason=Reason.SEARCH_LIMIT,
    lacks=MAX_RESULTS,
    left=(),
    problem="a selector takes more time or memory for a device than one evaluation may take",
    skipped=True,
)
_GIVEN_UP: Final = Judgement(
    reason=Reason.SEARCH_LIMIT,
    lacks=MAX_RESULTS,
    left=(),
    problem="it takes longer than one node may take, for the claims have selectors, alternatives or constraints that"
    " take very long",
    skipped=True,
)


@dataclass(slots=True, eq=False)
class _CaseJudgements:
    """The judgements of one case.

    Attributes:
        likeness: Recognizes nodes that have the same judgement.
        by_node: By the node's name: its version, the node as it was, its judgement.
        by_kind: The judgement of alike nodes.
        compiled: Whether all selectors were compiled once.
    """

    likeness: Likeness
    by_node: dict[str, tuple[int, object, Judgement]] = field(default_factory=dict)
    by_kind: dict[tuple[object, ...], Judgement] = field(default_factory=dict)
    compiled: bool = False

    def forget(self, *, more_than: int) -> None:
        """Forget nodes that are gone, and kinds of nodes that there are no more."""
        if len(self.by_node) > more_than:
            self.by_node.clear()
        if len(self.by_kind) > more_than:
            self.by_kind.clear()


class DeviceJudge:
    """Judges whether the devices of nodes would serve claims.

    Args:
        state: The cluster.
        trial: Decides whether claims fit where evaluation alone does not.
        evaluations: The evaluations of nodes.

    Attributes:
        unfinished: Whether the last call left nodes out, which the next one will judge.
    """

    def __init__(self, state: ClusterState, trial: Trial, evaluations: Evaluations) -> None:
        self._state = state
        self._trial = trial
        self._evaluations = evaluations
        self._constraints = evaluations.constraints
        self._known: OrderedDict[tuple[ClaimDemand, ...], _CaseJudgements] = OrderedDict()
        self.unfinished = False

    def judge(
        self, nodes: Sequence[NodeState], claims: Sequence[ResourceClaim], demands: tuple[ClaimDemand, ...]
    ) -> list[Judgement]:
        """Judge each of ``nodes``, in order, for ``claims``, which ask for ``demands``.

        When the budget in force is spent, the nodes that are not judged yet are skipped; the next call judges these.
        """
        judgements = self._known.get(demands)
        if judgements is None:
            judgements = self._known[demands] = _CaseJudgements(Likeness(self._state, demands))
        self._known.move_to_end(demands)
        while len(self._known) > _CASES:
            self._known.popitem(last=False)
        judgements.forget(more_than=2 * len(nodes))
        known = judgements.by_node
        found = []
        self.unfinished = not self._is_ready(judgements, demands)
        for node in nodes:
            name = node.node.metadata.name
            version = self._state.version(name)
            entry = known.get(name)
            if entry is None or entry[0] != version or entry[1] is not node.node:
                judgement = SKIPPED if self.unfinished else self._judged_in_time(judgements, node, claims, demands)
                if judgement is SKIPPED:
                    self.unfinished = True
                    found.append(judgement)
                    continue
                entry = known[name] = (version, node.node, judgement)
            found.append(entry[2])
        return found

    def _is_ready(self, judgements: _CaseJudgements, demands: tuple[ClaimDemand, ...]) -> bool:
        """Whether there was time to compile all selectors."""
        if not judgements.compiled:
            with suppress(SpentError):
                for _, _, demand in demands_of(demands):
                    self._state.selections.compile(demand)
                judgements.compiled = True
        return judgements.compiled

    def _judged_in_time(
        self,
        judgements: _CaseJudgements,
        node: NodeState,
        claims: Sequence[ResourceClaim],
        demands: tuple[ClaimDemand, ...],
    ) -> Judgement:
        """Judge a node, as far as there is time for it."""
        granted = 0.0
        try:
            with share(_OF_ALL, at_most_s=_NODE_S) as granted:
                kind = judgements.likeness.of(node.node)
                judgement = judgements.by_kind.get(kind) if kind is not None else None
                if judgement is None:
                    judgement = self._judged(node, claims, demands)
                    if kind is not None and _is_of_kind(judgement):
                        judgements.by_kind[kind] = judgement
                return judgement
        except SpentError:
            # With more time a node may still have an answer; not the next one, if it had as much as a node may have.
            return _GIVEN_UP if granted >= _NODE_S and not is_spent() else SKIPPED

    def _judged(self, node: NodeState, claims: Sequence[ResourceClaim], demands: tuple[ClaimDemand, ...]) -> Judgement:
        try:
            evaluation = self._evaluations.of(node, demands, is_one_of_many=True)
        except AllocationError as error:
            nothing = tuple((0,) * len(STEPS) for _ in demands_of(demands))
            return Judgement(reason=Reason.POOL_INVALID, left=nothing, problem=error.message, stops=True)
        by_demand = evaluation.by_demand
        left = tuple([filtered.left for filtered in by_demand.values()])
        fails = any(filtered.failures for filtered in by_demand.values())
        short = short_request(demands, by_demand)
        constrained = any(demand.constraints for demand in demands)
        stops, problem, gave_up = False, "", self._trial.gave_up
        if fails or short is None:
            if constrained and not fails:
                hopeless = self._hopeless(evaluation, demands, left)
                if hopeless is not None:
                    return hopeless
            if is_obvious(demands, by_demand, self._constraints) or self._trial.fits(node, claims):
                return Judgement(reason=None, left=left)
            problem = self._trial.problem
            if fails and _are_not_known(by_demand.values()):
                return _NOT_ANSWERED
            stops = fails and bool(problem)
        if stops or (short is not None and fails and short[2] in _SELECTING):
            place, name = next(key for key, filtered in by_demand.items() if filtered.failures)
            return Judgement(
                reason=Reason.SELECTOR_FAILS, claim=place, request=name, lacks=1, left=left, problem=problem,
                stops=stops,
            )  # fmt: skip
        if short is not None:
            place, name, step, lacks = short
            if constrained and step in _IN_USE:
                never = self._constraints.problem(demands, evaluation.by_demand)
                if never is not None and never.reason is not Reason.CONSTRAINT_IN_USE:
                    return _constrained(never, left, problem)
            reason = self._reason(evaluation, place, name, step)
            return Judgement(reason=reason, claim=place, request=name, lacks=lacks, left=left)
        if self._trial.gave_up > gave_up:
            return Judgement(reason=Reason.SEARCH_LIMIT, lacks=1, left=left, problem=problem)
        return self._together(evaluation, demands, left, problem)

    def _hopeless(
        self, evaluation: NodeEvaluation, demands: tuple[ClaimDemand, ...], left: tuple[tuple[int, ...], ...]
    ) -> Judgement | None:
        """Find what needs no search: a constraint that cannot be met, alone or beside others like it."""
        if not asks_plainly(evaluation, demands):
            return None
        problem = self._constraints.problem(demands, evaluation.by_demand)
        if problem is not None:
            return _constrained(problem, left, "")
        if too_many_sets(demands, evaluation.by_demand, self._constraints):
            return Judgement(reason=Reason.REQUESTS_COMPETE, lacks=1, left=left)
        return None

    def _reason(self, evaluation: NodeEvaluation, place: int, name: str, step: Step) -> Reason:
        filtered = evaluation.by_demand[place, name]
        demand = filtered.demand
        if step in {Step.PUBLISHED, Step.CLASS, Step.SELECTOR}:
            pool = unusable_pool(evaluation.scene, demand)
            if pool is not None:
                return Reason.POOL_INVALID if pool.state is PoolState.INVALID else Reason.POOL_INCOMPLETE
        if step is Step.SIZE:
            wanted = [capacity for capacity, _ in demand.capacity]
            if any(all(name not in item.device.capacity for item in filtered.size) for name in wanted):
                return Reason.CAPACITY_UNKNOWN
        if step is Step.COUNTERS and not evaluation.scene.features.partitionable_devices:
            return Reason.FEATURE_OFF
        return _BY_STEP[step]

    def _together(
        self,
        evaluation: NodeEvaluation,
        demands: tuple[ClaimDemand, ...],
        left: tuple[tuple[int, ...], ...],
        problem: str,
    ) -> Judgement:
        """Find why the claims do not fit where each request has enough by itself."""
        for place, _, demand in demands_of(demands):
            if demand.count is None and any(pool.state is not PoolState.USABLE for pool in evaluation.scene.view.pools):
                pool = next(pool for pool in evaluation.scene.view.pools if pool.state is not PoolState.USABLE)
                reason = Reason.POOL_INVALID if pool.state is PoolState.INVALID else Reason.POOL_INCOMPLETE
                return Judgement(
                    reason=reason, claim=place, request=demand.name, lacks=1, left=left, problem=problem, stops=True
                )
        for place, claim in enumerate(demands):
            least = least_of(place, claim, evaluation.by_demand)
            if least > MAX_RESULTS:
                return Judgement(
                    reason=Reason.TOO_MANY_DEVICES, claim=place, lacks=least - MAX_RESULTS, left=left, problem=problem
                )
        broken = self._constraints.problem(demands, evaluation.by_demand)
        if broken is not None:
            return _constrained(broken, left, problem)
        return Judgement(reason=Reason.REQUESTS_COMPETE, lacks=1, left=left, problem=problem)


def _is_of_kind(judgement: Judgement) -> bool:
    """Whether alike nodes have the same judgement: an error may name a device, but that a search gave up does not."""
    return not judgement.stops and (not judgement.problem or judgement.reason is Reason.SEARCH_LIMIT)


def _are_not_known(by_demand: Iterable[FilteredDevices]) -> bool:
    """Whether a selector was stopped, so that its answer is not known."""
    return any(
        isinstance(failure, SelectionFailure) and isinstance(failure.error, CelLimitError)
        for filtered in by_demand
        for _, failure in filtered.failures
    )


def _constrained(problem: ConstraintProblem, left: tuple[tuple[int, ...], ...], error: str) -> Judgement:
    return Judgement(
        reason=problem.reason,
        claim=problem.claim,
        request=problem.short[0][0] if problem.short else "",
        lacks=max(1, problem.lacks),
        left=left,
        problem=error,
    )
