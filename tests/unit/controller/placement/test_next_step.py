"""What is next about a claim and a pod, in every state that a process may have left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.placement.next_step import ClaimStep, ClaimUse, PodStep, Reason, claim_step, pod_step
from controller.placement.records import ClaimRecord, PlacementNote
from driver.model.managed_nodes import GATE

OWN = "me"
NOTE = PlacementNote(by=OWN, pod_uid="p", node="n1")
ANNOUNCED = ClaimRecord(key="team/c", uid="c", version=5, note=NOTE)
ALLOCATED = replace(ANNOUNCED, is_allocated=True, tolerates_managed_taint=True, pool="n1")
WANTED = ClaimUse(is_wanted=True)
UNWANTED = ClaimUse(is_wanted=False, unwanted_for_s=5)
KEEP, TAKE_BACK, CLEAR = ClaimStep.KEEP, ClaimStep.TAKE_BACK, ClaimStep.CLEAR


@pytest.mark.parametrize(
    ("record", "use", "step", "reason"),
    [
        pytest.param(ANNOUNCED, WANTED, KEEP, None, id="announced by this process for a pod that waits"),
        pytest.param(ANNOUNCED, UNWANTED, CLEAR, None, id="announced for a pod that is gone"),
        pytest.param(replace(ANNOUNCED, note=replace(NOTE, by="other")), WANTED, CLEAR, None, id="by a former leader"),
        pytest.param(ALLOCATED, WANTED, KEEP, None, id="allocated for a pod that waits"),
        pytest.param(
            replace(ALLOCATED, note=replace(NOTE, by="other")),
            WANTED,
            KEEP,
            None,
            id="the same by a former leader",
        ),
        pytest.param(ALLOCATED, UNWANTED, TAKE_BACK, Reason.POD_GONE, id="its pod is gone"),
        pytest.param(
            ALLOCATED, ClaimUse(is_wanted=False, unwanted_for_s=1), KEEP, None, id="its pod may only not be seen yet"
        ),
        pytest.param(replace(ALLOCATED, is_reserved=True), UNWANTED, KEEP, None, id="reserved: others end that"),
        pytest.param(replace(ALLOCATED, is_deleting=True), UNWANTED, KEEP, None, id="being deleted: others end that"),
        pytest.param(
            replace(ALLOCATED, tolerates_managed_taint=False), UNWANTED, CLEAR, None, id="allocated by kube-scheduler"
        ),
        pytest.param(replace(ALLOCATED, pool="n2"), UNWANTED, CLEAR, None, id="allocated by hand, for another node"),
        pytest.param(
            ALLOCATED,
            ClaimUse(is_wanted=True, node_unusable_for_s=3),
            TAKE_BACK,
            Reason.NODE_UNUSABLE,
            id="its node is cordoned",
        ),
        pytest.param(
            ALLOCATED,
            ClaimUse(is_wanted=True, is_given_twice=True),
            TAKE_BACK,
            Reason.GIVEN_TWICE,
            id="another claim has its device",
        ),
        pytest.param(
            ALLOCATED, ClaimUse(is_wanted=True, node_unusable_for_s=1), KEEP, None, id="cordoned a moment ago"
        ),
        pytest.param(
            ALLOCATED, ClaimUse(is_wanted=True, refused_for_s=61), TAKE_BACK, Reason.UNUSED, id="refused for a minute"
        ),
        pytest.param(ALLOCATED, ClaimUse(is_wanted=True, held_for_s=300), KEEP, None, id="no word of the scheduler"),
        pytest.param(
            ALLOCATED, ClaimUse(is_wanted=True, held_for_s=901), TAKE_BACK, Reason.UNUSED, id="for a quarter of an hour"
        ),
    ],
)
def test_a_claim(record: ClaimRecord, use: ClaimUse, step: ClaimStep, reason: Reason | None) -> None:
    assert claim_step(record, use, own=OWN) == (step, reason)


BARE = ClaimRecord(key="team/c", uid="c", version=1)


@pytest.mark.parametrize(
    ("gates", "claims", "step"),
    [
        pytest.param([GATE], [BARE], PodStep.PLACE, id="at the gate"),
        pytest.param([], [BARE], PodStep.PLACE, id="without a gate"),
        pytest.param([GATE, "example.com/quota"], [BARE], PodStep.WAIT, id="others hold it"),
        pytest.param([GATE, "example.com/quota"], [ALLOCATED], PodStep.WAIT, id="others hold it, allocated or not"),
        pytest.param([GATE], [BARE, None], PodStep.WAIT, id="a claim is not made yet"),
        pytest.param([GATE], [replace(BARE, is_deleting=True)], PodStep.WAIT, id="a claim goes"),
        pytest.param([GATE], [ALLOCATED, BARE], PodStep.PLACE, id="one of two was allocated"),
        pytest.param([GATE], [ALLOCATED], PodStep.UNGATE, id="allocated, and not let through"),
        pytest.param([], [ALLOCATED], PodStep.WAIT, id="done"),
    ],
)
def test_a_pod(gates: list[str], claims: list[ClaimRecord | None], step: PodStep) -> None:
    assert pod_step(gates, claims) is step
