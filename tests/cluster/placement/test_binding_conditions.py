"""kube-scheduler waits for the devices of claims that placement has allocated as well, and placement finds others."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import NODE_INVENTORIES, RESOURCE_CLAIMS, JsonObject
from tests.cluster.placement.conftest import SPACE
from tests.support.cluster.placed_cluster import PlacedCluster
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.needs_go,
    pytest.mark.since_kubernetes(36, "the gate DRADeviceBindingConditions is off by default"),
]


def report(cluster: PlacedCluster, node: str, **status: Any) -> None:
    """Write the node's status as its plugin does."""
    cluster.api.merge_patch(NODE_INVENTORIES, node, {"status": status}, subresource="status")


def result(cluster: PlacedCluster, pod: str) -> JsonObject:
    """What the pod's claim has; empty while it has nothing."""
    for claim in cluster.claims_of(pod):
        allocation = claim.get("status", {}).get("allocation")
        if allocation:
            found: JsonObject = allocation["devices"]["results"][0]
            return found
    return {}


def put(cluster: PlacedCluster, pod: str, type_: str, reason: str) -> None:
    """Write a condition of the claim's device as the node's plugin does."""
    (claim,) = cluster.claims_of(pod)
    given = claim["status"]["allocation"]["devices"]["results"][0]
    condition = {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": "as the node's plugin says",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    device = {key: given[key] for key in ("driver", "pool", "device")} | {"conditions": [condition]}
    name = claim["metadata"]["name"]
    cluster.api.merge_patch(
        RESOURCE_CLAIMS, name, {"status": {"devices": [device]}}, namespace=SPACE, subresource="status"
    )


def test_a_placed_pod_is_bound_once_its_partition_is_prepared_and_placed_elsewhere_where_that_fails(
    cluster: PlacedCluster,
) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=1)
        report(cluster, name, preparesBeforeBinding=["mig"])
    cluster.controller("--gpu-layout=full")
    cluster.template("part", mig="1g.10gb")
    cluster.pod("early", "part")

    given = eventually("it is allocated", lambda: result(cluster, "early"), timeout_s=90)
    assert given["bindingConditions"] == ["Prepared"]
    first = given["pool"]
    (claim,) = cluster.claims_of("early")

    def announced(node: str) -> list[str]:
        listed = cluster.api.get(NODE_INVENTORIES, node)["status"].get("claimsToPrepare", [])
        return [item["uid"] for item in listed]

    eventually("the node is told", lambda: announced(first) == [claim["metadata"]["uid"]])
    time.sleep(7)  # kube-scheduler looks every five seconds
    assert cluster.node_of("early") == ""

    fault = {
        "device": "gpu-" + given["device"].removeprefix("mig-").partition("-1g")[0],
        "reason": "MigDeviceNotCreated",
        "effect": "NoSchedule",
        "since": "2026-01-01T00:00:00Z",
        "message": "no partition can be made",
    }
    report(cluster, first, faults=[fault])
    put(cluster, "early", "PreparationFailed", "MigDeviceNotCreated")
    others = (first, None)
    eventually("it is placed elsewhere", lambda: result(cluster, "early").get("pool") not in others, timeout_s=90)
    put(cluster, "early", "Prepared", "Prepared")

    second = result(cluster, "early")["pool"]
    assert cluster.wait_bound("early", timeout_s=60) == {"early": second}
