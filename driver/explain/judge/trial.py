"""Asks the allocator itself whether claims would fit, with claims ended or taints tolerated for that one question."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from driver.allocator.candidates import MAX_RESULTS, Scene, gather_requests
from driver.allocator.demands import ClaimDemand, claim_name, read_claim
from driver.allocator.errors import AllocationError, SearchLimitError
from driver.allocator.ledger import Ledger
from driver.allocator.search import search
from driver.api.resource_v1 import DeviceToleration, Node, ResourceClaim
from driver.budget import check
from driver.explain.known.cluster import ClaimState, NodeState
from driver.explain.known.state import ClusterState
from driver.memo import Memo

__all__ = ["MAX_STEPS", "Trial"]

MAX_STEPS: Final = 20_000
"""Of one search, a tenth of what the allocator allows itself: an explanation asks many questions."""

_USUAL: Final = 256
"""So heavy a claim (:func:`_weight`) may be searched for with all those steps; a heavier one with fewer, for each takes
longer."""
_FEWEST_STEPS: Final = 4 * MAX_RESULTS
"""More than a search takes that never has to go back."""
_ALTERNATIVE: Final = 32
"""What an alternative weighs against a constraint on one."""

_EVERY_TAINT: Final = (DeviceToleration(operator="Exists"),)


_ANSWERS: Final = 4096


class _Answer(NamedTuple):
    """An answer, and the node as it was then."""

    version: int
    node: Node
    fits: bool
    gave_up: bool
    problem: str


_REMEMBERED: Final[WeakKeyDictionary[ClusterState, Memo[object, _Answer]]] = WeakKeyDictionary()


class Trial:
    """Asks the allocator's own search about a cluster, and leaves the cluster's state as it was.

    What no search can decide counts as "does not fit": a wrong claim, a selector that fails, too many combinations.

    Args:
        state: The cluster.
        remembers: Whether the same questions will be asked again about nodes on which nothing has changed.

    Attributes:
        trials: The number of questions, to bound the work.
        gave_up: How many searches took more than :data:`MAX_STEPS`; fewer steps for claims of very many alternatives
            and constraints.
        problem: The error behind the last answer; empty where the claims fit, or only devices are lacking.
    """

    def __init__(self, state: ClusterState, *, remembers: bool = False) -> None:
        self._state = state
        self._answers = _REMEMBERED.setdefault(state, Memo(_ANSWERS)) if remembers else None
        self.trials = 0
        self.gave_up = 0
        self.problem = ""
        # What the claims last asked about ask for: mostly the next question is about them again, on another node.
        self._claims: tuple[ResourceClaim, ...] = ()
        self._generation = -1
        self._demands: tuple[ClaimDemand, ...] = ()

    def fits(
        self,
        node: NodeState,
        claims: Sequence[ResourceClaim],
        *,
        ended: Collection[ClaimState] = (),
        tolerate_all_taints: bool = False,
    ) -> bool:
        """Whether ``claims`` can be allocated together on ``node``.

        Args:
            node: The node; whether the pod may be there is another question (:mod:`driver.explain.judge.placement`).
            claims: With the API's defaults, in the pod's order.
            ended: Claims that are taken to hold nothing; they must be among the state's.
            tolerate_all_taints: Devices are taken whatever their taints.
        """
        check()
        self.trials += 1
        self.problem = ""
        try:
            demands = self._read(claims)
            if tolerate_all_taints:
                demands = tuple(map(_tolerant, demands))
        except AllocationError as error:
            self.problem = error.message
            return False
        known = self._known(node, claims, demands, ended)
        self.gave_up += known.gave_up
        self.problem = known.problem
        return known.fits

    def _known(
        self,
        node: NodeState,
        claims: Sequence[ResourceClaim],
        demands: Sequence[ClaimDemand],
        ended: Collection[ClaimState],
    ) -> _Answer:
        version = self._state.version(node.node.metadata.name)
        if self._answers is None:
            return self._asked(node, claims, demands, ended, version)
        who = tuple([claim_name(claim) for claim in claims])
        key = (who, demands, node.node.metadata.name, frozenset([claim.key for claim in ended]))
        known = self._answers.get(key)
        if known is None or known.version != version or known.node is not node.node:
            known = self._answers.put(key, self._asked(node, claims, demands, ended, version))
        return known

    def _asked(
        self,
        node: NodeState,
        claims: Sequence[ResourceClaim],
        demands: Sequence[ClaimDemand],
        ended: Collection[ClaimState],
        version: int,
    ) -> _Answer:
        fits, gave_up, problem = False, False, ""
        try:
            with _without(self._state.ledger, ended):
                fits = self._search(node, claims, demands)
        except AllocationError as error:
            gave_up, problem = isinstance(error, SearchLimitError), error.message
        return _Answer(version, node.node, fits, gave_up, problem)

    def _read(self, claims: Sequence[ResourceClaim]) -> tuple[ClaimDemand, ...]:
        same = len(claims) == len(self._claims) and all(map(_is, claims, self._claims))
        if not same or self._generation != self._state.generation:
            # Remembered only when all of them could be read.
            self._demands = tuple(read_claim(claim, self._state.classes, self._state.features) for claim in claims)
            self._claims, self._generation = tuple(claims), self._state.generation
        return self._demands

    def _search(self, node: NodeState, claims: Sequence[ResourceClaim], demands: Sequence[ClaimDemand]) -> bool:
        state = self._state
        scene = Scene(state.index.view(node.node), state.ledger, state.features, state.selections)
        requests = gather_requests(scene, claims, demands)
        constraints = [item.constraints for item in demands]
        # Counted, so that mostly the same question has the same answer, however quick the machine is.
        steps = min(MAX_STEPS, max(_FEWEST_STEPS, MAX_STEPS * _USUAL // max(1, _weight(demands))))
        return search(scene, requests, constraints, max_steps=steps) is not None


def _weight(demands: Sequence[ClaimDemand]) -> int:
    """Return how much is to be checked for each device: for each alternative, and each constraint on it."""
    return sum(
        _ALTERNATIVE + sum(constraint.applies_to(demand) for constraint in claim.constraints)
        for claim in demands
        for request in claim.requests
        for demand in request.alternatives
    )


def _tolerant(demand: ClaimDemand) -> ClaimDemand:
    requests = (
        replace(request, alternatives=tuple(replace(part, tolerations=_EVERY_TAINT) for part in request.alternatives))
        for request in demand.requests
    )
    return replace(demand, requests=tuple(requests))


def _is(one: ResourceClaim, other: ResourceClaim) -> bool:
    return one is other


@contextmanager
def _without(ledger: Ledger, ended: Collection[ClaimState]) -> Iterator[None]:
    """Free what ``ended`` hold in the meantime."""
    held = [item for claim in {claim.key: claim for claim in ended}.values() for item in claim.holds]
    ledger.remove(held)
    try:
        yield
    finally:
        ledger.add(held)
