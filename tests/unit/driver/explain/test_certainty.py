"""An answer that an object which could not be read may change says so, and no other answer does."""

from __future__ import annotations

import pytest

from driver.errors import InputError
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.explain.tell.report import report_text
from driver.explain.tell.summary import summary
from tests.unit.driver.explain.builders import (
    Json,
    allocated,
    claim_wire,
    class_wire,
    cluster,
    device_wire,
    exactly,
    held_wire,
    node_wire,
    pod_wire,
    slice_wire,
    taint_rule_wire,
)

CLAIM = ObjectRef(kind="ResourceClaim", namespace="ml", name="train")
POD = ObjectRef(kind="Pod", namespace="ml", name="train-0")
OLD = "the dump has it as resource.k8s.io/v1beta1"


def world(*more: Json) -> ClusterState:
    """A node with two devices, a claim for one of them, and its pod."""
    return cluster(
        node_wire("n1"),
        slice_wire("n1", device_wire("gpu-0"), device_wire("gpu-1")),
        class_wire("any"),
        claim_wire("train", exactly("g", "any")),
        pod_wire("train-0", "train"),
        *more,
    )


def taken() -> list[Json]:
    """All devices are in use."""
    return [held_wire("a", "gpu-0", user="a-0"), held_wire("b", "gpu-1", user="b-0")]


def corrupt_claim(**allocation: object) -> Json:
    wire = claim_wire("broken", exactly("g", "any"), namespace="other", allocation=allocated("n1", "gpu-0"))
    wire["status"]["allocation"] |= {"devices": {"results": [{"driver": "d", "pool": 5, "device": "x"}]}} | allocation
    return wire


def explained(state: ClusterState, subject: ObjectRef = CLAIM) -> Explanation:
    return Explainer(state, proposals=False).explain(subject)


def first_line(explanation: Explanation) -> str:
    return report_text(explanation, width=200).splitlines()[0]


def test_with_nothing_left_out_both_answers_are_known() -> None:
    assert (explained(world()).fits, explained(world()).is_known) == (True, True)
    refused = explained(world(*taken()))
    assert (refused.fits, refused.is_known, refused.reason) == (False, True, Reason.DEVICES_IN_USE)


def test_a_claim_that_cannot_be_read_may_have_the_device_that_looks_free() -> None:
    found = explained(world(corrupt_claim()))
    assert (found.reason, found.fits, found.is_known) == (Reason.OBJECT_UNREADABLE, False, False)
    message = found.findings[0].message
    assert "room on 1 node" in message
    assert "ResourceClaim other/broken could not be read and may have devices" in message
    assert first_line(found) == "claim ml/train: not known whether it fits: ObjectUnreadable"


def test_what_was_left_out_is_named_without_its_own_words_for_they_are_others() -> None:
    wire = corrupt_claim()
    wire["status"]["allocation"]["devices"]["results"][0]["pool"] = ["secret-project"]
    found = explained(world(wire))
    assert not any("secret-project" in finding.message for finding in found.findings)


def test_a_claim_that_cannot_be_read_and_has_nothing_changes_nothing() -> None:
    wire = corrupt_claim()
    wire["status"] = {"reservedFor": 3}
    state = world(wire)
    assert state.left_out.why(Kind.CLAIM, "other/broken") != ""
    assert explained(state).reason is Reason.FITS


def test_a_claim_that_cannot_be_read_does_not_make_room_where_there_is_none() -> None:
    found = explained(world(*taken(), corrupt_claim()))
    assert (found.reason, found.is_known) == (Reason.DEVICES_IN_USE, True)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(slice_wire("n2", {"name": 3}), id="a slice"),
        pytest.param({"kind": "Node", "metadata": {"name": "n2"}, "spec": {"taints": 3}}, id="a node"),
    ],
)
def test_a_slice_or_node_that_cannot_be_read_may_have_room(broken: Json) -> None:
    found = explained(world(*taken(), broken))
    assert (found.reason, found.is_known) == (Reason.DEVICES_IN_USE, False)
    assert any(finding.reason is Reason.OBJECT_UNREADABLE for finding in found.findings)
    assert first_line(found) == "claim ml/train does not fit on the only node, as far as is known: DevicesInUse"
    assert summary(found).startswith("0 of 1 node fits, as far as is known: ")
    assert explained(world(broken)).fits


def test_a_taint_rule_that_cannot_be_read_may_taint_the_device_that_looks_free() -> None:
    broken = taint_rule_wire("r")
    broken["spec"]["taint"] = 3
    found = explained(world(broken))
    assert (found.reason, found.is_known) == (Reason.OBJECT_UNREADABLE, False)
    assert "DeviceTaintRule r could not be read and may taint devices" in found.findings[0].message


def test_an_answer_is_certain_again_once_the_object_can_be_read_or_is_gone() -> None:
    state = world(corrupt_claim())
    state.put(Kind.CLAIM, claim_wire("broken", exactly("g", "any"), namespace="other"))
    assert explained(state).fits
    state.put(Kind.CLAIM, corrupt_claim())
    assert not explained(state).is_known
    state.remove(Kind.CLAIM, "other/broken")
    assert explained(state).fits


def test_a_subject_that_could_not_be_read_is_not_said_to_be_missing() -> None:
    state = world()
    state.remove(Kind.CLAIM, "ml/train")
    state.remove(Kind.POD, "ml/train-0")
    state.leave_out(Kind.CLAIM, "ml/train", OLD)
    state.leave_out(Kind.POD, "ml/train-0", OLD)
    for subject in (CLAIM, POD):
        found = explained(state, subject)
        assert (found.reason, found.is_known) == (Reason.OBJECT_UNREADABLE, False)
        assert OLD in found.findings[0].message
    with pytest.raises(InputError, match="there is no claim ml/other"):
        explained(state, ObjectRef(kind="ResourceClaim", namespace="ml", name="other"))


@pytest.mark.parametrize(("kind", "key"), [(Kind.CLAIM, "ml/train"), (Kind.CLASS, "any")], ids=["claim", "class"])
def test_what_a_pod_names_and_could_not_be_read_is_not_said_to_be_missing(kind: Kind, key: str) -> None:
    state = world()
    state.remove(kind, key)
    state.leave_out(kind, key, OLD)
    found = Explainer(state).explain(POD)
    assert (found.reason, found.is_known) == (Reason.OBJECT_UNREADABLE, False)
    assert OLD in found.findings[0].message
    assert not any(proposal.text.startswith("create ") for proposal in found.proposals)


def test_an_object_that_is_there_in_a_version_that_is_read_is_not_left_out() -> None:
    state = world()
    state.leave_out(Kind.CLAIM, "ml/train", OLD)
    state.leave_out(Kind.SLICE, "n1-rootport.dev", OLD)
    assert explained(state).fits
    later = ClusterState()
    later.leave_out(Kind.CLASS, "any", OLD)
    later.put(Kind.CLASS, class_wire("any"))
    assert later.left_out.why(Kind.CLASS, "any") == ""


def test_a_thousand_objects_that_cannot_be_read_are_one_short_sentence() -> None:
    broken = [corrupt_claim() | {"metadata": {"namespace": "x", "name": f"c{number}"}} for number in range(1000)]
    found = explained(world(*broken))
    assert "1000 ResourceClaims such as x/c0 could not be read" in found.findings[0].message
    assert len(found.notes) == 6
