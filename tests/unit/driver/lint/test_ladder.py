"""A ladder of `rootport pairs` that somebody changed by hand is found out."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import ObjectMeta, ResourceClaim
from driver.api.validation.defaults import with_defaults
from driver.lint import lint_claim
from driver.lint.findings import LintCode
from driver.pairs import PairsRequest, Scope, claim_spec

SHAPES = [(1, 1), (2, 2), (4, 2), (2, 4), (3, 3)]


def claim(wire: object) -> ResourceClaim:
    return with_defaults(ResourceClaim.model_validate({"metadata": ObjectMeta(name="pairs"), "spec": wire}))


def codes(wire: object) -> list[LintCode]:
    return [finding.code for finding in lint_claim(claim(wire))]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("farthest", [Scope.ROOT, Scope.NUMA, Scope.NODE])
def test_what_rootport_pairs_writes_is_whole(shape: tuple[int, int], farthest: Scope) -> None:
    gpus, nics = shape
    spec = claim_spec(PairsRequest(gpus=gpus, nics=nics, scope=Scope.LADDER, farthest=farthest))
    assert codes(spec.to_wire()) == []


@pytest.mark.parametrize("place", range(8))
def test_each_constraint_is_missed_and_the_group_is_named(place: int) -> None:
    wire = claim_spec(PairsRequest(gpus=2, nics=2, scope=Scope.LADDER)).to_wire()
    del wire["devices"]["constraints"][8 + place]
    (finding,) = [one for one in lint_claim(claim(wire)) if one.code is LintCode.LADDER_CHANGED]
    assert finding.path == "spec.devices.requests[3].firstAvailable"
    assert "gpu-1 and nic-1 have the rungs" in finding.message
    assert "1 of its constraints" in finding.message


def test_other_prioritized_lists_are_no_ladder() -> None:
    wire = claim_spec(PairsRequest(gpus=1, nics=1, scope=Scope.LADDER)).to_wire()
    for request in wire["devices"]["requests"]:
        for number, part in enumerate(request["firstAvailable"]):
            part["name"] = f"part-{number}"
    del wire["devices"]["constraints"]
    assert LintCode.LADDER_CHANGED not in codes(wire)
