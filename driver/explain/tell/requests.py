"""The funnels: for each request, how many devices each step leaves, and who took the others out."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from driver.allocator.errors import AllocationError
from driver.budget import SpentError, check
from driver.explain.explanation import FunnelStep, RequestFunnel, Step
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.judge.funnel import STEPS, Sieve
from driver.explain.judge.look import Look, demands_of
from driver.explain.judge.verdicts import Verdicts
from driver.explain.known.state import ClusterState
from driver.explain.tell.selector_texts import Refused, refused_by, told
from driver.explain.tell.taint_texts import taints_text
from driver.explain.tell.usage import Fragment, counters_text, fragment_text, held_by, largest_fragment
from driver.explain.texts import amount
from driver.wording import plural

__all__ = ["request_funnels"]

_ALL_LOOKS: Final = 512
"""Of a claim of few demands; of others fewer."""
_FEW_DEMANDS: Final = 16
_MOST_LOOKS: Final = 32
"""Nodes looked at closely for details; the numbers of a funnel are of all nodes."""


def request_funnels(
    state: ClusterState, verdicts: Verdicts, case: Case, nodes: Sequence[NodeVerdict]
) -> tuple[RequestFunnel, ...]:
    """One for each demand, of the nodes on which the pod could be; of all nodes where it could be on none.

    Nodes that were not looked at do not count. When the budget in force is spent, details and further funnels are left
    out.

    Args:
        state: The cluster.
        verdicts: What judged the nodes.
        case: What is asked about.
        nodes: What they say.
    """
    known = [verdict for verdict in nodes if verdict.left]
    considered = [verdict for verdict in known if verdict.placement is None] or known
    looks = _Looks(verdicts, case)
    funnels = []
    alike: dict[object, tuple[FunnelStep, ...]] = {}  # of the eight GPUs of eight pairs, one is counted
    for number, (place, _, demand) in enumerate(demands_of(case.demands)):
        if demand.kind not in alike:
            key = (place, demand.name)
            try:
                check()
            except SpentError:
                break
            alike[demand.kind] = _steps(state, looks, considered, key, number)
        funnels.append(
            RequestFunnel(
                claim=case.claims[place].ref,
                request=demand.name,
                device_class=demand.device_class,
                need=demand.count,
                steps=alike[demand.kind],
            )
        )
    return tuple(funnels)


def _steps(
    state: ClusterState, looks: _Looks, considered: Sequence[NodeVerdict], key: tuple[int, str], number: int
) -> tuple[FunnelStep, ...]:
    """How many devices each step leaves for a demand, where it takes some out."""
    rows = [verdict.left[number] for verdict in considered]
    steps = []
    before: int | None = None
    for index, step in enumerate(STEPS):
        column = [row[index] for row in rows]
        left = sum(column)
        if left == before:
            continue
        best = max(column, default=0)
        node = considered[column.index(best)].node.node.metadata.name if best else ""
        details: tuple[str, ...] = ()
        if before is not None:
            with suppress(SpentError):
                details = _details(state, looks, considered, key, number, step)
        before = left
        steps.append(FunnelStep(step=step, left=left, best=best, best_node=node, details=details))
    return tuple(steps)


class _Looks:
    """Close looks at nodes, each made once.

    Attributes:
        most: At so many nodes may be looked where that tells more; the fewer, the more is asked for.
    """

    def __init__(self, verdicts: Verdicts, case: Case) -> None:
        self._verdicts, self._case = verdicts, case
        self._known: dict[str, Look | None] = {}
        # A look finds the devices of every demand, and is kept.
        self.most = _ALL_LOOKS // max(1, sum(1 for _ in demands_of(case.demands)) // _FEW_DEMANDS)

    def at(self, nodes: Iterable[NodeVerdict], key: tuple[int, str]) -> list[tuple[str, Look, Sieve]]:
        found = []
        for verdict in nodes:
            name = verdict.node.node.metadata.name
            if name not in self._known:
                try:
                    self._known[name] = self._verdicts.look(verdict.node, self._case.demands)
                except AllocationError:
                    self._known[name] = None
            look = self._known[name]
            if look is not None:
                found.append((name, look, look.sieves[key]))
        return found


def _details(
    state: ClusterState,
    looks: _Looks,
    nodes: Sequence[NodeVerdict],
    key: tuple[int, str],
    number: int,
    step: Step,
) -> tuple[str, ...]:
    """Who took devices out at a step; of many nodes, on those that came furthest."""
    index = STEPS.index(step)
    touched = [node for node in nodes if node.left[number][index] < node.left[number][index - 1]]
    nearest = heapq.nsmallest(_MOST_LOOKS, touched, key=lambda node: (node.lacks, -node.left[number][index - 1]))
    close = looks.at(nearest, key)
    note = (f"on the {_MOST_LOOKS} nearest of {len(touched)} nodes",) if len(touched) > _MOST_LOOKS else ()
    match step:
        case Step.CLASS | Step.SELECTOR:
            found: defaultdict[str, list[Refused]] = defaultdict(list)
            for _, look, sieve in close:
                for text, devices in refused_by(look, sieve, by_class=step is Step.CLASS):
                    found[text] += devices
            details = told(found)
        case Step.SIZE:
            details = _sizes(close)
        case Step.TAINTS:
            tainted = [device for _, _, sieve in close for device in sieve.tainted]
            details = (taints_text(state, tainted, close[0][2].demand),) if close else ()
        case Step.IN_USE:
            details = (f"in use by {held_by(state, [device for _, _, sieve in close for device in sieve.in_use])}",)
        case Step.ROOM:
            # Exact, and so of all nodes: the largest free part is what an author can ask for.
            at = looks.at(touched, key) if len(touched) <= looks.most else close
            are_left = any(node.left[number][index] for node in nodes)
            details, note = _room(state, at, are_left=are_left), ()
        case Step.COUNTERS:
            details = tuple(
                f"node {name}: {text}"
                for name, look, sieve in close[:3]
                if (text := counters_text(state, look, sieve.no_counters))
            )
        case _:
            return ()
    return (*details, *note) if details else ()


def _sizes(close: Sequence[tuple[str, Look, Sieve]]) -> tuple[str, ...]:
    details = []
    devices = [device for _, _, sieve in close for device in sieve.size]
    wanted = close[0][2].demand.capacity if close else ()
    for name, asked in wanted:
        values = [device.device.capacity[name].value for device in devices if name in device.device.capacity]
        without = len(devices) - len(values)
        if without:
            details.append(f"{plural(without, 'device')} without capacity {name}")
        if values:
            largest = max(values)
            details.append(f"{name}: {asked} asked for, the largest of these has {amount(largest.nano, largest)}")
    return tuple(details)


def _room(state: ClusterState, close: Sequence[tuple[str, Look, Sieve]], *, are_left: bool) -> tuple[str, ...]:
    best: tuple[Fragment, str] | None = None
    for name, look, sieve in close:
        fragment = largest_fragment(look.scene.ledger, sieve)
        if fragment is not None and (best is None or fragment.part > best[0].part):
            best = (fragment, name)
    if best is None:
        return ()
    fragment, name = best
    of_these = "of those with too little left, " if are_left else ""
    return (of_these + fragment_text(fragment, name), f"it is shared by {held_by(state, [fragment.device])}")
