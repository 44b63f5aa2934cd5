"""What kube-scheduler cannot place after all: the next best follows, whoever has taken the allocation back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import NODES
from tests.cluster.placement.conftest import SPACE
from tests.support.cluster.placed_cluster import PlacedCluster
from tests.support.cluster.processes import Process
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go


@contextmanager
def paused(process: Process) -> Iterator[None]:
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def allocated_on(cluster: PlacedCluster, pod: str) -> list[str]:
    """The nodes of the claims of a pod."""
    found = [(claim.get("status") or {}).get("allocation") for claim in cluster.claims_of(pod)]
    return [item["devices"]["results"][0]["pool"] for item in found if item]


def volume_on(cluster: PlacedCluster, node: str) -> dict[str, Any]:
    """A volume that is on one node alone, of which placement knows nothing."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = common | {
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {"namespace": SPACE, "name": "data"},
    }
    wanted = common | {"volumeName": "data", "resources": {"requests": {"storage": "1Gi"}}}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    for body in (
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": SPACE, "annotations": bound},
            "spec": wanted,
        },
    ):
        cluster.plane.kubectl("apply", "--filename=-", input=json.dumps(body))
    uid = cluster.plane.kubectl("get", "pvc", "data", f"--namespace={SPACE}", "--output=jsonpath={.metadata.uid}")
    patch = json.dumps({"spec": {"claimRef": {"uid": uid}}})
    cluster.plane.kubectl("patch", "pv", "data", f"--patch={patch}")
    for what, place in (("pv", ()), ("pvc", (f"--namespace={SPACE}",))):
        patch = json.dumps({"status": {"phase": "Bound"}})
        cluster.plane.kubectl("patch", what, "data", *place, "--subresource=status", f"--patch={patch}")
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_where_the_scheduler_deallocates_the_next_best_follows(cluster: PlacedCluster) -> None:
    cluster.add_node("m1")
    cluster.add_node("m2")
    controller = cluster.controller()
    cluster.template("one")
    cluster.pod("p1", "one", "one", **volume_on(cluster, "m2"))
    try:
        assert cluster.wait_bound("p1", timeout_s=60) == {"p1": "m2"}
        assert controller.logged("kube-scheduler could not place a pod")
    finally:
        cluster.plane.kubectl("delete", "pvc/data", "pv/data", f"--namespace={SPACE}", "--wait=false", check=False)


def test_a_node_that_is_cordoned_before_the_pod_is_bound_is_left(cluster: PlacedCluster, scheduler: Process) -> None:
    cluster.add_node("m1")
    cluster.add_node("m2")
    cluster.controller()
    cluster.template("one")
    with paused(scheduler):
        cluster.pod("p1", "one", "one")
        eventually("it is allocated", lambda: allocated_on(cluster, "p1") == ["m1", "m1"])
        cluster.api.merge_patch(NODES, "m1", {"spec": {"unschedulable": True}})
        eventually("it moves", lambda: allocated_on(cluster, "p1") == ["m2", "m2"])
    assert cluster.wait_bound("p1") == {"p1": "m2"}


def test_the_only_node_is_given_again_once_it_is_usable(cluster: PlacedCluster, scheduler: Process) -> None:
    cluster.add_node("m1", gpus=1)
    cluster.controller()
    cluster.template("one")
    with paused(scheduler):
        cluster.pod("p1", "one")
        eventually("it is allocated", lambda: allocated_on(cluster, "p1") == ["m1"])
        taint = {"key": "example.com/drained", "effect": "NoSchedule"}
        cluster.api.merge_patch(NODES, "m1", {"spec": {"taints": [taint]}})
        eventually("it is given back", lambda: allocated_on(cluster, "p1") == [])
    cluster.api.merge_patch(NODES, "m1", {"spec": {"taints": None}})
    assert cluster.wait_bound("p1") == {"p1": "m1"}
