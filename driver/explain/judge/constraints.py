"""Finds why a constraint leaves too few devices where each request has enough: the best group, and what it lacks.

A group is the devices with one value of a matchAttribute. Each constraint is checked alone, so that the result is true
whatever the others are; where all of them could be met alone, the requests compete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from driver.allocator.constraints import attribute_values
from driver.allocator.demands import ClaimDemand, Constraint, RequestDemand
from driver.allocator.view import PooledDevice, Values
from driver.api.resource_v1 import DeviceAttribute
from driver.budget import check
from driver.explain.judge.device_filter import FilteredDevices
from driver.explain.reasons import Reason
from driver.memo import IdMemo

__all__ = ["AlikeSets", "ConstraintChecker", "ConstraintProblem"]

ByDemand = Mapping[tuple[int, str], FilteredDevices]
"""What each demand finds on a node, by the claim's place and the demand's name."""

_Value = tuple[str, int | bool | str]
_NONE: Final[Values] = frozenset()
_Held = tuple[Constraint, Sequence[RequestDemand]]
_MOST_VALUES: Final = 65_536
_MOST_CLAIMS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstraintProblem:
    """A constraint that cannot be met on a node.

    Attributes:
        claim: The claim's place.
        constraint: The constraint.
        reason: ATTRIBUTE_MISSING, CONSTRAINT or CONSTRAINT_IN_USE.
        lacks: How many devices are missing, in the best group.
        value: The value of the best group; empty where there is none, or where the values must differ.
        short: The requests that lack devices there: (request, devices it needs, free devices, all devices).
        taken: The devices of the best group that are not free.
        without: Devices that lack the attribute, for ATTRIBUTE_MISSING.
        kinds: The types that the attribute has in the requests' devices, where they differ.
    """

    claim: int
    constraint: Constraint
    reason: Reason
    lacks: int
    value: str = ""
    short: tuple[tuple[str, int, int, int], ...] = ()
    taken: tuple[PooledDevice, ...] = ()
    without: tuple[PooledDevice, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Alternative:
    """The devices of one alternative of a request, by the values of a constraint's attribute.

    Attributes:
        need: How many devices it needs.
        there: How many there are of each value, free or not, taints and sizes apart.
        free: How many of these are free.
        valued: How many devices have a value, and how many of them are free.
        devices: (device, its values, whether it is free).
    """

    need: int
    there: Mapping[_Value, int]
    free: Mapping[_Value, int]
    valued: tuple[int, int]
    devices: Sequence[tuple[PooledDevice, Values, bool]]

    def have(self, value: _Value | None, *, free: bool) -> int:
        """Return the number of devices of ``value`` (None: of any value)."""
        if value is None:
            return self.valued[free]
        return (self.free if free else self.there).get(value, 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """One request under a constraint."""

    name: str
    alternatives: tuple[_Alternative, ...]

    def best(self, value: _Value | None, *, free: bool) -> tuple[int, int, int]:
        """Return (lack, need, have) of the alternative that lacks least, with devices of ``value`` (None: of any)."""
        found = []
        for item in self.alternatives:
            have = item.have(value, free=free)
            found.append((max(0, item.need - have), item.need, have))
        return min(found)


@dataclass(frozen=True, slots=True)
class AlikeSets:
    """Sets of devices that are to share a value each, all of one kind.

    Attributes:
        attribute: The attribute whose value they share.
        needs: By the name of a demand: how many devices for it are in each set.
        count: The number of sets.
    """

    attribute: str
    needs: frozenset[tuple[str, int]]
    count: int


class ConstraintChecker:
    """Checks constraints, and remembers the values of attributes.

    Args:
        lists: Whether attributes may be lists.

    Attributes:
        alike_sets: The sets of claims that were counted (:mod:`driver.explain.judge.sets`); the same on every node.
    """

    def __init__(self, *, lists: bool) -> None:
        self._lists = lists
        self._values: IdMemo[DeviceAttribute, Values] = IdMemo(_MOST_VALUES)
        self._held: IdMemo[ClaimDemand, Sequence[_Held]] = IdMemo(_MOST_CLAIMS)
        self.alike_sets: IdMemo[ClaimDemand, Sequence[AlikeSets]] = IdMemo(_MOST_CLAIMS)

    def problem(self, demands: Sequence[ClaimDemand], by_demand: ByDemand) -> ConstraintProblem | None:
        """Return the constraint that is farthest from being met; None where each could be met if it were alone.

        Args:
            demands: What the claims ask for.
            by_demand: What the demands find on the node.
        """
        problems = []
        # Alternatives of one kind share their devices; and many constraints are on one attribute.
        known: dict[tuple[int, str], _Alternative] = {}
        for place, demand in enumerate(demands):
            seen: set[object] = set()
            for constraint, requests in self._held.of(demand, partial(_held, demand)):
                # What holds for one pair of requests holds for the next that asks for the same.
                ids = [
                    tuple([id(by_demand[place, part.name]) for part in request.alternatives]) for request in requests
                ]
                kind = (constraint.attribute, constraint.distinct, tuple(ids))
                if kind in seen:
                    continue
                seen.add(kind)
                check()
                members = [
                    self._member(place, request, constraint, by_demand, known)
                    for request in requests
                    if any(by_demand[place, part.name].need > 0 for part in request.alternatives)
                ]
                if members:
                    problem = _problem(place, constraint, members)
                    if problem is not None and problem.reason is Reason.ATTRIBUTE_MISSING:
                        return problem  # nothing says more, and a claim may have 32 constraints on 256 alternatives
                    if problem is not None:
                        problems.append(problem)
        order = [Reason.ATTRIBUTE_MISSING, Reason.CONSTRAINT_NOT_SATISFIABLE, Reason.CONSTRAINT_IN_USE]
        return min(problems, key=lambda item: (order.index(item.reason), -item.lacks), default=None)

    def values(self, device: PooledDevice, attribute: str) -> Values:
        """Return the device's values for an attribute; none where it has no such attribute, or one of no known type."""
        attributes = device.device.attributes
        found = attributes.get(attribute)
        if found is None:
            domain, _, name = attribute.partition("/")
            found = attributes.get(name) if domain == device.id.driver else None
            if found is None:
                return _NONE
        known = self._values.get(found)
        if known is None:
            known = self._values.put(found, attribute_values(device, attribute, lists=self._lists) or _NONE)
        return known

    def _member(
        self,
        place: int,
        request: RequestDemand,
        constraint: Constraint,
        by_demand: ByDemand,
        known: dict[tuple[int, str], _Alternative],
    ) -> _Member:
        found: dict[int, _Alternative] = {}
        for demand in request.alternatives:
            filtered = by_demand[place, demand.name]
            key = (id(filtered), constraint.attribute)
            if key not in known:
                known[key] = self._alternative(filtered, constraint.attribute)
            found[id(filtered)] = known[key]
        return _Member(request.name, tuple(found.values()))

    def _alternative(self, filtered: FilteredDevices, attribute: str) -> _Alternative:
        there: dict[_Value, int] = {}
        free: dict[_Value, int] = {}
        valued = [0, 0]
        devices = []
        for found in (filtered.free, filtered.in_use, filtered.no_room, filtered.no_counters):
            is_free = found is filtered.free
            for device in found:
                values = self.values(device, attribute)
                devices.append((device, values, is_free))
                if values:
                    valued[0] += 1
                    valued[1] += is_free
                for value in values:
                    there[value] = there.get(value, 0) + 1
                    if is_free:
                        free[value] = free.get(value, 0) + 1
        return _Alternative(filtered.need, there, free, (valued[0], valued[1]), devices)


def _held(demand: ClaimDemand) -> Sequence[_Held]:
    """Return each constraint with the requests that it forces; an alternative that goes free forces nothing."""
    return [
        (constraint, [item for item in demand.requests if all(map(constraint.applies_to, item.alternatives))])
        for constraint in demand.constraints
    ]


def _problem(place: int, constraint: Constraint, members: Sequence[_Member]) -> ConstraintProblem | None:
    missing = [member for member in members if member.best(None, free=False)[0] > 0]
    if missing:
        return ConstraintProblem(
            claim=place,
            constraint=constraint,
            reason=Reason.ATTRIBUTE_MISSING,
            lacks=sum(member.best(None, free=False)[0] for member in missing),
            short=tuple(_short(member, None) for member in missing),
            without=tuple(
                {
                    device.id: device
                    for member in missing
                    for item in member.alternatives
                    for device, values, _ in item.devices
                    if not values
                }.values()
            ),
        )
    if constraint.distinct:
        return _distinct_problem(place, constraint, members)
    return _match_problem(place, constraint, members)


def _distinct_problem(place: int, constraint: Constraint, members: Sequence[_Member]) -> ConstraintProblem | None:
    need = sum(min(item.need for item in member.alternatives) for member in members)
    there, free = _values(members, free=False), _values(members, free=True)
    if len(free) >= need:
        return None
    return ConstraintProblem(
        claim=place,
        constraint=constraint,
        reason=Reason.CONSTRAINT_NOT_SATISFIABLE if len(there) < need else Reason.CONSTRAINT_IN_USE,
        lacks=need - len(there if len(there) < need else free),
        short=((", ".join(member.name for member in members), need, len(free), len(there)),),
        taken=_taken(members, None),
    )


def _match_problem(place: int, constraint: Constraint, members: Sequence[_Member]) -> ConstraintProblem | None:
    if any(_lack(members, value, free=True) == 0 for value in _values(members, free=True)):
        return None
    values = sorted(_values(members, free=False), key=str)
    kinds = [{kind for kind, _ in _values([member], free=False)} for member in members]
    if len(members) > 1 and not set.intersection(*kinds):
        return ConstraintProblem(
            claim=place,
            constraint=constraint,
            reason=Reason.ATTRIBUTE_MISSING,
            lacks=sum(min(item.need for item in member.alternatives) for member in members),
            short=tuple(_short(member, None) for member in members),
            kinds=tuple(" or ".join(sorted(found)) for found in kinds),
        )
    for free in (False, True):
        lack, value = min((_lack(members, value, free=free), value) for value in values)
        if lack > 0:
            return ConstraintProblem(
                claim=place,
                constraint=constraint,
                reason=Reason.CONSTRAINT_IN_USE if free else Reason.CONSTRAINT_NOT_SATISFIABLE,
                lacks=lack,
                value=_shown(value),
                short=tuple(_short(member, value) for member in members if member.best(value, free=free)[0] > 0)
                or tuple(_short(member, value) for member in members),
                taken=_taken(members, value),
            )
    return None


def _lack(members: Sequence[_Member], value: _Value, *, free: bool) -> int:
    """Return how many devices of ``value`` are missing; also where requests would have to share them."""
    check()
    bests = [member.best(value, free=free) for member in members]
    lack = sum(lack for lack, _, _ in bests)
    if lack or len(members) == 1:
        return lack
    needed = sum(need for _, need, _ in bests)
    devices = {
        device.id: device.shareable
        for member in members
        for item in member.alternatives
        for device, values, is_free in item.devices
        if value in values and (is_free or not free)
    }
    return 0 if any(devices.values()) else max(0, needed - len(devices))


def _values(members: Sequence[_Member], *, free: bool) -> set[_Value]:
    return {
        value for member in members for item in member.alternatives for value in (item.free if free else item.there)
    }


def _taken(members: Sequence[_Member], value: _Value | None) -> tuple[PooledDevice, ...]:
    found = {
        device.id: device
        for member in members
        for item in member.alternatives
        for device, values, is_free in item.devices
        if not is_free and values and (value is None or value in values)
    }
    return tuple(found.values())


def _short(member: _Member, value: _Value | None) -> tuple[str, int, int, int]:
    _, need, free = member.best(value, free=True)
    return (member.name, need, free, member.best(value, free=False)[2])


def _shown(value: _Value) -> str:
    kind, what = value
    if kind == "bool":
        return "true" if what else "false"
    return f'"{what}"' if kind in {"string", "version"} else str(what)
