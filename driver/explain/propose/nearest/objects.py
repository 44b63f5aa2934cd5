"""What is missing or broken, and for whom to repair: nothing of it can be tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver.allocator.pools import PoolState
from driver.explain.explanation import ChangeKind, Proposal, Step
from driver.explain.known.cluster import Kind, PodState
from driver.explain.known.state import ClusterState
from driver.explain.known.strategies import missing_strategy
from driver.explain.known.vocabulary import Vocabulary
from driver.explain.propose.nearest.search import DemandEntry, ProposalSearch
from driver.spelling import close_matches

__all__ = ["missing_objects", "missing_strategies", "unfinished_pools"]

_NODES: Final = 16


def missing_objects(search: ProposalSearch) -> Iterator[Proposal]:
    """Yield proposals for classes, claims and templates that are named and not there."""
    state, pod = search.state, search.case.pod
    if pod is not None:
        yield from _of_pod(search, pod)
    classes = (
        part.device_class_name
        for claim in search.claims
        for request in claim.spec.devices.requests
        for part in (*request.first_available, *((request.exactly,) if request.exactly is not None else ()))
    )
    for name in dict.fromkeys(classes):
        if name not in state.classes and not state.left_out.why(Kind.CLASS, name):
            yield Proposal(
                kind=ChangeKind.CREATE_OBJECT,
                text=f"create DeviceClass {name}, or install the driver that brings it",
                verified=False,
                commands=("kubectl get deviceclasses",),
            )


def _of_pod(search: ProposalSearch, pod: PodState) -> Iterator[Proposal]:
    state = search.state
    for item in pod.claims:
        if item.template and not item.claim and f"{pod.namespace}/{item.template}" not in state.templates:
            there = [key.partition("/")[2] for key in state.templates if key.startswith(f"{pod.namespace}/")]
            yield from _missing("ResourceClaimTemplate", pod.namespace, item.template, there, pod.key)
        elif item.claim and not item.template and not _is_there(state, f"{pod.namespace}/{item.claim}"):
            there = [key.partition("/")[2] for key in state.claim_keys() if key.startswith(f"{pod.namespace}/")]
            yield from _missing("ResourceClaim", pod.namespace, item.claim, there, pod.key)


def _is_there(state: ClusterState, claim: str) -> bool:
    return state.claim(claim) is not None or state.left_out.why(Kind.CLAIM, claim) != ""


def _missing(kind: str, namespace: str, name: str, there: list[str], pod: str) -> Iterator[Proposal]:
    near = close_matches(name, sorted(there))
    if near:
        text = f"name {kind} {near[0]} instead of {name} in pod {pod}"
        yield Proposal(kind=ChangeKind.CHANGE_POD, text=text, verified=False)
    yield Proposal(
        kind=ChangeKind.CREATE_OBJECT,
        text=f"create {kind} {namespace}/{name}",
        verified=False,
        commands=(f"kubectl -n {namespace} get {kind.lower()}s",),
    )


def missing_strategies(search: ProposalSearch, vocabulary: Vocabulary) -> Iterator[Proposal]:
    """Yield proposals for requests whose class selects nothing, since no GPU offers its strategy for shares.

    Args:
        search: The search.
        vocabulary: Of the devices on the nodes near a fit.
    """
    requests: dict[object, list[DemandEntry]] = {}
    for entry in search.entries:
        requests.setdefault((entry.claim, entry.path[:2]), []).append(entry)
    texts: list[str] = []
    for entries in requests.values():
        helps = [missing_strategy(entry.demand.device_class, vocabulary) for entry in entries]
        if all(helps) and not any(
            search.after(verdict, entry, Step.CLASS) for verdict in search.verdicts for entry in entries
        ):
            texts += [text for text in helps if text is not None]
    for text in dict.fromkeys(texts):
        yield Proposal(kind=ChangeKind.CHANGE_NODE, text=text, verified=False)


def unfinished_pools(search: ProposalSearch) -> Iterator[Proposal]:
    """Yield proposals for incomplete or invalid pools, and nodes without devices, near a fit."""
    seen: set[object] = set()
    anything = False
    for verdict in search.nearest(_NODES):
        view, name = search.view(verdict), verdict.node.node.metadata.name
        anything = anything or bool(view.devices)
        for pool in view.pools:
            if pool.state is PoolState.USABLE or pool.id in seen:
                continue
            seen.add(pool.id)
            if pool.state is PoolState.INCOMPLETE:
                text = f"wait until driver {pool.id.driver} has published all of pool {pool.id.pool}: {pool.reason}"
                yield Proposal(kind=ChangeKind.WAIT, text=text, node=name, verified=False)
            else:
                text = f"driver {pool.id.driver} must repair its pool {pool.id.pool}: {pool.reason}"
                yield Proposal(kind=ChangeKind.REPAIR_DRIVER, text=text, node=name, verified=False)
        problem = search.state.inventory_problem(name)
        if problem:
            text = f"look after Rootport's plugin on node {name}: {problem}"
            yield Proposal(
                kind=ChangeKind.REPAIR_DRIVER,
                text=text,
                node=name,
                verified=False,
                commands=(f"kubectl get nodeinventory {name} -o yaml",),
            )
    if search.open and not anything and not seen:
        yield Proposal(
            kind=ChangeKind.REPAIR_DRIVER,
            text="find out why no driver publishes devices for these nodes: is its plugin running there?",
            verified=False,
            commands=("kubectl get resourceslices",),
        )
