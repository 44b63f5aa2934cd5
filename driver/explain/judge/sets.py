"""Recognizes without a search that there are too few values for all sets of devices that must share one each.

Four GPU-NIC pairs under one switch each are four sets: a switch with two free GPUs and one free NIC has room for one of
them, and if all switches together have room for three, no search can help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from driver.allocator.bounds import room_for_sets
from driver.allocator.capacity import consumption
from driver.allocator.demands import ClaimDemand, Constraint, RequestDemand
from driver.allocator.pools import PooledDevice
from driver.explain.judge.constraints import AlikeSets, ConstraintChecker
from driver.explain.judge.device_filter import FilteredDevices

__all__ = ["too_many_sets"]

_ByDemand = Mapping[tuple[int, str], FilteredDevices]


def too_many_sets(demands: Sequence[ClaimDemand], by_demand: _ByDemand, checker: ConstraintChecker) -> bool:
    """Whether alike matchAttribute constraints certainly cannot all be met at once; False may be wrong.

    Sets are alike if their constraints are on one attribute and hold requests that ask for the same. Left out of
    account is everything that could only make it harder.

    Args:
        demands: What the claims ask for; each for a number of devices, without admin access.
        by_demand: The devices for the demands on the node, by the claim's place and the demand's name.
        checker: Has the values of attributes.
    """
    for place, claim in enumerate(demands):
        for alike in checker.alike_sets.of(claim, partial(_alike_sets, claim)):
            needs = {by_demand[place, name]: need for name, need in alike.needs}
            room = _room(alike.attribute, needs, checker)
            if room is not None and room < alike.count:
                return True
    return False


def _alike_sets(claim: ClaimDemand) -> Sequence[AlikeSets]:
    """Return the kinds of sets of which a claim has several."""
    sets: Counter[tuple[str, frozenset[tuple[str, int]]]] = Counter()
    samples: dict[object, str] = {}
    for constraint in claim.constraints:
        members = _members(claim, constraint)
        if members is None:
            continue
        needs: Counter[str] = Counter()
        for request in members:
            demand = request.alternatives[0]
            needs[samples.setdefault(demand.kind, demand.name)] += demand.count or 0
        sets[constraint.attribute, frozenset(needs.items())] += 1
    return [AlikeSets(attribute, needs, count) for (attribute, needs), count in sets.items() if count > 1]


def _members(claim: ClaimDemand, constraint: Constraint) -> list[RequestDemand] | None:
    """Return the requests that a matchAttribute holds; None if it is none, or some may be served in another way."""
    if constraint.distinct:
        return None
    members = []
    for request in claim.requests:
        held = [constraint.applies_to(part) for part in request.alternatives]
        if any(held):
            if len(held) > 1:
                return None
            members.append(request)
    return members


def _room(attribute: str, needs: Mapping[FilteredDevices, int], checker: ConstraintChecker) -> int | None:
    """Return how many sets there is room for, at most; None where a device may serve more than one of them."""
    per_kind: list[tuple[Counter[object], int]] = []
    for filtered, need in needs.items():
        if not all(_serves_once(filtered, device) for device in filtered.free):
            return None
        free = Counter[object](value for device in filtered.free for value in checker.values(device, attribute))
        per_kind.append((free, need))
    if not per_kind:
        return None
    values = set.intersection(*(set(free) for free, _ in per_kind))
    return room_for_sets([(free[value], need) for free, need in per_kind] for value in values)


def _serves_once(filtered: FilteredDevices, device: PooledDevice) -> bool:
    """Whether the demand takes the device as a whole, or so much of it that there is no second time."""
    if not device.shareable:
        return True
    taken = consumption(filtered.demand, device.device) or {}
    return any(2 * amount.nano > device.device.capacity[name].value.nano for name, amount in taken.items())
