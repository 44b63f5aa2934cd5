"""What is pending in a cluster."""

from __future__ import annotations

from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.judge.pending import pending_subjects
from driver.explain.known.state import ClusterState
from driver.explain.tell.summary import short_answer
from tests.unit.driver.explain.builders import (
    allocated,
    claim_wire,
    class_wire,
    cluster,
    exactly,
    node_wire,
    pod_wire,
    slice_wire,
)


def names(state: ClusterState, namespace: str | None = None, kind: str = "") -> list[str]:
    return [str(ref) for ref in pending_subjects(state, namespace=namespace, kind=kind)]


def a_cluster() -> ClusterState:
    waits = [{"name": "c", "state": {"waiting": {"reason": "CreateContainerError", "message": "no such CDI device"}}}]
    return cluster(
        claim_wire("a", exactly("r", "any")),
        claim_wire("b", exactly("r", "any"), namespace="batch"),
        claim_wire("alone", exactly("r", "any")),
        claim_wire("done", allocation=allocated("n1", "gpu-0")),
        pod_wire("p1", "a"),
        pod_wire("p2", "a"),
        pod_wire("q", "b", namespace="batch"),
        pod_wire("plain"),
        pod_wire("plugin", containers=[{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]),
        pod_wire("ended", "alone", phase="Succeeded"),
        pod_wire("runs", "done", node="n1", phase="Running"),
        pod_wire("stuck", "done", node="n1", status={"containerStatuses": waits}),
    )


def test_pods_that_wait_for_devices_are_pending_and_claims_that_no_pod_waits_for() -> None:
    assert names(a_cluster()) == [
        "pod batch/q",
        "pod ml/p1",
        "pod ml/p2",
        "pod ml/plugin",
        "pod ml/stuck",
        "claim ml/alone",
    ]


def test_a_namespace_or_a_kind_can_be_chosen() -> None:
    state = a_cluster()
    assert names(state, "batch") == ["pod batch/q"]
    assert names(state, kind="ResourceClaim") == ["claim batch/b", "claim ml/a", "claim ml/alone"]
    assert names(state, "ml", "Pod") == ["pod ml/p1", "pod ml/p2", "pod ml/plugin", "pod ml/stuck"]


def test_the_short_answer_says_on_how_many_nodes_it_fits_or_what_else_is_wrong_and_is_never_longer() -> None:
    state = cluster(
        node_wire("n1"),
        node_wire("n2", unschedulable=True),
        class_wire("any"),
        claim_wire("a", exactly("r", "any")),
        claim_wire("b", exactly("r", "none")),
        pod_wire("p", "a"),
    )
    explainer = Explainer(state)
    claim = explainer.explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="a"))
    assert short_answer(claim, most=100) == "0 of 2 nodes fit, n1 lacks 1 device; 1 NodeUnschedulable"
    assert short_answer(claim, most=20) == "0 of 2 nodes fit, n…"
    other = explainer.explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="b"))
    assert short_answer(other, most=100).startswith("claim ml/b names DeviceClass none, which is not there")


def test_a_node_on_which_a_selector_fails_is_not_said_to_lack_devices() -> None:
    state = cluster(
        node_wire("n1"),
        slice_wire("n1", {"name": "d"}),
        class_wire("any"),
        claim_wire("a", exactly("r", "any", 'device.attributes["rootport.dev"].nope == 7')),
    )
    answer = Explainer(state).explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="a"))
    assert short_answer(answer, most=100) == "0 of 1 node fits, on n1 a selector ends with an error"
