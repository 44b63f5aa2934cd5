"""Proposes what would make a case fit: the smallest changes that are enough for the allocator.

Each kind of change has a module in :mod:`driver.explain.propose.nearest`; here they are tried, ordered and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations
from typing import Final

from driver.api.resource_v1 import Device
from driver.budget import SpentError
from driver.explain.explanation import ChangeKind, Proposal
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.judge.evaluation import Evaluations
from driver.explain.known.state import ClusterState
from driver.explain.known.vocabulary import Vocabulary
from driver.explain.propose.nearest.bandwidths import other_bandwidths
from driver.explain.propose.nearest.capacities import smaller_capacities
from driver.explain.propose.nearest.constraints import looser_constraints
from driver.explain.propose.nearest.counts import fewer_devices, fewer_requests
from driver.explain.propose.nearest.edits import claim_patches
from driver.explain.propose.nearest.ends import ends, ends_of
from driver.explain.propose.nearest.modes import other_modes
from driver.explain.propose.nearest.names import meant_names
from driver.explain.propose.nearest.objects import missing_objects, missing_strategies, unfinished_pools
from driver.explain.propose.nearest.options import Effort, Option, together
from driver.explain.propose.nearest.places import other_places
from driver.explain.propose.nearest.search import ProposalSearch
from driver.explain.propose.nearest.selectors import other_selectors
from driver.explain.propose.nearest.taints import without_taints
from driver.explain.reasons import Reason

__all__ = ["MAX_TRIALS", "proposals"]

MAX_TRIALS: Final = 150
"""How often the allocator is asked for one explanation, whatever the claim."""

_FOR_ENDS: Final = 50
_FOR_PLACES: Final = 8
_FOR_ONE_KIND: Final = 40
"""For finding the numbers of one kind of change, such as the largest count that fits."""
_FOR_OPTIONS: Final = 60
_NODES: Final = 2
"""An option is tried on so many nodes that lack least, and on as many with most free devices."""
_ENOUGH: Final = 2
"""So many changes to the claim are looked for."""
_MOST_JOINED: Final = 8
"""Of so many options pairs are tried where none is enough by itself."""
_VOCABULARY_NODES: Final = 16

_NODES_CHANGED: Final = 16
"""On so many nodes a second change is looked for."""
_OF_DEVICES: Final = (
    other_modes,
    other_bandwidths,
    looser_constraints,
    fewer_devices,
    fewer_requests,
    smaller_capacities,
    without_taints,
)

_AS_IT_IS: Final = Option(effort=Effort.MISTAKE, text="", changes=())

_Ranked = tuple[tuple[Effort, int], Proposal]


def proposals(
    state: ClusterState,
    case: Case,
    verdicts: Sequence[NodeVerdict],
    evaluations: Evaluations,
    *,
    limit: int = 3,
) -> tuple[Proposal, ...]:
    """Return what would make the case fit, the smallest change first.

    Where it fits on some node, only what keeps kube-scheduler from stopping at another one with an error.

    Least effort comes first (:class:`~driver.explain.propose.nearest.options.Effort`): what is written wrong, then
    devices that are farther apart, then fewer of them, then what others would have to do, then requirements that are
    dropped; of each kind the one that gives up fewest. Of every kind one is shown before a second one of any. Two
    changes at once are tried only where no single one is enough. The allocator is asked at most :data:`MAX_TRIALS`
    times; when the budget in force is spent, the proposals found so far are returned.

    Args:
        state: The cluster; it is left as it is.
        case: The case; without demands where its claims could not be read.
        verdicts: The verdicts of all nodes; none where the nodes were not judged.
        evaluations: The evaluations of nodes.
        limit: The most proposals to return.
    """
    fitting = [item for item in verdicts if item.fits]
    found: list[_Ranked] = []
    with suppress(SpentError):
        if fitting:
            return _without_errors(state, case, verdicts, evaluations, fitting[:_NODES])
        found.extend(_sought(state, case, verdicts, evaluations))
    return _shown(found, limit)


def _sought(
    state: ClusterState, case: Case, verdicts: Sequence[NodeVerdict], evaluations: Evaluations
) -> Iterator[_Ranked]:
    """Yield all changes that are enough, and if none is, what may help."""
    search = ProposalSearch(state, case, verdicts, evaluations, trials=MAX_TRIALS)
    if not verdicts and search.entries and search.works(_AS_IT_IS, search.near(_NODES)) is not None:
        return  # it is no matter of devices
    verified = False
    if search.claims and len(search.claims) == len(case.claims):
        for item in _of_claims(search):
            verified = verified or item[1].verified
            yield item
    # Also where a request could be dropped: whoever wrote it wants the GPU.
    vocabulary = Vocabulary.of(_published(search), search.state.classes)
    for proposal in missing_strategies(search, vocabulary):
        yield _rank(proposal), proposal
    if not verified:
        for proposal in chain(missing_objects(search), unfinished_pools(search)):
            yield _rank(proposal), proposal


def _of_claims(search: ProposalSearch) -> Iterator[_Ranked]:
    """Yield the changes that are enough, of those that can be tried."""
    found = False
    with search.at_most(_FOR_PLACES):
        for proposal in other_places(search):
            found = True
            yield _rank(proposal), proposal
    with search.at_most(_FOR_ENDS):
        ended = ends(search) if search.entries else None
    if ended is not None:
        found = True
        proposal = ends_of(search, ended)
        yield _rank(proposal), proposal
    options = _options(search)
    with search.at_most(_FOR_OPTIONS):
        for item in _working(search, options):
            found = True
            yield item
    if not found:
        yield from _joined(search, options)


def _without_errors(
    state: ClusterState,
    case: Case,
    verdicts: Sequence[NodeVerdict],
    evaluations: Evaluations,
    fitting: Sequence[NodeVerdict],
) -> tuple[Proposal, ...]:
    """Return a selector that fails on no device of the nodes where it fails now, and lets the claims fit as before."""
    failing = [
        item
        for item in verdicts
        if item.placement is None and item.devices is not None and item.devices.reason is Reason.SELECTOR_FAILS
    ]
    if not failing:
        return ()
    search = ProposalSearch(state, case, failing, evaluations, trials=MAX_TRIALS)
    vocabulary = Vocabulary.of(_published(search), state.classes)
    for option in other_selectors(search, vocabulary):
        if search.fails(option, failing[:_NODES]):
            continue
        node = search.works(option, fitting)
        if node is not None:
            return (_proposal(search, option, node),)
    return ()


def _options(search: ProposalSearch) -> list[Option]:
    """Return the changes to the claims that may help, least effort first; of unreadable claims only wrong names."""
    vocabulary = Vocabulary.of(_published(search), search.state.classes)
    found = list(meant_names(search, vocabulary))
    if search.entries:
        found += other_selectors(search, vocabulary)
        for kind in _OF_DEVICES:
            with search.at_most(_FOR_ONE_KIND):
                found += kind(search)
    return sorted(found, key=lambda item: (item.effort, item.cost))


def _published(search: ProposalSearch) -> Iterator[tuple[str, Device]]:
    """Yield devices of the nodes near a fit, with their drivers: they have the names and values that there are."""
    for verdict in search.nearest(_VOCABULARY_NODES):
        for device in search.view(verdict).devices:
            yield device.id.driver, device.device


def _working(search: ProposalSearch, options: Sequence[Option]) -> Iterator[_Ranked]:
    """Yield the options that are enough: the first two changes to the claim, the first of each other kind."""
    count = dict.fromkeys(ChangeKind, 0)
    mistaken = False  # if so, nothing has to be given up
    for option in options:
        most = _ENOUGH if option.kind is ChangeKind.CHANGE_CLAIM and not mistaken else 1
        if count[option.kind] >= most:
            continue
        node = search.works(option, _near(search, option))
        if node is not None:
            count[option.kind] += 1
            mistaken = mistaken or option.effort is Effort.MISTAKE
            yield (option.effort, option.cost), _proposal(search, option, node)


def _near(search: ProposalSearch, option: Option, most: int = _NODES) -> list[NodeVerdict]:
    nodes = (*option.nodes[:most], *search.near(most))
    return list({id(item): item for item in nodes}.values())


def _joined(search: ProposalSearch, options: Sequence[Option]) -> Iterator[_Ranked]:
    """Yield two changes at once: to the claim, or to the claim and to what others have."""
    of_claim = [item for item in options if item.kind is ChangeKind.CHANGE_CLAIM]
    for option in of_claim[:_ENOUGH]:
        # What comes second depends on the first: with another selector, other devices are taints and claims looked at.
        then = search.changed(option, _NODES_CHANGED) if _keeps_places(option) else None
        if then is not None:
            found = list(_second(search, option, then))
            if found:
                yield from found
                return
    pairs = [pair for some in combinations(of_claim[:_MOST_JOINED], 2) if (pair := together(some)) is not None]
    for option in sorted(pairs, key=lambda item: (item.effort, item.cost)):
        node = search.works(option, _near(search, option, 1))
        if node is not None:
            yield (option.effort, option.cost), _proposal(search, option, node)
            return


def _keeps_places(option: Option) -> bool:
    """Whether paths into the changed claim are paths into the claim as it was."""
    paths = (str(item["path"]) for change in option.changes for item in change.operations if item["op"] == "remove")
    return not any(path.rpartition("/")[2].isdecimal() for path in paths)


def _second(search: ProposalSearch, first: Option, then: ProposalSearch) -> Iterator[_Ranked]:
    """Yield what is enough beside ``first``; ``then`` has it made already."""
    with search.at_most(_FOR_ONE_KIND):
        ended = ends(then)
    if ended is not None:
        ending = ends_of(then, ended)
        cost = first.cost + ending.cost
        text = f"{first.text}, and {ending.text}"
        patches = claim_patches(search.case.claims, first.changes)
        proposal = replace(ending, kind=ChangeKind.END_CLAIMS, text=text, cost=cost, patches=patches)
        yield (max(first.effort, Effort.OTHERS), cost), proposal
    options: list[Option] = []
    for kind in _OF_DEVICES:
        with search.at_most(_FOR_ONE_KIND):
            options += kind(then)
    for option in sorted(options, key=lambda item: (item.effort, item.cost)):
        pair = together([first, option]) if option.kind is ChangeKind.CHANGE_CLAIM else None
        node = search.works(pair, then.nearest(_NODES)) if pair is not None else None
        if pair is not None and node is not None:
            yield (pair.effort, pair.cost), _proposal(search, pair, node)
            return


def _proposal(search: ProposalSearch, option: Option, node: str) -> Proposal:
    of_claim = option.kind is ChangeKind.CHANGE_CLAIM
    return Proposal(
        kind=option.kind,
        text=option.text,
        node=node,
        cost=option.cost,
        patches=claim_patches(search.case.claims, option.changes) if of_claim else (),
        commands=option.commands,
    )


def _rank(proposal: Proposal) -> tuple[Effort, int]:
    """Rank a proposal that is no change to a claim."""
    if not proposal.verified:
        return Effort.UNSURE, proposal.cost
    if proposal.kind is ChangeKind.WAIT:
        return Effort.MISTAKE, proposal.cost
    return Effort.OTHERS, proposal.cost


def _shown(found: Sequence[_Ranked], limit: int) -> tuple[Proposal, ...]:
    """Return the best of each kind, then others as far as there is room; in order."""
    ordered = sorted(found, key=lambda item: item[0])
    kinds: set[ChangeKind] = set()
    first: list[_Ranked] = []
    rest: list[_Ranked] = []
    for item in ordered:
        (rest if item[1].kind in kinds else first).append(item)
        kinds.add(item[1].kind)
    chosen = [*first, *rest][:limit]
    return tuple(item[1] for item in sorted(chosen, key=lambda item: item[0]))
