"""Proposes which other claims would have to end: as few as possible, on the nodes that lack least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

from driver.budget import check
from driver.explain.explanation import ChangeKind, ObjectRef, Proposal
from driver.explain.judge.case import NodeVerdict
from driver.explain.known.cluster import ClaimState
from driver.explain.known.state import ClusterState
from driver.explain.propose.nearest.search import ProposalSearch
from driver.wording import listed

__all__ = ["Ends", "delete_commands", "ends", "ends_of", "named", "users_of"]

_NODES: Final = 3
_MOST_SINGLE: Final = 12
"""So many claims are tried one by one on a node; what they are more is left to narrowing down."""
_MOST_PAIRED: Final = 8
_MOST_TRIED: Final = 3
"""Sets of so many claims are tried one after the other, of the first claims of a node."""
_MOST_ENDED: Final = 8
"""A proposal to end more is none."""
_SHOWN: Final = 4
_COMMANDS: Final = 16
"""A PodGroup's claim may have thousands of pods: the text then counts those that no command is given for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Claims that end on a node, after which everything fits there."""

    node: str
    claims: tuple[ClaimState, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Few claims first, and those that pods use before those that nothing would end."""
        return len(self.claims), sum(not claim.user_refs for claim in self.claims)


def ends(search: ProposalSearch) -> Ends | None:
    """Return the fewest claims found that are enough when they end; None where nothing that may end is enough."""
    best: Ends | None = None
    for verdict in search.near(_NODES):
        found = _on_node(search, verdict, fewer_than=len(best.claims) if best is not None else _MOST_ENDED + 1)
        if found is not None and (best is None or found.rank < best.rank):
            best = found
        if best is not None and len(best.claims) == 1:
            break
    return best


def ends_of(search: ProposalSearch, found: Ends) -> Proposal:
    """Return the proposal; it only waits for claims that are ending already."""
    claims, node = found.claims, found.node
    names = [item.ref for item in claims]
    users = [user for item in claims for user in users_of(search.state, item)]
    ending = named(users or names)
    devices = "its devices" if len(claims) == 1 else "their devices"
    if all(_is_ending(search, item) for item in claims):
        return Proposal(
            kind=ChangeKind.WAIT,
            text=f"wait until {ending} {'is' if len(users or names) == 1 else 'are'} gone from node {node}:"
            f" what is being deleted gives {devices} back",
            node=node,
            cost=len(claims),
            ends=tuple(names),
            pods=tuple(users),
        )
    held = [part.device.device for item in claims for part in item.holds]
    # Of a device that is shared, all of it or a part: either is in the way.
    who = f"{names[0]} uses" if len(names) == 1 else f"{len(names)} claims use"
    return Proposal(
        kind=ChangeKind.END_CLAIMS,
        text=f"end {ending} on node {node}: {who} {named(held)}",
        node=node,
        cost=len(claims),
        ends=tuple(names),
        pods=tuple(users),
        commands=delete_commands(users or names),
    )


def users_of(state: ClusterState, claim: ClaimState) -> tuple[ObjectRef, ...]:
    """Return what must end before a claim gives its devices back: the pods that it is reserved for, or a PodGroup.

    A pod that names the claim and is in no such PodGroup does not have it. A PodGroup that is deleted goes when its
    pods are gone, so they stand before it (k8s.io/kubernetes v1.37.2, podgroup_protection_controller.go).
    """
    members = state.pods_of(claim.key) if claim.pod_groups else ()
    refs = (
        ObjectRef(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
        for pod in members
        if not pod.ended and claim.is_reserved_for(pod) and (pod.name, pod.uid) not in claim.pods
    )
    return (*refs, *claim.user_refs)


def named(things: Iterable[object]) -> str:
    """Return the first of them, each once, and how many more there are."""
    return listed(list(dict.fromkeys(map(str, things))), shown=_SHOWN)


def delete_commands(things: Iterable[ObjectRef]) -> tuple[str, ...]:
    """Return what deletes them, each once; of many the first."""
    return tuple(thing.delete_command for thing in islice(dict.fromkeys(things), _COMMANDS))


def _is_ending(search: ProposalSearch, claim: ClaimState) -> bool:
    if claim.deleting:
        return True
    if claim.pod_groups:
        return False  # such a reservation ends with the PodGroup, not with its pods
    found = [search.state.pod(f"{claim.namespace}/{name}") for name, _ in claim.pods]
    return bool(found) and all(pod is not None and (pod.deleting or pod.ended) for pod in found)


def _on_node(search: ProposalSearch, verdict: NodeVerdict, *, fewer_than: int) -> Ends | None:
    holders = _holders(search, verdict)

    def enough(ended: Sequence[ClaimState]) -> bool:
        return search.fits(verdict.node, ended=ended)

    if not holders or not enough(holders):
        return None
    name = verdict.node.node.metadata.name
    ending = [item for item in holders if _is_ending(search, item)]
    if ending and (len(ending) == len(holders) or enough(ending)):
        return Ends(node=name, claims=_needed(ending, enough))
    for item in holders[:_MOST_SINGLE]:
        if enough([item]):
            return Ends(node=name, claims=(item,))
    if fewer_than <= 2:
        return None
    found = _needed(holders, enough)
    # A node that lacks as many devices as claims are to end needs hardly fewer of them.
    for size in range(2, min(len(found), _MOST_TRIED + 1) if len(found) > verdict.lacks else 0):
        fewer = next((some for some in combinations(holders[:_MOST_PAIRED], size) if enough(some)), None)
        if fewer is not None:
            found = fewer
            break
    return Ends(node=name, claims=found) if len(found) < fewer_than else None


def _needed(holders: Sequence[ClaimState], enough: Callable[[Sequence[ClaimState]], bool]) -> tuple[ClaimState, ...]:
    """Return those of ``holders``, enough together, of which none can stay: rather claims that hold much than many.

    Half of them are left out at once while that works, then fewer.
    """
    ended = sorted(holders, key=lambda item: (bool(item.user_refs), len(item.holds)))
    size = len(ended)
    while size > 1:
        size = (size + 1) // 2
        place = 0
        while place < len(ended) and len(ended) > 1:
            rest = ended[:place] + ended[place + size :]
            if rest and enough(rest):
                ended = rest
            else:
                place += size
    return tuple(sorted(ended, key=lambda item: item.key))


def _holders(search: ProposalSearch, verdict: NodeVerdict) -> list[ClaimState]:
    """Return the claims that have selected devices, or what excludes these; those that pods use first."""
    state = search.state
    evaluation = search.evaluations.of(verdict.node, search.demands)
    # A set, for requests that ask alike share one object.
    wanted = [device for filtered in set(evaluation.by_demand.values()) for device in filtered.devices]
    identities = {device.id for device in wanted}
    counters = {(device.id[:2], key) for device in wanted for key in device.counters}
    check()
    mine = {item.key for item in (*search.case.claims, *search.case.allocated)}
    found: dict[str, ClaimState] = {}
    for device in evaluation.scene.view.devices:
        if not (state.ledger.is_whole(device.id) or state.ledger.is_shared(device.id)):
            continue
        if device.id in identities or any((device.id[:2], key) in counters for key in device.counters):
            found |= {item.key: item for item in state.holders(device.id) if item.key not in mine}
    return sorted(found.values(), key=lambda item: (not item.user_refs, item.key))
