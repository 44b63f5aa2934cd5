"""Everything at once, at small size: nothing is lost, nothing given twice, and all that fits is placed in the end."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest

from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import NODES, PODS
from tests.cluster.placement.conftest import SPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.placed_cluster import PlacedCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

NODE_NAMES = tuple(f"m{number}" for number in range(6))
GPUS = 4


def test_chaos(cluster: PlacedCluster, placing: ControlPlane) -> None:
    chance = random.Random(19)
    for name in NODE_NAMES:
        cluster.add_node(name, gpus=GPUS)
    first = cluster.controller(policy="pack")
    second = cluster.controller(policy="pack", settled=False)
    cluster.template("one")
    cluster.template("half", core=50)
    kept: list[str] = []
    for number in range(100):  # deleted while they are being placed
        cluster.pod(f"gone-{number}", "one")
        if number % 5 == 0:
            kept.append(f"kept-{number}")
            cluster.pod(kept[-1], *(("one",) if number % 10 else ("half", "half")))
        if number == 40:
            first.kill()
        if number >= 10:
            cluster.delete_pod(f"gone-{number - 10}")
        if number % 15 == 0:
            _set(cluster, chance.choice(NODE_NAMES), unschedulable=True)
        if number % 15 == 10:
            _set(cluster, chance.choice(NODE_NAMES), taints=[{"key": "example.com/x", "effect": "NoSchedule"}])
    for number in range(90, 100):
        cluster.delete_pod(f"gone-{number}")
    eventually("the second one leads", lambda: second.logged("placement begins"), timeout_s=60)
    # A leader that cannot renew its Lease ends itself, and its Deployment starts another one.
    _pause_api_server(placing, 12.0)
    eventually("it has ended", lambda: second.process.poll() is not None)
    cluster.controller(policy="pack", settled=False)
    for name in NODE_NAMES:
        _set(cluster, name, unschedulable=None, taints=None)
    # Twenty pods, half of them with halves of GPUs: at most 24 GPUs.
    cluster.wait_bound(*kept, timeout_s=150)
    eventually("nothing is left of the others", lambda: _is_clean(cluster, kept), timeout_s=60)
    assert cluster.twice == [], cluster.twice
    on_nodes = Counter(cluster.bound().values())
    assert sum(on_nodes.values()) == len(kept)
    for pod in kept:
        node = cluster.node_of(pod)
        for claim in cluster.claims_of(pod):
            assert {item["pool"] for item in claim["status"]["allocation"]["devices"]["results"]} == {node}


def _set(cluster: PlacedCluster, node: str, **spec: object) -> None:
    cluster.api.merge_patch(NODES, node, {"spec": spec})


def _pause_api_server(plane: ControlPlane, seconds: float) -> None:
    """Stop the API server for a while: requests hang, and some that time out have been carried out."""
    os.kill(plane.api_server.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(plane.api_server.pid, signal.SIGCONT)


def _is_clean(cluster: PlacedCluster, kept: list[str]) -> bool:
    try:
        pods = {item["metadata"]["name"] for item in cluster.api.list(PODS, namespace=SPACE).items}
        owners = {claim["metadata"]["ownerReferences"][0]["name"] for claim in cluster.claims()}
    except ApiServerError:
        return False
    return pods == set(kept) and owners == set(kept)
