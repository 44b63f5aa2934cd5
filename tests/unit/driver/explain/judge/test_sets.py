"""Sets of devices that are to share a value each: what is told without a search is what a search says."""

from __future__ import annotations

from typing import Any

import pytest

from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.judge import device_judge
from driver.explain.judge.sets import too_many_sets
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.support.explain_cluster import classes, node_objects, pending_pairs, pending_pod

NODES = 60


def cluster(claim: dict[str, Any]) -> ClusterState:
    state = ClusterState()
    for kind, wire in classes():
        state.put(kind, wire)
    for number in range(NODES):
        for kind, wire in node_objects(number, mixed=True):
            state.put(kind, wire)
    state.put(Kind.CLAIM, claim)
    state.put(Kind.POD, pending_pod(claim["metadata"]["name"]))
    return state


@pytest.mark.parametrize("pairs", [2, 3, 4, 6])
def test_pairs_fit_where_a_search_finds_them(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    state = cluster(pending_pairs("pairs", pairs))
    wanted = state.claim("ml/pairs")
    assert wanted is not None
    assert wanted.claim is not None
    searched = Trial(state)
    fitting = sum(searched.fits(node, [wanted.claim]) for node in state.nodes.values())
    told: list[bool] = []

    def watched(*arguments: Any) -> bool:
        told.append(too_many_sets(*arguments))
        return told[-1]

    monkeypatch.setattr(device_judge, "too_many_sets", watched)
    subject = ObjectRef(kind="ResourceClaim", namespace="ml", name="pairs")
    explained = Explainer(state, proposals=False).explain(subject)
    assert explained.nodes_fitting == fitting
    assert 0 < fitting < NODES
    assert any(told)  # so that some nodes need no search


def test_a_device_that_several_sets_may_share_is_left_to_the_search() -> None:
    claim = pending_pairs("shares", 4)
    for request in claim["spec"]["devices"]["requests"]:
        if request["name"].startswith("gpu"):
            request["exactly"]["capacity"] = {"requests": {"core": "10"}}
            request["exactly"].pop("count", None)
    state = cluster(claim)
    wanted = state.claim("ml/shares")
    assert wanted is not None
    assert wanted.claim is not None
    searched = Trial(state)
    fitting = sum(searched.fits(node, [wanted.claim]) for node in state.nodes.values())
    subject = ObjectRef(kind="ResourceClaim", namespace="ml", name="shares")
    assert Explainer(state, proposals=False).explain(subject).nodes_fitting == fitting
