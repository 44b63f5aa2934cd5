"""Makes the funnels: for each request, how many devices each step leaves, and why the others are filtered out."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from driver.allocator.errors import AllocationError
from driver.budget import SpentError, check
from driver.explain.explanation import FunnelStep, RequestFunnel, Step
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.judge.device_filter import STEPS, FilteredDevices
from driver.explain.judge.evaluation import Evaluations, NodeEvaluation, demands_of, remembered
from driver.explain.known.state import ClusterState
from driver.explain.tell.selector_texts import Refused, refusal_lines, refused_by
from driver.explain.tell.taint_texts import taints_text
from driver.explain.tell.usage import Fragment, counters_text, fragment_text, held_by, largest_fragment
from driver.explain.texts import amount
from driver.wording import plural

__all__ = ["request_funnels"]

_MOST_IN_DETAIL: Final = 32
"""The nodes of which a funnel's details are; its numbers are of all nodes."""

_Found = tuple[str, NodeEvaluation, FilteredDevices]
"""A node's name, its evaluation, and what a demand finds there."""


def request_funnels(
    state: ClusterState, evaluations: Evaluations, case: Case, nodes: Sequence[NodeVerdict]
) -> tuple[RequestFunnel, ...]:
    """Return a funnel for each demand, of the nodes on which the pod could be; of all nodes where it could be on none.

    Nodes that were not evaluated do not count. When the budget in force is spent, details and further funnels are left
    out.

    Args:
        state: The cluster.
        evaluations: The evaluations of nodes.
        case: The case.
        nodes: The verdicts of all nodes.
    """
    known = [verdict for verdict in nodes if verdict.left]
    considered = [verdict for verdict in known if verdict.placement is None] or known
    funnels = []
    alike: dict[object, tuple[FunnelStep, ...]] = {}  # of the eight GPUs of eight pairs, one is counted
    for number, (place, _, demand) in enumerate(demands_of(case.demands)):
        if demand.kind not in alike:
            try:
                check()
            except SpentError:
                break
            alike[demand.kind] = _Funnel(state, evaluations, case, considered, (place, demand.name), number).steps()
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


@dataclass(frozen=True, slots=True)
class _Funnel:
    """Makes the funnel of one demand.

    Attributes:
        state: The cluster.
        evaluations: The evaluations of nodes.
        case: The case.
        nodes: The verdicts of the nodes that count.
        key: The claim's place and the demand's name.
        number: The place of the demand among those of the case.
    """

    state: ClusterState
    evaluations: Evaluations
    case: Case
    nodes: Sequence[NodeVerdict]
    key: tuple[int, str]
    number: int

    def steps(self) -> tuple[FunnelStep, ...]:
        """Return the steps that take devices out, with how many they leave."""
        rows = [verdict.left[self.number] for verdict in self.nodes]
        steps = []
        before: int | None = None
        for index, step in enumerate(STEPS):
            column = [row[index] for row in rows]
            left = sum(column)
            if left == before:
                continue
            best = max(column, default=0)
            node = self.nodes[column.index(best)].node.node.metadata.name if best else ""
            details: tuple[str, ...] = ()
            if before is not None:
                with suppress(SpentError):
                    details = self._details(step)
            before = left
            steps.append(FunnelStep(step=step, left=left, best=best, best_node=node, details=details))
        return tuple(steps)

    def _details(self, step: Step) -> tuple[str, ...]:
        """Write why devices are filtered out at a step; of many nodes, on those that came furthest."""
        state, number, index = self.state, self.number, STEPS.index(step)
        touched = [node for node in self.nodes if node.left[number][index] < node.left[number][index - 1]]
        furthest = heapq.nsmallest(
            _MOST_IN_DETAIL, touched, key=lambda node: (node.lacks, -node.left[number][index - 1])
        )
        close = self._found(furthest)
        are_more = len(touched) > _MOST_IN_DETAIL
        note = (f"on the {_MOST_IN_DETAIL} nearest of {len(touched)} nodes",) if are_more else ()
        match step:
            case Step.CLASS | Step.SELECTOR:
                found: defaultdict[str, list[Refused]] = defaultdict(list)
                for _, evaluation, filtered in close:
                    for text, devices in refused_by(evaluation, filtered, by_class=step is Step.CLASS):
                        found[text] += devices
                details = refusal_lines(found)
            case Step.SIZE:
                details = _sizes(close)
            case Step.TAINTS:
                tainted = [device for _, _, filtered in close for device in filtered.tainted]
                details = (taints_text(state, tainted, close[0][2].demand),) if close else ()
            case Step.IN_USE:
                in_use = [device for _, _, filtered in close for device in filtered.in_use]
                details = (f"in use by {held_by(state, in_use)}",)
            case Step.ROOM:
                # Exact, and so of all nodes: the largest free part is what an author can ask for.
                is_exact = len(touched) <= remembered(self.case.demands)
                are_left = any(node.left[number][index] for node in self.nodes)
                details, note = _room(state, self._found(touched) if is_exact else close, are_left=are_left), ()
            case Step.COUNTERS:
                details = tuple(
                    f"node {name}: {text}"
                    for name, evaluation, filtered in close[:3]
                    if (text := counters_text(state, evaluation, filtered.no_counters))
                )
            case _:
                return ()
        return (*details, *note) if details else ()

    def _found(self, nodes: Iterable[NodeVerdict]) -> list[_Found]:
        """Return what the demand finds on each of the nodes, but for those whose slices are invalid."""
        found = []
        for verdict in nodes:
            with suppress(AllocationError):
                evaluation = self.evaluations.of(verdict.node, self.case.demands)
                found.append((verdict.node.node.metadata.name, evaluation, evaluation.by_demand[self.key]))
        return found


def _sizes(close: Sequence[_Found]) -> tuple[str, ...]:
    details = []
    devices = [device for _, _, filtered in close for device in filtered.size]
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


def _room(state: ClusterState, close: Sequence[_Found], *, are_left: bool) -> tuple[str, ...]:
    best: tuple[Fragment, str] | None = None
    for name, evaluation, filtered in close:
        fragment = largest_fragment(evaluation.scene.ledger, filtered)
        if fragment is not None and (best is None or fragment.part > best[0].part):
            best = (fragment, name)
    if best is None:
        return ()
    fragment, name = best
    of_these = "of those with too little left, " if are_left else ""
    return (of_these + fragment_text(fragment, name), f"it is shared by {held_by(state, [fragment.device])}")
