"""Where the devices would do and the pod may not go: change the pod, or the node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from driver.explain.explanation import ChangeKind, Proposal
from driver.explain.judge.case import NodeVerdict
from driver.explain.judge.placement import node_refusal
from driver.explain.known.cluster import NodeState, NodeTaint, PodState, PodToleration
from driver.explain.propose.nearest.ends import delete_commands, named, users_of
from driver.explain.propose.nearest.search import ProposalSearch
from driver.explain.reasons import Reason
from driver.explain.texts import taint_text

__all__ = ["other_places"]

_NODES: Final = 2
"""Of each reason, so many nodes are tried."""
_CORDON: Final = frozenset({"node.kubernetes.io/unschedulable"})
_NOT_READY: Final = frozenset(
    {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/network-unavailable"}
)

_There = tuple[PodState | None, NodeState]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One thing to change, and what is so afterwards."""

    kind: ChangeKind
    text: str
    then: Callable[[_There], _There]
    command: str = ""


def other_places(search: ProposalSearch) -> Iterator[Proposal]:
    """Yield, for each reason that keeps the pod from a node with suitable devices, the fewest changes against it."""
    by_reason: defaultdict[Reason, list[NodeVerdict]] = defaultdict(list)
    for item in search.verdicts:
        if item.placement is not None and item.devices is None:
            by_reason[item.placement.reason].append(item)
    for reason, nodes in by_reason.items():
        for verdict in nodes[:_NODES]:
            found = _elsewhere(search, verdict) if reason is Reason.CLAIM_ELSEWHERE else _there(search, verdict)
            if found:
                yield from found
                break


def _there(search: ProposalSearch, verdict: NodeVerdict) -> list[Proposal]:
    """Return the fewest changes after which the pod may go to the node; of each kind the first."""
    pod, allocated = search.case.pod, search.case.allocated
    steps = _steps(pod, verdict.node)
    for size in range(1, len(steps) + 1):
        found: dict[ChangeKind, Proposal] = {}
        for some in combinations(steps, size):
            there: _There = (pod, verdict.node)
            for step in some:
                there = step.then(there)
            if node_refusal(*there, allocated) is None:
                proposal = Proposal(
                    kind=some[0].kind,
                    text=", and ".join(step.text for step in some),
                    node=verdict.node.node.metadata.name,
                    cost=size,
                    commands=tuple(step.command for step in some if step.command),
                )
                found.setdefault(proposal.kind, proposal)
        if found:
            return list(found.values()) if search.fits(verdict.node) else []
    return []


def _steps(pod: PodState | None, node: NodeState) -> list[_Step]:
    name, labels = node.node.metadata.name, node.node.metadata.labels
    steps = []
    if pod is not None:
        wrong = {key: value for key, value in pod.node_selector.items() if labels.get(key) != value}
        if wrong:
            right = {key: value for key, value in pod.node_selector.items() if key not in wrong}
            shown = ", ".join(f"{key}: {value}" for key, value in sorted(wrong.items()))
            text = f"take {shown} out of the nodeSelector of pod {pod.key}: node {name} has the devices"
            steps.append(_Step(kind=ChangeKind.CHANGE_POD, text=text, then=_pod(node_selector=right)))
        if pod.affinity is not None:
            text = f"take the required node affinity out of pod {pod.key}, or let it allow node {name}"
            steps.append(_Step(kind=ChangeKind.CHANGE_POD, text=text, then=_no_affinity))
    if node.unschedulable or _has(node, _CORDON):
        text, command = f"uncordon node {name}", f"kubectl uncordon {name}"
        steps.append(_Step(kind=ChangeKind.CHANGE_NODE, text=text, then=_uncordoned, command=command))
    if node.not_ready or _has(node, _NOT_READY):
        text = f"bring node {name} back{f' ({node.not_ready})' if node.not_ready else ''}"
        command = f"kubectl describe node {name}"
        steps.append(_Step(kind=ChangeKind.CHANGE_NODE, text=text, then=_ready, command=command))
    others = [
        item for item in node.taints if item.key not in _CORDON | _NOT_READY and item.effect != "PreferNoSchedule"
    ]
    if others and pod is not None:
        shown = ", ".join(map(taint_text, others))
        added = tuple(
            PodToleration(key=item.key, operator="Equal", value=item.value, effect=item.effect) for item in others
        )
        removed = " ".join(f"{item.key}:{item.effect}-" for item in others)
        text, command = f"take {shown} off node {name}", f"kubectl taint nodes {name} {removed}"
        steps.append(_Step(kind=ChangeKind.CHANGE_NODE, text=text, then=_untainted, command=command))
        text = f"let pod {pod.key} tolerate {shown} of node {name}"
        steps.append(_Step(kind=ChangeKind.CHANGE_POD, text=text, then=_pod(tolerations=(*pod.tolerations, *added))))
    return steps


def _has(node: NodeState, keys: frozenset[str]) -> bool:
    return any(taint.key in keys for taint in node.taints)


def _pod(
    *, node_selector: dict[str, str] | None = None, tolerations: tuple[PodToleration, ...] | None = None
) -> Callable[[_There], _There]:
    def then(there: _There) -> _There:
        pod, node = there
        if pod is None:
            return there
        if node_selector is not None:
            pod = replace(pod, node_selector=node_selector)
        if tolerations is not None:
            pod = replace(pod, tolerations=tolerations)
        return pod, node

    return then


def _no_affinity(there: _There) -> _There:
    pod, node = there
    return (replace(pod, affinity=None) if pod is not None else None), node


def _uncordoned(there: _There) -> _There:
    pod, node = there
    return pod, replace(node, unschedulable=False, taints=_others(node, _CORDON))


def _ready(there: _There) -> _There:
    pod, node = there
    return pod, replace(node, not_ready="", taints=_others(node, _NOT_READY))


def _untainted(there: _There) -> _There:
    pod, node = there
    return pod, replace(node, taints=tuple(item for item in node.taints if item.key in _CORDON | _NOT_READY))


def _others(node: NodeState, keys: frozenset[str]) -> tuple[NodeTaint, ...]:
    return tuple(taint for taint in node.taints if taint.key not in keys)


def _elsewhere(search: ProposalSearch, verdict: NodeVerdict) -> list[Proposal]:
    """Propose to free a claim that is allocated on another node; it is not known whether it finds devices here."""
    if not search.case.allocated:
        return []
    claim = search.case.allocated[0]
    for item in search.case.allocated:
        if node_refusal(search.case.pod, verdict.node, (item,)) is not None:
            claim = item
            break
    users = users_of(search.state, claim)
    reference = claim.ref
    name = verdict.node.node.metadata.name
    if users:
        who = named(users)
        text = f"end {who}, which {'hold' if len(users) > 1 else 'holds'} {reference} on another node; node {name} has"
    else:
        text = f"delete {reference}, which is allocated on another node and used by no pod; node {name} has"
    # The claim itself stays: without pods that use it it is deallocated, and given anew beside the others.
    return [
        Proposal(
            kind=ChangeKind.END_CLAIMS,
            text=f"{text} the devices for the rest",
            node=name,
            verified=False,
            ends=() if users else (reference,),
            pods=users,
            commands=delete_commands(users or (reference,)),
        )
    ]
