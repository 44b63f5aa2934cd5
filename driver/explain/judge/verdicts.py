"""What each node says to a case: judged once, and again only where the node's devices, taints or holdings changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from driver.allocator.candidates import MAX_RESULTS, Scene
from driver.allocator.demands import ClaimDemand
from driver.allocator.errors import AllocationError
from driver.allocator.pools import PoolState
from driver.allocator.selection import SelectionFailure
from driver.api.resource_v1 import ResourceClaim
from driver.budget import SpentError, check, is_spent, share
from driver.cel import CelLimitError
from driver.explain.explanation import Step
from driver.explain.judge.constraints import ConstraintChecker, ConstraintProblem
from driver.explain.judge.first_fit import is_obvious
from driver.explain.judge.funnel import STEPS, Funnels, Sieve
from driver.explain.judge.likeness import Likeness
from driver.explain.judge.look import (
    SKIPPED,
    Judgement,
    Look,
    asks_plainly,
    demands_of,
    least_of,
    short_request,
    unusable_pool,
)
from driver.explain.judge.sets import too_many_sets
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import NodeState
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason

__all__ = ["Verdicts"]

_CASES: Final = 32
"""For how many kinds of cases the nodes' judgements are remembered."""
_NODE_S: Final = 0.2
"""CPU seconds for one node, so that a bad one does not use up what there is for all. Mostly it takes some 0.1 ms."""
_OF_ALL: Final = 0.5
"""Nor may it take more than this part of what is left."""

_BY_STEP: Final = {
    Step.PUBLISHED: Reason.NO_DEVICES,
    Step.CLASS: Reason.CLASS_SELECTS_NONE,
    Step.SELECTOR: Reason.SELECTOR_SELECTS_NONE,
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
class _Said:
    """What was said to one case.

    Attributes:
        likeness: Tells nodes that say the same.
        by_node: (version, the node as it was, what it said).
        by_kind: What alike nodes say.
        compiled: Whether all selectors were compiled once.
    """

    likeness: Likeness
    by_node: dict[str, tuple[int, object, Judgement]] = field(default_factory=dict)
    by_kind: dict[tuple[object, ...], Judgement] = field(default_factory=dict)
    compiled: bool = False

    def forget(self, *, more_than: int) -> None:
        """Let go of nodes that have gone, and of kinds that there are no more."""
        if len(self.by_node) > more_than:
            self.by_node.clear()
        if len(self.by_kind) > more_than:
            self.by_kind.clear()


class Verdicts:
    """Judges nodes.

    Args:
        state: The cluster.
        trial: Has the last word on whether claims fit.

    Attributes:
        unfinished: The last call left nodes out that will be looked at when it is asked again.
    """

    def __init__(self, state: ClusterState, trial: Trial) -> None:
        self._state = state
        self._trial = trial
        self._funnels = Funnels()
        self._constraints = ConstraintChecker(lists=state.features.list_type_attributes)
        self._known: OrderedDict[tuple[ClaimDemand, ...], _Said] = OrderedDict()
        self.unfinished = False

    def judge(
        self, nodes: Sequence[NodeState], claims: Sequence[ResourceClaim], demands: tuple[ClaimDemand, ...]
    ) -> list[Judgement]:
        """What each of ``nodes`` says to ``claims``, which ask for ``demands``; in order.

        When the budget in force is spent, the nodes that are not known yet are skipped; asked again, it goes on with
        these.
        """
        said = self._known.get(demands)
        if said is None:
            said = self._known[demands] = _Said(Likeness(self._state, demands))
        self._known.move_to_end(demands)
        while len(self._known) > _CASES:
            self._known.popitem(last=False)
        said.forget(more_than=2 * len(nodes))
        known = said.by_node
        found = []
        self.unfinished = not self._is_ready(said, demands)
        for node in nodes:
            name = node.node.metadata.name
            version = self._state.version(name)
            entry = known.get(name)
            if entry is None or entry[0] != version or entry[1] is not node.node:
                judgement = SKIPPED if self.unfinished else self._asked(said, node, claims, demands)
                if judgement is SKIPPED:
                    self.unfinished = True
                    found.append(judgement)
                    continue
                entry = known[name] = (version, node.node, judgement)
            found.append(entry[2])
        return found

    def _is_ready(self, said: _Said, demands: tuple[ClaimDemand, ...]) -> bool:
        """Whether there was time to compile all selectors."""
        if not said.compiled:
            with suppress(SpentError):
                for _, _, demand in demands_of(demands):
                    self._state.selections.compile(demand)
                said.compiled = True
        return said.compiled

    def _asked(
        self, said: _Said, node: NodeState, claims: Sequence[ResourceClaim], demands: tuple[ClaimDemand, ...]
    ) -> Judgement:
        """What a node says, as far as there is time to ask it."""
        granted = 0.0
        try:
            with share(_OF_ALL, at_most_s=_NODE_S) as granted:
                kind = said.likeness.of(node)
                judgement = said.by_kind.get(kind) if kind is not None else None
                if judgement is None:
                    judgement = self._judged(node, claims, demands)
                    if kind is not None and _is_of_kind(judgement):
                        said.by_kind[kind] = judgement
                return judgement
        except SpentError:
            # With more time a node may still have an answer; not the next one, if it had as much as a node may have.
            return _GIVEN_UP if granted >= _NODE_S and not is_spent() else SKIPPED

    def look(self, node: NodeState, demands: Sequence[ClaimDemand]) -> Look:
        """What each demand finds on a node.

        Raises:
            AllocationError: A slice for the node has an invalid node selector.
        """
        state = self._state
        scene = Scene(state.index.view(node.node), state.ledger, state.features, state.selections)
        look = Look(scene, {})
        alike: dict[object, Sieve] = {}
        for place, _, demand in demands_of(demands):
            kind = demand.kind
            sieve = alike.get(kind)
            if sieve is None:
                check()
                sieve = alike[kind] = self._funnels.sift(scene, demand, look.free_counters)
            look.sieves[place, demand.name] = sieve
        return look

    def constraint_problem(self, look: Look, demands: Sequence[ClaimDemand]) -> ConstraintProblem | None:
        """The constraint that cannot be met on the node."""
        return self._constraints.problem(demands, look.sieves)

    def _judged(self, node: NodeState, claims: Sequence[ResourceClaim], demands: tuple[ClaimDemand, ...]) -> Judgement:
        try:
            look = self.look(node, demands)
        except AllocationError as error:
            nothing = tuple((0,) * len(STEPS) for _ in demands_of(demands))
            return Judgement(reason=Reason.POOL_INVALID, left=nothing, problem=error.message, stops=True)
        sieves = look.sieves
        left = tuple([sieve.left for sieve in sieves.values()])
        fails = any(sieve.failures for sieve in sieves.values())
        short = short_request(demands, sieves)
        constrained = any(demand.constraints for demand in demands)
        stops, problem, gave_up = False, "", self._trial.gave_up
        if fails or short is None:
            if constrained and not fails:
                hopeless = self._hopeless(look, demands, left)
                if hopeless is not None:
                    return hopeless
            if is_obvious(demands, sieves, self._constraints) or self._trial.fits(node, claims):
                return Judgement(reason=None, left=left)
            problem = self._trial.problem
            if fails and _are_not_known(sieves.values()):
                return _NOT_ANSWERED
            stops = fails and bool(problem)
        if stops or (short is not None and fails and short[2] in _SELECTING):
            place, name = next(key for key, sieve in sieves.items() if sieve.failures)
            return Judgement(
                reason=Reason.SELECTOR_FAILS, claim=place, request=name, lacks=1, left=left, problem=problem,
                stops=stops,
            )  # fmt: skip
        if short is not None:
            place, name, step, lacks = short
            if constrained and step in _IN_USE:
                never = self.constraint_problem(look, demands)
                if never is not None and never.reason is not Reason.CONSTRAINT_IN_USE:
                    return _constrained(never, left, problem)
            reason = self._reason(look, place, name, step)
            return Judgement(reason=reason, claim=place, request=name, lacks=lacks, left=left)
        if self._trial.gave_up > gave_up:
            return Judgement(reason=Reason.SEARCH_LIMIT, lacks=1, left=left, problem=problem)
        return self._together(look, demands, left, problem)

    def _hopeless(
        self, look: Look, demands: tuple[ClaimDemand, ...], left: tuple[tuple[int, ...], ...]
    ) -> Judgement | None:
        """What no search has to find out: a constraint that cannot be met alone, or beside others like it."""
        if not asks_plainly(look, demands):
            return None
        problem = self.constraint_problem(look, demands)
        if problem is not None:
            return _constrained(problem, left, "")
        if too_many_sets(demands, look.sieves, self._constraints):
            return Judgement(reason=Reason.REQUESTS_COMPETE, lacks=1, left=left)
        return None

    def _reason(self, look: Look, place: int, name: str, step: Step) -> Reason:
        sieve = look.sieves[place, name]
        demand = sieve.demand
        if step in {Step.PUBLISHED, Step.CLASS, Step.SELECTOR}:
            pool = unusable_pool(look.scene, demand)
            if pool is not None:
                return Reason.POOL_INVALID if pool.state is PoolState.INVALID else Reason.POOL_INCOMPLETE
        if step is Step.SIZE:
            wanted = [capacity for capacity, _ in demand.capacity]
            if any(all(name not in item.device.capacity for item in sieve.size) for name in wanted):
                return Reason.CAPACITY_UNKNOWN
        if step is Step.COUNTERS and not look.scene.features.partitionable_devices:
            return Reason.FEATURE_OFF
        return _BY_STEP[step]

    def _together(
        self, look: Look, demands: tuple[ClaimDemand, ...], left: tuple[tuple[int, ...], ...], problem: str
    ) -> Judgement:
        """Why it does not fit where each request has enough by itself."""
        for place, _, demand in demands_of(demands):
            if demand.count is None and any(pool.state is not PoolState.USABLE for pool in look.scene.view.pools):
                pool = next(pool for pool in look.scene.view.pools if pool.state is not PoolState.USABLE)
                reason = Reason.POOL_INVALID if pool.state is PoolState.INVALID else Reason.POOL_INCOMPLETE
                return Judgement(
                    reason=reason, claim=place, request=demand.name, lacks=1, left=left, problem=problem, stops=True
                )
        for place, claim in enumerate(demands):
            least = least_of(place, claim, look.sieves)
            if least > MAX_RESULTS:
                return Judgement(
                    reason=Reason.TOO_MANY_DEVICES, claim=place, lacks=least - MAX_RESULTS, left=left, problem=problem
                )
        broken = self.constraint_problem(look, demands)
        if broken is not None:
            return _constrained(broken, left, problem)
        return Judgement(reason=Reason.REQUESTS_COMPETE, lacks=1, left=left, problem=problem)


def _is_of_kind(judgement: Judgement) -> bool:
    """Whether alike nodes say the same: an error may name a device, and that a search gave up names none."""
    return not judgement.stops and (not judgement.problem or judgement.reason is Reason.SEARCH_LIMIT)


def _are_not_known(sieves: Iterable[Sieve]) -> bool:
    """Whether a selector was stopped, so that nobody knows its answer."""
    return any(
        isinstance(failure, SelectionFailure) and isinstance(failure.error, CelLimitError)
        for sieve in sieves
        for _, failure in sieve.failures
    )


def _constrained(problem: ConstraintProblem, left: tuple[tuple[int, ...], ...], said: str) -> Judgement:
    return Judgement(
        reason=problem.reason,
        claim=problem.claim,
        request=problem.short[0][0] if problem.short else "",
        lacks=max(1, problem.lacks),
        left=left,
        problem=said,
    )
