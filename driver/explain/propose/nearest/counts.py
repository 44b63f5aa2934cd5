"""Ask for fewer devices: of one request, of all that ask for as many, or without some of several alike requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from driver.allocator.candidates import MAX_RESULTS
from driver.api.resource_v1 import ResourceClaim
from driver.explain.explanation import Step
from driver.explain.judge.case import NodeVerdict
from driver.explain.propose.nearest.edits import drop, put
from driver.explain.propose.nearest.options import Change, Effort, Operation, Option
from driver.explain.propose.nearest.search import DemandEntry, ProposalSearch

__all__ = ["fewer_devices", "fewer_requests"]

_NODES = 2
"""On how many nodes each number is tried."""


def fewer_devices(search: ProposalSearch) -> Iterator[Option]:
    """Yield smaller counts: the largest that the allocator finds, or one that may do together with another change."""
    groups: defaultdict[tuple[int, int], list[DemandEntry]] = defaultdict(list)
    for entry in search.entries:
        if entry.demand.count is None or entry.demand.count > 1:
            yield from _fewer(search, [entry])
        if entry.demand.count is not None and entry.demand.count > 1:
            groups[entry.claim, entry.demand.count].append(entry)
    for group in groups.values():
        if len(group) > 1:
            yield from _fewer(search, group)


def _fewer(search: ProposalSearch, entries: Sequence[DemandEntry]) -> Iterator[Option]:
    nodes = search.nearest(_NODES, lambda item: -_least_left(search, item, entries))
    if not nodes:
        return
    asked = entries[0].demand.count
    known = any(item.left for item in nodes)
    there = max(_least_left(search, item, entries) for item in nodes)
    most = (MAX_RESULTS if asked is None else asked - 1) if not known else there
    if asked is not None:
        most = min(most, asked - 1)
    most = min(most, MAX_RESULTS)
    found = _largest(most, lambda count: search.works(_count(entries, count), nodes) is not None)
    if found or most > 0:
        yield _count(entries, found or most)


def _least_left(search: ProposalSearch, verdict: NodeVerdict, entries: Sequence[DemandEntry]) -> int:
    return min(search.after(verdict, entry, Step.COUNTERS) for entry in entries)


def _largest(most: int, works: Callable[[int], bool]) -> int:
    """Return the largest number of 1 to ``most`` that works, if all below one that works do too; 0 where none does."""
    if most < 1 or works(most):
        return max(most, 0)
    low, high = 0, most  # low works (nothing always does), high does not
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            low = middle
        else:
            high = middle
    return low


def _count(entries: Sequence[DemandEntry], count: int) -> Option:
    changes = []
    for entry in entries:
        operations: list[Operation] = [put(count, *entry.path, "count")]
        if entry.demand.count is None:
            operations.insert(0, put("ExactCount", *entry.path, "allocationMode"))
        changes.append(Change(place=entry.claim, operations=tuple(operations)))
    asked = entries[0].demand.count
    names = ", ".join(entry.demand.name for entry in entries)
    requests = f"request {names}" if len(entries) == 1 else f"each of the requests {names}"
    devices = "device" if count == 1 else "devices"
    if asked is None:
        text = f"ask for {count} {devices} in {requests} instead of all"
        return Option(effort=Effort.LESS, cost=1, text=text, changes=tuple(changes))
    return Option(
        effort=Effort.LESS if count * 2 >= asked else Effort.GIVE_UP,
        cost=(asked - count) * len(entries),
        text=f"ask for {count} {devices} in {requests} instead of {asked}",
        changes=tuple(changes),
    )


def fewer_requests(search: ProposalSearch) -> Iterator[Option]:
    """Yield the claim without some of several alike requests, or groups of requests (GPU-NIC pairs)."""
    for place, (claim, demand) in enumerate(zip(search.claims, search.demands, strict=False)):
        groups = _joined(claim)
        kinds: defaultdict[object, list[tuple[int, ...]]] = defaultdict(list)
        for group in groups:
            kinds[tuple(tuple(part.kind for part in demand.requests[number].alternatives) for number in group)].append(
                group
            )
        for alike in kinds.values():
            if len(alike) > 1:
                yield from _without(search, place, claim, alike)


def _joined(claim: ResourceClaim) -> list[tuple[int, ...]]:
    """Return the requests, those together that a constraint joins by name."""
    numbers = {request.name: number for number, request in enumerate(claim.spec.devices.requests)}
    group_of = {number: {number} for number in numbers.values()}
    for constraint in claim.spec.devices.constraints:
        joined: set[int] = set()
        for name in constraint.requests:
            number = numbers.get(name.partition("/")[0])
            joined |= group_of[number] if number is not None else set()
        for number in joined:
            group_of[number] = joined
    return sorted({tuple(sorted(group)) for group in group_of.values()})


def _without(
    search: ProposalSearch, place: int, claim: ResourceClaim, alike: Sequence[tuple[int, ...]]
) -> Iterator[Option]:
    nodes = search.nearest(_NODES)
    options = {stay: _dropped(place, claim, alike[stay:], len(alike)) for stay in range(1, len(alike))}
    found = _largest(len(alike) - 1, lambda stay: search.works(options[stay], nodes) is not None)
    if found:
        yield options[found]


def _dropped(place: int, claim: ResourceClaim, groups: Sequence[tuple[int, ...]], of: int) -> Option:
    devices = claim.spec.devices
    gone = {number for group in groups for number in group}
    names = {devices.requests[number].name for number in gone}
    operations = [drop("requests", number) for number in sorted(gone)]
    named = [("constraints", index, item.requests) for index, item in enumerate(devices.constraints)]
    named += [("config", index, item.requests) for index, item in enumerate(devices.config)]
    for kind, index, requests in named:
        left = [name for name in requests if name.partition("/")[0] not in names]
        if requests and not left:
            operations.append(drop(kind, index))
        elif len(left) < len(requests):
            operations.append(put(left, kind, index, "requests"))
    listed = ", ".join(devices.requests[number].name for number in sorted(gone))
    return Option(
        effort=Effort.LESS if len(groups) * 2 <= of else Effort.GIVE_UP,
        cost=len(gone),
        text=f"ask for {of - len(groups)} instead of {of} alike{' groups of' if len(groups[0]) > 1 else ''} requests:"
        f" leave out {listed}",
        changes=(Change(place=place, operations=tuple(operations)),),
    )
