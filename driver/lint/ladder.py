"""Checks that a claim with a ladder of ``rootport pairs`` still has the constraints that make it one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, TypeAlias

from driver.api.resource_v1 import DeviceConstraint, DeviceRequest, ResourceClaim
from driver.budget import check
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.pairs import PairsRequest, Scope, claim_spec

__all__ = ["ladders"]

_Held: TypeAlias = tuple[frozenset[str], str | None, str | None]

_SHAPES: Final = tuple(
    PairsRequest(gpus=gpus, nics=1, scope=Scope.LADDER, farthest=farthest)
    for farthest in (Scope.ROOT, Scope.NUMA, Scope.NODE)
    for gpus in (1, 2)
)


def ladders(claim: ResourceClaim) -> Iterator[LintFinding]:
    """Find groups of a ladder that lack constraints, so that devices of two rungs may be given together.

    Raises:
        SpentError: The budget in force is spent.
    """
    devices = claim.spec.devices
    requests = {request.name: (index, request) for index, request in enumerate(devices.requests)}
    there = {_held(constraint) for constraint in devices.constraints}
    for name, (_, gpu) in requests.items():
        check()
        number = name.removeprefix("gpu-")
        index, nic = requests.get(f"nic-{number}", (0, None))
        if number == name or nic is None or _names(gpu) != _names(nic):
            continue
        expected = _expected().get(_names(gpu), frozenset())
        lacking = {_renamed(held, number) for held in expected} - there
        if lacking:
            yield LintFinding(
                code=LintCode.LADDER_CHANGED,
                severity=Severity.WARNING,
                path=f"spec.devices.requests[{index}].firstAvailable",
                message=(
                    f"{name} and {nic.name} have the rungs of rootport pairs, but {len(lacking)} of its constraints are"
                    " missing or changed: devices may be reported on a rung that they are not on"
                ),
                hint="write the claim again with rootport pairs; its constraints belong together",
            )


@cache
def _expected() -> dict[tuple[str, ...], frozenset[_Held]]:
    """Return the constraints of a ladder's first group, by the names of its alternatives."""
    found: dict[tuple[str, ...], frozenset[_Held]] = {}
    for shape in _SHAPES:
        devices = claim_spec(shape).devices
        found[_names(devices.requests[0])] = frozenset(_held(constraint) for constraint in devices.constraints)
    return found


def _names(request: DeviceRequest) -> tuple[str, ...]:
    return tuple(part.name for part in request.first_available)


def _held(constraint: DeviceConstraint) -> _Held:
    return frozenset(constraint.requests), constraint.match_attribute, constraint.distinct_attribute


def _renamed(held: _Held, number: str) -> _Held:
    """Return a constraint of group 0 for another group."""
    requests, match, distinct = held
    return frozenset(request.replace("-0/", f"-{number}/") for request in requests), match, distinct
