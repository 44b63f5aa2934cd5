"""Recognizes situations in which more is asked for than there is, without trying.

Each bound leaves something out (constraints, other requests, capacities), so that what it calls hopeless is so, and
what it does not may be hopeless all the same:

- *Matching*: each request needs so many devices of its own out of the classes of devices that it can take.
- *Values to differ*: devices under a distinctAttribute need a value each.
- *Values to share*: the devices under a matchAttribute need one value of which there are enough for all of them; and
  for sets of requests of one kind, each under a matchAttribute of its own (GPU-NIC pairs under one switch each), the
  values together must have room for all the sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.allocator.candidates import RequestCandidates
from driver.allocator.state import SearchState
from driver.allocator.view import Candidate
from driver.budget import check

__all__ = ["ENDLESS", "PendingRequest", "is_hopeless", "room_for_sets"]

ENDLESS: Final = 1 << 30
"""More than all requests can need together."""

_Value = tuple[str, int | bool | str]


@dataclass(frozen=True, slots=True, eq=False)
class PendingRequest:
    """A request that is still to be served.

    Attributes:
        request: The request.
        held: The places of the constraints that hold for it whichever alternative is taken.
        supplies: For each alternative: how many devices of each class it can still take.
        usable: How many devices of each class some alternative can still take. Alike requests have the same object.
        rooms: For each class of shareable devices: how many requests there is room for on its devices together.
        representatives: One device of each class.
    """

    request: RequestCandidates
    held: Sequence[int]
    supplies: tuple[Mapping[int, int], ...]
    usable: Mapping[int, int]
    rooms: Mapping[int, int]
    representatives: Sequence[Candidate]


def is_hopeless(state: SearchState, pending: Sequence[PendingRequest]) -> bool:
    """Whether the pending requests certainly cannot all be served.

    Args:
        state: What is taken.
        pending: In order. Leaving some out only makes the answer "no" more likely.
    """
    for item in pending:
        if not any(
            sum(supply.values()) >= candidates.need
            for supply, candidates in zip(item.supplies, item.request.alternatives, strict=True)
        ):
            return True
    return not _matching_exists(pending) or _values_lack(state, pending)


def room_for_sets(by_value: Iterable[Iterable[tuple[int, int]]]) -> int:
    """Return how many sets of devices there is room for, at most, each of which must share one value.

    Args:
        by_value: For each value, and for each kind of device in a set: how many devices there are, and how many of them
            a set takes.
    """
    return sum(max(0, min(there // need for there, need in of_value)) for of_value in by_value)


def _matching_exists(pending: Sequence[PendingRequest]) -> bool:
    """Whether every request can have devices of its own: augmenting paths between requests and classes."""
    check()
    # Requests that need as many of the same devices count as one: what is assigned to it can be shared out evenly.
    alike: dict[tuple[int, int], list[PendingRequest]] = {}
    free: dict[int, int] = {}
    for item in pending:
        if not _is_admin(item):
            alike.setdefault((id(item.usable), item.request.least), []).append(item)
    wanted: list[dict[int, int]] = []
    needs: list[int] = []
    for members in alike.values():
        sample, times = members[0], len(members)
        for number, count in sample.usable.items():
            free[number] = sample.rooms.get(number, max(count, free.get(number, 0)))
        wanted.append({number: count * times for number, count in sample.usable.items()})
        needs.append(sample.request.least * times)
    assigned: list[defaultdict[int, int]] = [defaultdict(int) for _ in wanted]

    def assign(asker: int, tried: set[int]) -> bool:
        """Find one more device for ``asker``, moving what others have where that helps."""
        for number, most in wanted[asker].items():
            if number in tried or assigned[asker][number] >= most:
                continue
            tried.add(number)
            if free[number] > 0:
                free[number] -= 1
                assigned[asker][number] += 1
                return True
            for other, has in enumerate(assigned):
                if other != asker and has[number] > 0 and assign(other, tried):
                    has[number] -= 1
                    assigned[asker][number] += 1
                    return True
        return False

    return all(assign(asker, set()) for asker, need in enumerate(needs) for _ in range(need))


def _is_admin(item: PendingRequest) -> bool:
    """Whether it may come to admin access, which takes nothing from others."""
    return any(candidates.demand.admin for candidates in item.request.alternatives)


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The pending requests that one constraint holds.

    Attributes:
        attribute: What the constraint looks at.
        members: The requests.
        supplies: What each of them can take.
    """

    attribute: str
    members: tuple[PendingRequest, ...]
    supplies: tuple[Mapping[int, int], ...]

    @property
    def need(self) -> int:
        """How many devices the requests take together, at least."""
        return sum(item.request.least for item in self.members)


def _values_lack(state: SearchState, pending: Sequence[PendingRequest]) -> bool:
    held: defaultdict[tuple[int, int], list[PendingRequest]] = defaultdict(list)
    for item in pending:
        for place in item.held:
            held[item.request.claim, place].append(item)
    sets: defaultdict[object, list[_Group]] = defaultdict(list)
    enough: set[object] = set()
    for (claim, place), members in held.items():
        constraint, common = state.constraints[claim][place], state.states[claim][place]
        group = _Group(constraint.attribute, tuple(members), tuple([item.usable for item in members]))
        alike = tuple([(id(item.usable), item.request.least) for item in members])
        if (constraint.attribute, constraint.distinct, common, alike) not in enough:
            check()
            by_value = _by_value(state, group)
            if constraint.distinct:
                if len(by_value) < group.need:
                    return True
            elif not any(
                _has_room(group, classes) for value, classes in by_value.items() if common is None or value in common
            ):
                return True
            enough.add((constraint.attribute, constraint.distinct, common, alike))
        if common is None and not constraint.distinct:
            sets[constraint.attribute, _kind(group)].append(group)
    return any(_sets_lack(state, groups, pending) for groups in sets.values() if len(groups) > 1)


def _kind(group: _Group) -> object:
    """Return a key that is equal for sets of requests that need the same of the same devices."""
    needs = (item.request.least for item in group.members)
    return tuple(
        sorted((need, tuple(sorted(supply.items()))) for need, supply in zip(needs, group.supplies, strict=True))
    )


def _by_value(state: SearchState, group: _Group) -> dict[_Value, set[int]]:
    """Return the classes of devices that the group can take, by the attribute's values."""
    by_value: defaultdict[_Value, set[int]] = defaultdict(set)
    for item, supply in zip(group.members, group.supplies, strict=True):
        for number in supply:
            for value in state.values(item.representatives[number], group.attribute) or ():
                by_value[value].add(number)
    return by_value


def _has_room(group: _Group, classes: Collection[int]) -> bool:
    """Whether the devices of ``classes`` are enough for the whole group."""
    together: dict[int, int] = {}
    for item, supply in zip(group.members, group.supplies, strict=True):
        mine = {number: count for number, count in supply.items() if number in classes}
        if sum(mine.values()) < item.request.least:
            return False
        for number, count in mine.items():
            together[number] = item.rooms.get(number, max(count, together.get(number, 0)))
    return sum(together.values()) >= group.need


def _sets_lack(state: SearchState, groups: Sequence[_Group], pending: Sequence[PendingRequest]) -> bool:
    """Whether the values together have room for fewer sets of one kind than there are."""
    inside = {id(item) for group in groups for item in group.members}
    if len(inside) < sum(len(group.members) for group in groups):
        return False  # they share requests, so they are no sets of their own
    sample, rooms = groups[0], pending[0].rooms
    needs: defaultdict[tuple[tuple[int, int], ...], int] = defaultdict(int)
    for item, supply in zip(sample.members, sample.supplies, strict=True):
        needs[tuple(sorted(supply.items()))] += item.request.least
    outside = [
        (item.request.least, item.usable.keys()) for item in pending if id(item) not in inside and not _is_admin(item)
    ]
    by_value = []
    for classes in _by_value(state, sample).values():
        of_value = []
        for supply_items, need in needs.items():
            mine = {number: rooms.get(number, count) for number, count in supply_items if number in classes}
            # Requests that can be served from nowhere else come first.
            reserved = sum(least for least, usable in outside if usable and usable <= mine.keys())
            of_value.append((sum(mine.values()) - reserved, need))
        by_value.append(of_value)
    return room_for_sets(by_value) < len(groups)
