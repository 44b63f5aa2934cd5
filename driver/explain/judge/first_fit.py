"""Recognizes what obviously fits, without a search: the first free devices serve if none of them is needed twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driver.allocator.candidates import MAX_RESULTS
from driver.allocator.demands import ClaimDemand, Constraint
from driver.allocator.identity import DeviceId
from driver.allocator.pools import CounterKey, PooledDevice
from driver.budget import check
from driver.explain.judge.constraints import ConstraintChecker
from driver.explain.judge.device_filter import FilteredDevices

__all__ = ["is_obvious"]

_Charge = tuple[tuple[str, str], CounterKey]
"""A counter of a pool."""


def is_obvious(
    demands: Sequence[ClaimDemand], by_demand: Mapping[tuple[int, str], FilteredDevices], checker: ConstraintChecker
) -> bool:
    """Whether the first free devices serve all requests at once, which then needs no search.

    False may be wrong; then a search decides. Requests may be under one matchAttribute each, or under none.

    Args:
        demands: What the claims ask for.
        by_demand: The devices for the demands on the node, by the claim's place and the demand's name.
        checker: Has the values of attributes.
    """
    taken: set[DeviceId] = set()
    charged: set[_Charge] = set()
    for place, claim in enumerate(demands):
        if sum(request.alternatives[0].count or MAX_RESULTS for request in claim.requests) > MAX_RESULTS:
            return False
        groups: dict[Constraint | None, list[FilteredDevices]] = {}
        for request in claim.requests:
            demand = request.alternatives[0]
            filtered = by_demand[place, demand.name]
            holding = [constraint for constraint in claim.constraints if constraint.applies_to(demand)]
            if len(request.alternatives) > 1 or not demand.count or demand.admin or filtered.failures:
                return False
            if len(holding) > 1 or any(constraint.distinct for constraint in holding):
                return False
            groups.setdefault(holding[0] if holding else None, []).append(filtered)
        for constraint, group in groups.items():
            if not _serve(checker, constraint, group, taken, charged):
                return False
    return True


def _serve(
    checker: ConstraintChecker,
    constraint: Constraint | None,
    group: Sequence[FilteredDevices],
    taken: set[DeviceId],
    charged: set[_Charge],
) -> bool:
    """Take the first free devices for the demands of ``group``: of one value where a constraint says so."""
    if constraint is None:
        return _take(group, [filtered.free for filtered in group], taken, charged)
    valued = [
        [(device, checker.values(device, constraint.attribute)) for device in filtered.free] for filtered in group
    ]
    tried: set[tuple[str, int | bool | str]] = set()
    for _, values in valued[0]:
        for value in values - tried:
            tried.add(value)
            check()
            devices = [[device for device, has in of_demand if value in has] for of_demand in valued]
            if _take(group, devices, taken, charged):
                return True
    return False


def _take(
    group: Sequence[FilteredDevices],
    devices: Sequence[Sequence[PooledDevice]],
    taken: set[DeviceId],
    charged: set[_Charge],
) -> bool:
    """Take for each demand the first of its devices that were not taken; all or nothing."""
    now: set[DeviceId] = set()
    counters: set[_Charge] = set()
    for filtered, candidates in zip(group, devices, strict=True):
        need = filtered.need
        if need > len(candidates):
            return False
        for device in candidates:
            if device.id in taken or device.id in now:
                continue
            # Two devices that charge one counter may be too many for it: that is left to the search.
            wanted = [(device.id[:2], key) for key in device.counters]
            if not (charged.isdisjoint(wanted) and counters.isdisjoint(wanted)):
                continue
            now.add(device.id)
            counters.update(wanted)
            need -= 1
            if not need:
                break
        if need:
            return False
    taken |= now
    charged |= counters
    return True
