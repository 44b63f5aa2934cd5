"""For each way to hang: the real scheduler does not place the pod, explain says why, and what it proposes helps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.explain.explanation import ChangeKind
from tests.cluster.hangs.cases import CASES, POD, Hang
from tests.cluster.hangs.world import World, eventually, start_schedulers
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import MANIFESTS

_GATES = "DRADeviceTaintRules=true"


@pytest.fixture(scope="module")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with kube-scheduler, and of the controllers that which makes and clears up claims."""
    folder = tmp_path_factory.mktemp("hangs")
    with ControlPlane(
        folder / "control-plane",
        cluster_binaries,
        taint_rules=True,
    ) as plane:
        plane.kubectl("apply", f"--filename={MANIFESTS / 'device-classes.yaml'}")
        plane.kubectl("apply", f"--filename={MANIFESTS / 'crd'}")
        start_schedulers(plane, feature_gates=_GATES)
        yield plane


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reason_is_named_and_the_proposal_helps(world: World, case: Hang) -> None:
    world.create(*case.objects)
    for item in case.placed:
        world.create(item)
        if item["kind"] == "Pod":
            eventually(f"{item['metadata']['name']} is placed", lambda item=item: world.runs(item["metadata"]["name"]))
    world.create(*case.hanging)
    if case.before is not None:
        case.before(world)
    if case.tried:
        eventually("the scheduler tries it", lambda: world.hangs(POD))

    found = world.explain(*case.subject)

    assert found.reason is case.reason, found
    assert found.fits is case.fits
    for word in case.says:
        assert word in found.findings[0].message, (word, found)
    if isinstance(case.fix, ChangeKind):
        proposal = next(
            (item for item in found.proposals if item.kind is case.fix and item.verified is case.verified), None
        )
        assert proposal is not None, found.proposals
        world.apply(proposal, POD)
    else:
        case.fix(world)
    eventually(f"{POD} is placed after: {case.fix}", lambda: world.runs(POD))


def test_where_there_is_room_explain_says_so(world: World, tmp_path: Path) -> None:
    del tmp_path
    case = next(case for case in CASES if case.name == "pod-with-a-scheduling-gate")
    world.create(*case.objects, *case.hanging)
    world.patch("Pod", POD, {"spec": {"schedulingGates": None}})
    eventually("it is placed", lambda: world.runs(POD))
    assert world.explain("Pod", POD).fits
