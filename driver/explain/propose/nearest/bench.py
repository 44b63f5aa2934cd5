"""Where proposals are tried: the nodes, the allocator, and how much work is left."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

from driver.allocator.candidates import MAX_RESULTS
from driver.allocator.demands import ClaimDemand, Demand, read_claim
from driver.allocator.errors import AllocationError
from driver.allocator.view import NodeView, PooledDevice
from driver.api.resource_v1 import ResourceClaim
from driver.budget import check
from driver.explain.explanation import Step
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.judge.checks import fewest_devices
from driver.explain.judge.placement import placement
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import ClaimState, NodeState
from driver.explain.known.state import ClusterState
from driver.explain.propose.nearest.edits import demand_path, edited
from driver.explain.propose.nearest.options import Option

__all__ = ["Bench", "Wish", "wishes_of"]

_STEPS: Final = tuple(Step)
_MOST_NODES: Final = 2_000
"""So many nodes are looked at for what their verdicts do not tell."""
_MOST_ROOMY: Final = 64
"""Nobody asks for so many nodes at once."""
_OF_A_KIND: Final = 4
"""So many nodes are kept of those that say the same."""
_GIVEN_UP: Final = 3
"""After so many searches that took too long, no more are begun."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wish:
    """A request of a case's claim, or one alternative of one.

    Attributes:
        place: Its place among all demands of the case, as in :attr:`NodeVerdict.left`.
        claim: Its claim's place.
        path: Where it stands in the claim, after ``/spec/devices``.
        demand: What it asks for.
    """

    place: int
    claim: int
    path: tuple[str | int, ...]
    demand: Demand

    @property
    def need(self) -> int:
        """How many devices it must have; 1 for all that there are."""
        return 1 if self.demand.count is None else self.demand.count


def wishes_of(claims: Sequence[ResourceClaim], demands: Sequence[ClaimDemand]) -> tuple[Wish, ...]:
    """All demands of the claims, in order."""
    found: list[Wish] = []
    for place, (claim, of_claim) in enumerate(zip(claims, demands, strict=bool(demands))):
        for number, request in enumerate(of_claim.requests):
            for index, demand in enumerate(request.alternatives):
                path = demand_path(claim, number, index)
                found.append(Wish(place=len(found), claim=place, path=path, demand=demand))
    return tuple(found)


@dataclass(slots=True)
class _Budget:
    left: int


class Bench:
    """Tries changes on the nodes nearest to them, as long as there are trials left.

    Args:
        state: The cluster.
        case: What is asked about.
        verdicts: What the nodes say; none where the claim could not be read.
        trials: How many there may be.

    Attributes:
        state: The cluster.
        case: What is asked about.
        claims: Its claims.
        demands: What they ask for; nothing where they could not be read.
        wishes: The demands one by one; none where they could not be read.
        verdicts: Of all nodes.
        open: Those of the nodes on which the pod could be.
        samples: A few of each kind of them.
    """

    def __init__(self, state: ClusterState, case: Case, verdicts: Sequence[NodeVerdict], *, trials: int) -> None:
        self.state = state
        self.case = case
        self.claims = tuple(item.claim for item in case.claims if item.claim is not None)
        self.demands = _demands(state, case, self.claims)
        self.wishes = wishes_of(self.claims, self.demands)
        self.verdicts = tuple(verdicts) if verdicts else self._unknown()
        self.open = tuple(item for item in self.verdicts if item.placement is None)
        # Of which nodes, and the roomiest of them.
        self._roomy: tuple[Sequence[NodeVerdict], list[NodeVerdict]] = ((), [])
        self.samples = tuple(_samples(self.open))
        self._trial = Trial(state, remembers=True)
        self._budget = _Budget(trials)

    @property
    def trials(self) -> int:
        """How many there were."""
        return self._trial.trials

    @property
    def left(self) -> int:
        """How many trials there may still be."""
        return 0 if self._trial.gave_up >= _GIVEN_UP else self._budget.left

    @contextmanager
    def at_most(self, trials: int) -> Iterator[None]:
        """No more than so many trials inside, so that some are left for others."""
        kept = max(0, self._budget.left - trials)
        self._budget.left -= kept
        try:
            yield
        finally:
            self._budget.left += kept

    def fits(
        self, node: NodeState, claims: Sequence[ResourceClaim] | None = None, *, ended: Collection[ClaimState] = ()
    ) -> bool:
        """Whether the allocator finds devices for ``claims`` (the case's); no where there is no trial left."""
        if self.left <= 0:
            return False
        self._budget.left -= 1
        return self._trial.fits(node, self.claims if claims is None else claims, ended=ended)

    def changed(self, option: Option, most: int) -> Bench | None:
        """The same with an option's changes made, on the ``most`` nodes with most free devices; None for no claim.

        What the nodes say to the changed claims is not known. Trials count for both.
        """
        try:
            claims = edited(self.claims, option.changes)
            demands = tuple(read_claim(claim, self.state.classes, self.state.features) for claim in claims)
        except (ValueError, AllocationError):
            return None
        states = tuple(replace(item, claim=claim) for item, claim in zip(self.case.claims, claims, strict=True))
        other = copy(self)
        other.case = replace(self.case, claims=states, demands=demands)
        other.claims, other.demands = claims, demands
        other.wishes = wishes_of(claims, demands)
        other.verdicts = other.open = tuple(
            NodeVerdict(node=item.node, placement=None, devices=None, lacks=place, left=())
            for place, item in enumerate(self.roomiest(most))
        )
        other.samples = other.open
        return other

    def works(self, option: Option, nodes: Iterable[NodeVerdict], *, ended: Collection[ClaimState] = ()) -> str | None:
        """The first of ``nodes`` on which the claims fit with the option's changes; None where on none of them."""
        check()
        try:
            claims = edited(self.claims, option.changes)
        except ValueError:
            return None
        if any(fewest_devices(claim) > MAX_RESULTS for claim in claims):
            return None  # no node can help: spare the trials
        for verdict in nodes:
            if self.fits(verdict.node, claims, ended=ended):
                return verdict.node.node.metadata.name
        return None

    def fails(self, option: Option, nodes: Iterable[NodeVerdict]) -> bool:
        """Whether the allocator ends with an error on one of ``nodes`` with the option's changes; yes if untried."""
        check()
        try:
            claims = edited(self.claims, option.changes)
        except ValueError:
            return True
        for verdict in nodes:
            if self.left <= 0:
                return True
            if not self.fits(verdict.node, claims) and self._trial.problem:
                return True
        return False

    def nearest(self, most: int, key: Callable[[NodeVerdict], int] | None = None) -> list[NodeVerdict]:
        """The ``most`` nodes with the smallest ``key``, then with the least lacks.

        First those that differ in what is left: what one node refuses, one like it does too.
        """
        ranked = sorted(self.samples, key=lambda item: (key(item) if key is not None else 0, item.lacks))
        kinds: dict[object, NodeVerdict] = {}
        for item in ranked:
            kinds.setdefault((item.lacks, item.left), item)
        first = list(kinds.values())
        chosen = {id(item) for item in first}
        return [*first, *(item for item in ranked if id(item) not in chosen)][:most]

    def roomiest(self, most: int) -> list[NodeVerdict]:
        """The ``most`` nodes with most devices that nobody has anything of, whatever they are."""
        nodes, found = self._roomy
        if nodes is not self.open:
            found = heapq.nsmallest(_MOST_ROOMY, self.open[:_MOST_NODES], key=lambda item: -self.state.room(item.node))
            self._roomy = (self.open, found)
        return found[:most]

    def near(self, most: int) -> list[NodeVerdict]:
        """The ``most`` nodes that lack least, and as many with most free devices."""
        return list({id(item): item for item in (*self.nearest(most), *self.roomiest(most))}.values())

    def after(self, verdict: NodeVerdict, wish: Wish, step: Step) -> int:
        """How many devices are left for a wish on a node after a step; 0 where that is not known."""
        if wish.place >= len(verdict.left):
            return 0
        return verdict.left[wish.place][_STEPS.index(step)]

    def kinds(self) -> list[list[Wish]]:
        """The wishes, those together that the same devices serve equally well."""
        found: defaultdict[object, list[Wish]] = defaultdict(list)
        for wish in self.wishes:
            found[wish.demand.kind].append(wish)
        return list(found.values())

    def view(self, verdict: NodeVerdict) -> NodeView:
        """What is published for a node."""
        return self.state.index.view(verdict.node.node)

    def of_class(self, view: NodeView, demand: Demand) -> Iterator[PooledDevice]:
        """The devices that the demand's class selects."""
        return self.selected(view, replace(demand, selectors=()))

    def selected(self, view: NodeView, demand: Demand) -> Iterator[PooledDevice]:
        """The devices that the demand selects."""
        for part in view.slices:
            check()
            for place, failure in self.state.selections.of(demand, part):
                if failure is None:
                    yield part.devices[place]

    def _unknown(self) -> tuple[NodeVerdict, ...]:
        """Verdicts of which nothing is known but whether the pod may be there; those with most devices first."""
        found = []
        for _, node in zip(range(_MOST_NODES), self.state.nodes.values(), strict=False):
            check()
            there = placement(self.case.pod, node, self.case.allocated)
            lacks = -len(self.state.index.view(node.node).devices)
            found.append(NodeVerdict(node=node, placement=there, devices=None, lacks=lacks, left=()))
        return tuple(found)


def _demands(state: ClusterState, case: Case, claims: Sequence[ResourceClaim]) -> tuple[ClaimDemand, ...]:
    """What is asked for, though evaluation may have stopped before; nothing where it cannot be read."""
    if len(case.demands) == len(claims):
        return case.demands
    try:
        return tuple(read_claim(claim, state.classes, state.features) for claim in claims)
    except AllocationError:
        return ()


def _samples(nodes: Sequence[NodeVerdict]) -> list[NodeVerdict]:
    """A few nodes of each kind, in order: of thousands of nodes most say the same."""
    counts: Counter[object] = Counter()
    found = []
    for item in nodes:
        kind = (item.lacks, item.left)
        counts[kind] += 1
        if counts[kind] <= _OF_A_KIND:
            found.append(item)
    return found
