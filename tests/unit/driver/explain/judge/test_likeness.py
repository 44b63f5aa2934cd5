"""Nodes that are alike share a judgement; what each of them says is what it says when it is alone."""

from __future__ import annotations

from typing import Any

import pytest

from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.judge import device_judge
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.support.explain_cluster import classes, node_objects, pending_claim, pending_pairs, pending_pod

NODES = 12
CLAIMS = (
    pending_claim("in-use", count=8),
    pending_claim("no-such-model", model="H200"),
    pending_claim("uuid", count=2, same="rootport.dev/uuid"),
    pending_claim("numa", count=5, same="resource.kubernetes.io/numaNode"),
    pending_pairs("pairs", 3),
)


def explained(numbers: range, claim: dict[str, Any], *, mixed: bool) -> Explanation:
    state = ClusterState()
    for kind, wire in classes():
        state.put(kind, wire)
    for number in numbers:
        for kind, wire in node_objects(number, mixed=mixed):
            state.put(kind, wire)
    state.put(Kind.CLAIM, claim)
    state.put(Kind.POD, pending_pod(claim["metadata"]["name"]))
    subject = ObjectRef(kind="ResourceClaim", namespace="ml", name=claim["metadata"]["name"])
    return Explainer(state, proposals=False).explain(subject)


@pytest.mark.parametrize("mixed", [False, True], ids=["alike", "mixed"])
@pytest.mark.parametrize("claim", CLAIMS, ids=[claim["metadata"]["name"] for claim in CLAIMS])
def test_many_nodes_say_together_what_each_says_alone(
    claim: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, mixed: bool
) -> None:
    monkeypatch.setattr(device_judge, "_NODE_S", 60.0)  # a pause of the garbage collector counts, too
    together = explained(range(NODES), claim, mixed=mixed)
    alone = [explained(range(number, number + 1), claim, mixed=mixed) for number in range(NODES)]
    reasons = [group.reason for item in alone for group in item.groups]
    assert together.nodes_fitting == sum(item.nodes_fitting for item in alone)
    assert {group.reason: group.count for group in together.groups} == {key: reasons.count(key) for key in reasons}
    for number, funnel in enumerate(together.requests):
        last = [item.requests[number].steps[-1].left for item in alone]
        assert funnel.steps[-1].left == sum(last)


def test_a_node_that_is_used_otherwise_from_now_on_is_told_apart() -> None:
    state = ClusterState()
    for kind, wire in classes():
        state.put(kind, wire)
    for number in (0, 4):  # used alike: a claim has all
        for kind, wire in node_objects(number):
            state.put(kind, wire)
    claim = pending_claim("in-use", count=8)
    state.put(Kind.CLAIM, claim)
    state.put(Kind.POD, pending_pod("in-use"))
    subject = ObjectRef(kind="ResourceClaim", namespace="ml", name="in-use")
    explainer = Explainer(state)
    assert explainer.explain(subject).nodes_fitting == 0
    state.remove(Kind.CLAIM, "batch/gpu-00004-0")
    assert explainer.explain(subject).nodes_fitting == 1
    state.put(*node_objects(4)[-1])
    assert explainer.explain(subject).nodes_fitting == 0
