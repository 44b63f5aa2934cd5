"""Pods whose claims are made to take long: no round takes longer than it may, and pods of others have their turn."""

from __future__ import annotations

import gc
import time

import pytest

from controller.demand.turns import DemandPace
from driver.explain.known.cluster import Kind
from tests.support.claim_search import Recipe, all_in, wire
from tests.support.demand_world import gpu_request, mig_request
from tests.support.followed_world import FollowedWorld
from tests.support.paths import REPO

KEPT = REPO / "tests" / "data" / "worst-claims"
OVER_S = 0.5
"""What cannot be interrupted, on a machine that is busy."""
NODES, BAD = 12, 8


def worst_cluster(recipe: Recipe, *, request: str = "") -> FollowedWorld:
    """A cluster in which pods of one namespace wait with such claims, of classes of this driver."""
    cluster = FollowedWorld(nodes=NODES, gpus=8)
    state = cluster.shared._state
    for number in range(NODES):
        cluster.world.hold(f"held-{number}", f"n{number + 1}", number % 8, "gpu")
    for number in range(BAD):
        claim = wire(recipe, name=f"worst-{number}")
        claim["metadata"]["namespace"] = "bad"
        if request:
            for item in claim["spec"]["devices"]["requests"]:
                for part in item.get("firstAvailable") or [item["exactly"]]:
                    part["deviceClassName"] = request
        state.put(Kind.CLAIM, claim)
        state.put(
            Kind.POD,
            {
                "kind": "Pod",
                "metadata": {"namespace": "bad", "name": f"worst-{number}", "uid": f"worst-{number}"},
                "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": f"worst-{number}"}]},
                "status": {"phase": "Pending"},
            },
        )
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_", ["", "mig.rootport.dev", "gpu-ratio.rootport.dev"], ids=["as-is", "mig", "percent"]
)
@pytest.mark.parametrize("recipe", [pytest.param(recipe, id=name) for name, recipe in all_in(KEPT)])
def test_rounds_are_bounded_and_others_have_their_turn(recipe: Recipe, request_: str) -> None:
    cluster = worst_cluster(recipe, request=request_)
    cluster.look()
    cluster.world.wait("good", mig_request("1g.10gb"), namespace="good")
    cluster.look()
    gc.collect()
    gc.freeze()
    try:
        for _ in range(6):
            began = time.thread_time()
            cluster.look(after_s=6)
            assert time.thread_time() - began < DemandPace().round_s + OVER_S
    finally:
        gc.unfreeze()
    assert any(item.wish is not None for item in cluster.tracked() if item.pod.name == "good")


def test_a_pod_that_takes_too_long_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FollowedWorld(gpus=1, pace=DemandPace(pod_s=0.0))
    cluster.world.publish("n1", 0, "gpu-ratio")
    cluster.world.wait("p", gpu_request())
    cluster.look()
    for _ in range(4):
        cluster.look(after_s=6)
    (item,) = cluster.tracked()
    assert item.put_off == 1
    assert item.not_before > cluster.now + 200
