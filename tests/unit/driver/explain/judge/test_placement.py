"""Whether a pod could be on a node, whatever its devices."""

from __future__ import annotations

import time
from typing import Any

import pytest

from driver.budget import Budget
from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.judge.placement import node_refusal
from driver.explain.known.cluster import NodeState
from driver.explain.known.pod_reading import read_pod
from driver.explain.known.reading import read_claim_state, read_node
from driver.explain.reasons import Reason
from tests.unit.driver.explain.builders import (
    allocated,
    claim_wire,
    class_wire,
    cluster,
    device_wire,
    exactly,
    node_wire,
    pod_wire,
    slice_wire,
)

Json = dict[str, Any]
GPU_TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def verdict(pod: Json | None, node: NodeState, *claims: Json) -> Reason | None:
    found = node_refusal(
        read_pod(pod) if pod is not None else None, node, [read_claim_state(claim) for claim in claims]
    )
    return found.reason if found is not None else None


def node(*taints: Json, ready: str = "True", cordoned: bool = False, **labels: str) -> NodeState:
    wire = node_wire("n1", ready=ready, taints=list(taints), labels=labels)
    wire["spec"]["unschedulable"] = cordoned
    return read_node(wire)


def test_a_pod_without_wishes_can_be_on_a_node_without_taints() -> None:
    assert verdict(pod_wire("p"), node()) is None


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        pytest.param([], False, id="none"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], True, id="exists"),
        pytest.param([{"key": "gpu", "operator": "Equal", "value": "only"}], True, id="equal"),
        pytest.param([{"key": "gpu", "value": "only"}], True, id="no operator means equal"),
        pytest.param([{"key": "gpu", "value": "other"}], False, id="another value"),
        pytest.param([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], False, id="another effect"),
        pytest.param([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}], True, id="its effect"),
        pytest.param([{"operator": "Exists"}], True, id="everything"),
        pytest.param([{"key": "gpu", "operator": "Gt", "value": "1"}], False, id="a gate that is off"),
    ],
)
def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(tolerations: list[Json], fits: bool) -> None:
    found = verdict(pod_wire("p", tolerations=tolerations), node(GPU_TAINT))

    assert found is (None if fits else Reason.NODE_TAINTED)


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    assert verdict(pod_wire("p"), node(GPU_TAINT | {"effect": "PreferNoSchedule"})) is None


def test_all_taints_that_are_in_the_way_are_told() -> None:
    found = node_refusal(read_pod(pod_wire("p")), node(GPU_TAINT, {"key": "b", "effect": "NoExecute"}), ())

    assert found is not None
    assert "gpu=only:NoSchedule, b:NoExecute" in found.message


def test_a_cordoned_node_takes_only_pods_that_tolerate_that() -> None:
    tolerant = pod_wire("p", tolerations=[{"key": CORDONED["key"], "operator": "Exists"}])

    assert verdict(pod_wire("p"), node(CORDONED, cordoned=True)) is Reason.NODE_UNSCHEDULABLE
    assert verdict(pod_wire("p"), node(cordoned=True)) is Reason.NODE_UNSCHEDULABLE
    assert verdict(pod_wire("p"), node(CORDONED)) is Reason.NODE_UNSCHEDULABLE
    assert verdict(tolerant, node(CORDONED, cordoned=True)) is None


def test_a_node_that_is_not_ready_is_told_so_before_its_other_taints() -> None:
    found = node_refusal(read_pod(pod_wire("p")), node(GPU_TAINT, NOT_READY, ready="Unknown"), ())

    assert found is not None
    assert found.reason is Reason.NODE_NOT_READY
    assert "NodeStatusUnknown" in found.message


def test_the_tolerations_that_admission_gives_every_pod_do_not_let_it_on_a_node_that_is_not_ready() -> None:
    # DefaultTolerationSeconds adds them for NoExecute; the controller taints such nodes with NoSchedule as well.
    given = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]

    found = verdict(pod_wire("p", tolerations=given), node(NOT_READY, NOT_READY | {"effect": "NoSchedule"}))

    assert found is Reason.NODE_NOT_READY


def test_of_a_node_selector_of_thousands_of_labels_a_few_are_told() -> None:
    wanted = {f"key-{number:05}": "x" * 63 for number in range(10_000)}
    found = node_refusal(read_pod(pod_wire("p", nodeSelector=wanted)), node(zone="a"), ())

    assert found is not None
    assert "key-00000=" in found.message
    assert "and more, which node n1 does not have" in found.message
    assert len(found.message) < 500


def test_a_node_selector_leaves_out_nodes_with_other_labels() -> None:
    found = node_refusal(read_pod(pod_wire("p", nodeSelector={"zone": "b", "rack": "1"})), node(zone="a"), ())

    assert found is not None
    assert found.reason is Reason.NODE_AFFINITY
    assert found.message == "the pod's nodeSelector wants rack=1, zone=b, which node n1 does not have; it has zone=a"
    assert verdict(pod_wire("p", nodeSelector={"zone": "b"}), node(zone="b")) is None


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        pytest.param([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}], True, id="in"),
        pytest.param(
            [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}], False, id="not in"
        ),
        pytest.param([], False, id="no terms"),
        pytest.param([{}], False, id="an empty term"),
        pytest.param(
            [
                {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]},
                {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
            ],
            True,
            id="an invalid term beside one that matches",
        ),
        pytest.param([{"matchExpressions": [{"key": "zone", "operator": "Near"}]}], False, id="an invalid term alone"),
        pytest.param(
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True, id="its name"
        ),
    ],
)
def test_required_affinity_decides(terms: list[Json], fits: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    found = verdict(pod_wire("p", affinity={"nodeAffinity": required}), node(zone="a"))

    assert found is (None if fits else Reason.NODE_AFFINITY)


def test_an_allocated_claim_binds_its_pod_to_its_node() -> None:
    claim = claim_wire("c", allocation=allocated("n2", "gpu-0"))

    found = node_refusal(read_pod(pod_wire("p", "c")), node(), [read_claim_state(claim)])

    assert found is not None
    assert found.reason is Reason.CLAIM_ELSEWHERE
    assert found.message == "claim ml/c is allocated on node n2, not on node n1"
    assert found.claim is not None
    assert verdict(pod_wire("p", "c"), node(), claim_wire("c", allocation=allocated("n1", "gpu-0"))) is None


def test_a_claim_that_is_allocated_for_all_nodes_binds_its_pod_to_none() -> None:
    allocation = {"devices": allocated("net", "nic-0")["devices"]}

    assert verdict(pod_wire("p", "c"), node(), claim_wire("c", allocation=allocation)) is None


def test_without_a_pod_only_what_no_usual_pod_tolerates_decides() -> None:
    assert verdict(None, node(GPU_TAINT)) is None
    assert verdict(None, node(cordoned=True)) is Reason.NODE_UNSCHEDULABLE
    assert verdict(None, node(NOT_READY)) is Reason.NODE_NOT_READY


def test_as_many_tolerations_and_taints_as_requests_hold_cost_no_more_than_the_budget() -> None:
    taints = [{"key": f"gpu-{number}", "effect": "NoSchedule"} for number in range(10_000)]
    pod = pod_wire("p", "c", tolerations=[{"key": "other", "operator": "Exists"}] * 18_000)
    device = slice_wire("n1", device_wire("gpu-0"))
    state = cluster(
        class_wire("any"), claim_wire("c", exactly("r", "any")), pod, node_wire("n1", taints=taints), device
    )
    began = time.thread_time()
    found = Explainer(state).explain(ObjectRef(kind="Pod", namespace="ml", name="p"), budget=Budget(0.5))
    assert time.thread_time() - began < 2.0
    assert found.is_cut
