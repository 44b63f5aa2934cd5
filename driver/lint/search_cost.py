"""Estimates how many combinations kube-scheduler tries before it knows that a claim does not fit on a node.

Kubernetes' allocator (k8s.io/dynamic-resource-allocation v0.36.3, structured/internal/incubating, allocateOne) searches
depth first and remembers no failures. Devices of one request are tried in ascending order, so that a count of k takes
combinations; requests of their own are tried in every order, even where they are alike. A request that a constraint
ties to an earlier one of another class has hardly a choice of its own.

Measured with that allocator (docs/user/joint-allocation.md): 8 pairs of one scope 0.29 s = 40,320 orders, about 7 µs
each; a ladder of three pairs 33,000 steps, of four 450,000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from driver import DRIVER_NAME
from driver.api.resource_v1 import ResourceClaim
from driver.budget import check
from driver.layout.attributes import TYPE
from driver.lint.parts import Part, applies

__all__ = ["QUICK", "combinations"]

QUICK: Final = 150_000
"""Combinations that take about a second; the scheduler has 10 s for all nodes (DRASchedulerFilterTimeout)."""

_ENOUGH: Final = 10**9
_TYPE: Final = f"{DRIVER_NAME}/{TYPE}"


def combinations(claim: ResourceClaim, parts: Sequence[Part]) -> int:
    """Return an upper estimate for a node that has just too few devices; at most a billion, which is bad enough.

    Raises:
        SpentError: The budget in force is spent.
    """
    of_request: dict[str, list[Part]] = {}
    for part in parts:
        of_request.setdefault(part.request, []).append(part)
    # What all requests for a class take together: with fewer devices than that, the claim does not fit.
    needed: Counter[str] = Counter()
    for alternatives in of_request.values():
        needed[alternatives[0].spec.device_class_name] += alternatives[0].count or 0
    taken: Counter[str] = Counter()
    total = 1
    done: list[Part] = []
    for alternatives in of_request.values():
        check()
        choices = {part.name: _choices(claim, part, done, needed, taken) for part in alternatives}
        total *= max(sum(choices[part.name] for part in some) for some in _compatible(claim, alternatives, done)) or 1
        taken[alternatives[0].spec.device_class_name] += alternatives[0].count or 0
        done += alternatives
        if total > _ENOUGH:
            return _ENOUGH
    return total


def _choices(claim: ResourceClaim, part: Part, done: Sequence[Part], needed: Counter[str], taken: Counter[str]) -> int:
    if part.count is None or _is_tied(claim, part, done):
        return 1
    name = part.spec.device_class_name
    return _combinations_of(max(needed[name] - taken[name], part.count), part.count)


def _compatible(claim: ResourceClaim, alternatives: Sequence[Part], done: Sequence[Part]) -> list[list[Part]]:
    """Return the alternatives that are left by each alternative of an earlier request: a ladder's rungs do not mix."""
    never = [
        constraint
        for constraint in claim.spec.devices.constraints
        if constraint.match_attribute == _TYPE and any(applies(constraint, part) for part in alternatives)
    ]
    left = [list(alternatives)]
    for earlier in done:
        check()
        held = [constraint for constraint in never if applies(constraint, earlier)]
        some = [
            part
            for part in alternatives
            if part.kinds & earlier.kinds or not any(applies(constraint, part) for constraint in held)
        ]
        if len(some) < len(alternatives):
            left = [*(left if len(left[0]) < len(alternatives) else []), some]
    return left


def _combinations_of(devices: int, count: int) -> int:
    """Return the binomial coefficient, at most a billion: the whole number may be too long for memory."""
    found = 1
    fewer = min(count, devices - count)
    for step in range(1, fewer + 1):
        found = found * (devices - fewer + step) // step
        if found > _ENOUGH:  # after 30 steps at the latest: it is 2 to the power of the steps at least
            return _ENOUGH
    return found


def _is_tied(claim: ResourceClaim, part: Part, done: Sequence[Part]) -> bool:
    return any(
        constraint.match_attribute is not None
        and applies(constraint, part)
        and any(
            applies(constraint, earlier) and earlier.spec.device_class_name != part.spec.device_class_name
            for earlier in done
        )
        for constraint in claim.spec.devices.constraints
    )
