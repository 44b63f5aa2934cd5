"""Tries proposals: on which nodes, by which questions to the allocator, and how many more of them."""

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
from driver.explain.judge.evaluation import Evaluations
from driver.explain.judge.placement import node_refusal
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import ClaimState, NodeState
from driver.explain.known.state import ClusterState
from driver.explain.propose.nearest.edits import demand_path, edited
from driver.explain.propose.nearest.options import Option
from driver.explain.reasons import Reason

__all__ = ["DemandEntry", "ProposalSearch", "entries_of"]

_STEPS: Final = tuple(Step)
_MOST_NODES: Final = 2_000
"""So many nodes are inspected for what their verdicts do not have."""
_MOST_ROOMY: Final = 64
"""More than are asked for at once."""
_OF_A_KIND: Final = 4
"""So many nodes are kept of those with the same verdict."""
_GIVEN_UP: Final = 3
"""After so many searches that took too long, no more are begun."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DemandEntry:
    """A demand of a case, and where it stands in its claim.

    Attributes:
        place: Its place among all demands of the case, as in :attr:`NodeVerdict.left`.
        claim: Its claim's place.
        path: Where it stands in the claim, after ``/spec/devices``.
        demand: The demand.
    """

    place: int
    claim: int
    path: tuple[str | int, ...]
    demand: Demand

    @property
    def need(self) -> int:
        """The number of devices that it must have; 1 where it asks for all of them."""
        return 1 if self.demand.count is None else self.demand.count


def entries_of(claims: Sequence[ResourceClaim], demands: Sequence[ClaimDemand]) -> tuple[DemandEntry, ...]:
    """Return all demands of the claims, in order."""
    found: list[DemandEntry] = []
    for place, (claim, of_claim) in enumerate(zip(claims, demands, strict=bool(demands))):
        for number, request in enumerate(of_claim.requests):
            for index, demand in enumerate(request.alternatives):
                path = demand_path(claim, number, index)
                found.append(DemandEntry(place=len(found), claim=place, path=path, demand=demand))
    return tuple(found)


@dataclass(slots=True)
class _Budget:
    left: int


class ProposalSearch:
    """Tries changes on the nodes nearest to a fit, as long as there are trials left.

    Args:
        state: The cluster.
        case: The case.
        verdicts: The verdicts of all nodes; none where the claims could not be read.
        evaluations: The evaluations of nodes.
        trials: The most trials.

    Attributes:
        state: The cluster.
        case: The case.
        evaluations: The evaluations of nodes.
        claims: The claims of the case.
        demands: The demands of the claims; none where they could not be read.
        entries: The demands one by one; none where they could not be read.
        verdicts: The verdicts of all nodes.
        open: Those of the nodes on which the pod could be, but for nodes with a slice whose node selector is invalid.
        samples: A few of each kind of them.
    """

    def __init__(
        self,
        state: ClusterState,
        case: Case,
        verdicts: Sequence[NodeVerdict],
        evaluations: Evaluations,
        *,
        trials: int,
    ) -> None:
        self.state = state
        self.case = case
        self.evaluations = evaluations
        self.claims = tuple(item.claim for item in case.claims if item.claim is not None)
        self.demands = _demands(state, case, self.claims)
        self.entries = entries_of(self.claims, self.demands)
        self.verdicts = tuple(verdicts) if verdicts else self._unknown()
        self.open = tuple(item for item in self.verdicts if item.placement is None and self._is_published(item))
        # The nodes that were compared, and the roomiest of them.
        self._roomy: tuple[Sequence[NodeVerdict], list[NodeVerdict]] = ((), [])
        self.samples = tuple(_samples(self.open))
        self._trial = Trial(state, remembers=True)
        self._budget = _Budget(trials)

    @property
    def trials(self) -> int:
        """The number of trials so far."""
        return self._trial.trials

    @property
    def left(self) -> int:
        """The number of trials that are left."""
        return 0 if self._trial.gave_up >= _GIVEN_UP else self._budget.left

    @contextmanager
    def at_most(self, trials: int) -> Iterator[None]:
        """Allow no more than so many trials inside, so that some are left for others."""
        kept = max(0, self._budget.left - trials)
        self._budget.left -= kept
        try:
            yield
        finally:
            self._budget.left += kept

    def fits(
        self, node: NodeState, claims: Sequence[ResourceClaim] | None = None, *, ended: Collection[ClaimState] = ()
    ) -> bool:
        """Whether the allocator finds devices for ``claims``, by default the case's; False if no trial is left."""
        if self.left <= 0:
            return False
        self._budget.left -= 1
        return self._trial.fits(node, self.claims if claims is None else claims, ended=ended)

    def changed(self, option: Option, most: int) -> ProposalSearch | None:
        """Return this search with an option's changes made, on the ``most`` nodes with most free devices.

        The verdicts of the nodes on the changed claims are not known. Trials count for both.

        Returns:
            None where the changed claim is no valid one.
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
        other.entries = entries_of(claims, demands)
        other.verdicts = other.open = tuple(
            NodeVerdict(node=item.node, placement=None, devices=None, lacks=place, left=())
            for place, item in enumerate(self.roomiest(most))
        )
        other.samples = other.open
        return other

    def works(self, option: Option, nodes: Iterable[NodeVerdict], *, ended: Collection[ClaimState] = ()) -> str | None:
        """Return the first of ``nodes`` on which the claims fit with the option's changes; None if there is none."""
        check()
        try:
            claims = edited(self.claims, option.changes)
        except ValueError:
            return None
        if any(fewest_devices(claim) > MAX_RESULTS for claim in claims):
            return None  # no node can help: save the trials
        for verdict in nodes:
            if self.fits(verdict.node, claims, ended=ended):
                return verdict.node.node.metadata.name
        return None

    def fails(self, option: Option, nodes: Iterable[NodeVerdict]) -> bool:
        """Whether the allocator ends with an error on one of ``nodes`` with the option's changes; True if not tried."""
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
        """Return the ``most`` nodes with the smallest ``key``, then with the least lacks.

        Those that differ in what is left come first: what fails on one node fails on one like it.
        """
        ranked = sorted(self.samples, key=lambda item: (key(item) if key is not None else 0, item.lacks))
        kinds: dict[object, NodeVerdict] = {}
        for item in ranked:
            kinds.setdefault((item.lacks, item.left), item)
        first = list(kinds.values())
        chosen = {id(item) for item in first}
        return [*first, *(item for item in ranked if id(item) not in chosen)][:most]

    def roomiest(self, most: int) -> list[NodeVerdict]:
        """Return the ``most`` nodes with most devices that are not in use, whatever they are."""
        nodes, found = self._roomy
        if nodes is not self.open:
            found = heapq.nsmallest(_MOST_ROOMY, self.open[:_MOST_NODES], key=lambda item: -self.state.room(item.node))
            self._roomy = (self.open, found)
        return found[:most]

    def near(self, most: int) -> list[NodeVerdict]:
        """Return the ``most`` nodes that lack least, and as many with most free devices."""
        return list({id(item): item for item in (*self.nearest(most), *self.roomiest(most))}.values())

    def after(self, verdict: NodeVerdict, entry: DemandEntry, step: Step) -> int:
        """Return how many devices are left for a demand on a node after a step; 0 where that is not known."""
        if entry.place >= len(verdict.left):
            return 0
        return verdict.left[entry.place][_STEPS.index(step)]

    def kinds(self) -> list[list[DemandEntry]]:
        """Return the demands, those together that the same devices serve equally well."""
        found: defaultdict[object, list[DemandEntry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.demand.kind].append(entry)
        return list(found.values())

    def view(self, verdict: NodeVerdict) -> NodeView:
        """Return the view of a node."""
        return self.state.index.view(verdict.node.node)

    def of_class(self, view: NodeView, demand: Demand) -> Iterator[PooledDevice]:
        """Yield the devices that the demand's class selects."""
        return self.selected(view, replace(demand, selectors=()))

    def selected(self, view: NodeView, demand: Demand) -> Iterator[PooledDevice]:
        """Yield the devices that the demand selects."""
        for part in view.slices:
            check()
            for place, failure in self.state.selections.of(demand, part):
                if failure is None:
                    yield part.devices[place]

    def _is_published(self, verdict: NodeVerdict) -> bool:
        """Whether the node has a view; asked only where it may have none, for there are thousands of nodes."""
        devices = verdict.devices
        return devices is None or devices.reason is not Reason.POOL_INVALID or self._has_view(verdict.node)

    def _has_view(self, node: NodeState) -> bool:
        try:
            self.state.index.view(node.node)
        except AllocationError:
            return False
        return True

    def _unknown(self) -> tuple[NodeVerdict, ...]:
        """Return verdicts of which only the placement is known; the lacks order them by their devices, most first."""
        found = []
        for _, node in zip(range(_MOST_NODES), self.state.nodes.values(), strict=False):
            check()
            if not self._has_view(node):
                continue
            there = node_refusal(self.case.pod, node, self.case.allocated)
            lacks = -len(self.state.index.view(node.node).devices)
            found.append(NodeVerdict(node=node, placement=there, devices=None, lacks=lacks, left=()))
        return tuple(found)


def _demands(state: ClusterState, case: Case, claims: Sequence[ResourceClaim]) -> tuple[ClaimDemand, ...]:
    """Return the demands of claims that were not judged; none where they cannot be read."""
    if len(case.demands) == len(claims):
        return case.demands
    try:
        return tuple(read_claim(claim, state.classes, state.features) for claim in claims)
    except AllocationError:
        return ()


def _samples(nodes: Sequence[NodeVerdict]) -> list[NodeVerdict]:
    """Return a few nodes of each kind, in order: of thousands of nodes most have the same verdict."""
    counts: Counter[object] = Counter()
    found = []
    for item in nodes:
        kind = (item.lacks, item.left)
        counts[kind] += 1
        if counts[kind] <= _OF_A_KIND:
            found.append(item)
    return found
