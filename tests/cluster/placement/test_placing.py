"""The controller allocates for managed nodes and kube-scheduler binds: both real, with the controller's own rights."""

from __future__ import annotations

import json

import pytest

from driver.adapters.kubernetes.resources import EVENTS_K8S_IO, PODS, RESOURCE_CLAIMS, JsonObject
from driver.model.managed_nodes import ANNOTATION, GATE, TAINT
from tests.cluster.placement.conftest import SPACE
from tests.support.cluster.placed_cluster import PlacedCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

FINALIZER = "resource.kubernetes.io/delete-protection"


def test_a_pod_is_placed_on_a_managed_node_and_told_why(cluster: PlacedCluster) -> None:
    cluster.add_node("m1")
    cluster.add_node("m2")
    cluster.controller()
    cluster.template("one")
    cluster.pod("p1", "one")
    assert cluster.wait_bound("p1") == {"p1": "m1"}
    (claim,) = cluster.claims_of("p1")
    allocation = claim["status"]["allocation"]
    (result,) = allocation["devices"]["results"]
    assert allocation["allocationTimestamp"]
    assert [item["key"] for item in result["tolerations"]] == [TAINT]
    assert FINALIZER in claim["metadata"]["finalizers"]
    told = json.loads(claim["metadata"]["annotations"][ANNOTATION])
    assert (told["node"], told["devices"], told["runnerUp"]) == ("m1", [result["device"]], "m2")
    assert "schedulingGates" not in cluster.api.get(PODS, "p1", namespace=SPACE)["spec"]

    def is_told() -> bool:
        events = cluster.api.list(EVENTS_K8S_IO, namespace=SPACE).items
        return any(item["reason"] == "Placed" and "m1" in item["note"] for item in events)

    eventually("an Event", is_told)


def test_the_claims_of_a_pod_are_placed_together(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", gpus=2)
    cluster.add_node("m2", gpus=4)
    cluster.controller()
    cluster.template("two", count=2)
    cluster.template("one")
    cluster.pod("p1", "two", "one")
    assert cluster.wait_bound("p1") == {"p1": "m2"}


def test_what_does_not_fit_waits_and_is_placed_once_there_is_room(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", gpus=1)
    cluster.controller()
    cluster.template("one")
    cluster.pod("first", "one")
    cluster.wait_bound("first")
    cluster.pod("second", "one")
    eventually("it is tried", lambda: cluster.controllers[0].logged("pod=team/second"))
    assert cluster.node_of("second") == ""
    cluster.delete_pod("first")
    assert cluster.wait_bound("second") == {"second": "m1"}


def test_a_claim_of_a_pod_that_goes_before_it_is_bound_is_given_back(cluster: PlacedCluster) -> None:
    cluster.add_node("m1")
    cluster.controller()
    cluster.claim("shared")
    # The scheduler never binds it: no node has that label; placement finds that out as well, so the label goes later.
    cluster.pod("p1", claims=("shared",), schedulerName="nobody")
    eventually("it is allocated", lambda: "allocation" in _claim(cluster).get("status", {}))
    cluster.delete_pod("p1")
    eventually("it is given back", lambda: "allocation" not in _claim(cluster).get("status", {}))
    eventually("nothing is left", lambda: not _claim(cluster)["metadata"].get("finalizers"))
    assert ANNOTATION not in _claim(cluster)["metadata"].get("annotations", {})


def test_a_pod_without_claims_goes_where_it_strands_no_gpu(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", gpus=1)
    cluster.add_node("m2", gpus=2)
    cluster.controller(policy="pack")
    cluster.template("one")
    cluster.pod("p1", "one", cpu="8")
    assert cluster.wait_bound("p1") == {"p1": "m1"}
    # The gate is written here, where a namespace with the label's value all-pods would have it.
    cluster.pod("p2", cpu="8", schedulingGates=[{"name": GATE}])
    assert cluster.wait_bound("p2") == {"p2": "m1"}
    cluster.pod("p3", cpu="8")
    assert cluster.wait_bound("p3") == {"p3": "m2"}  # so kube-scheduler does by itself: there is more CPU left


def test_a_pod_without_claims_that_fits_on_no_managed_node_is_left_to_the_scheduler(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", amounts={"cpu": "2", "memory": "8Gi", "pods": "10"})
    cluster.add_node("u1", managed=False)
    cluster.controller(policy="pack")
    cluster.pod("p1", cpu="8", schedulingGates=[{"name": GATE}])
    assert cluster.wait_bound("p1") == {"p1": "u1"}


def test_unmanaged_nodes_are_the_schedulers_when_no_managed_one_has_room(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", gpus=1)
    cluster.add_node("u1", gpus=1, managed=False)
    cluster.controller()
    cluster.template("one")
    for name in ("p1", "p2"):
        cluster.pod(name, "one")
    assert sorted(cluster.wait_bound("p1", "p2").values()) == ["m1", "u1"]


def test_turned_off_running_pods_stay_and_the_scheduler_takes_over(cluster: PlacedCluster) -> None:
    cluster.add_node("m1")
    cluster.controller()
    cluster.template("one")
    cluster.pod("p1", "one")
    cluster.wait_bound("p1")
    before = cluster.claims_of("p1")[0]["status"]
    cluster.manage("m1", managed=False)
    eventually("the taint goes", lambda: not cluster.is_tainted("m1"))
    cluster.pod("p2", "one")
    assert cluster.wait_bound("p2") == {"p2": "m1"}
    (claim,) = cluster.claims_of("p2")
    assert "tolerations" not in claim["status"]["allocation"]["devices"]["results"][0]
    assert cluster.claims_of("p1")[0]["status"] == before
    cluster.manage("m1")
    eventually("the taint comes", lambda: cluster.is_tainted("m1"))
    assert cluster.claims_of("p2")[0]["status"]["allocation"] == claim["status"]["allocation"]


def test_pods_without_the_gate_are_placed_as_well(cluster: PlacedCluster) -> None:
    cluster.add_node("m1")
    cluster.controller()
    cluster.template("one")
    namespace = ("label", "--overwrite", "namespace", SPACE)
    cluster.plane.kubectl(*namespace, "rootport.dev/placement=off")
    try:
        # The policy is evaluated with the namespace as the API server's watch shows it.
        eventually("no gate", lambda: not _is_gated(cluster))
        cluster.pod("p1", "one")
        assert cluster.wait_bound("p1") == {"p1": "m1"}
    finally:
        cluster.plane.kubectl(*namespace, "rootport.dev/placement=enabled")


def test_a_gpu_changes_its_mode_for_a_pod_at_the_gate(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", gpus=1)
    cluster.controller()
    cluster.template("part", mig="1g.10gb")
    cluster.pod("p1", "part")
    assert cluster.wait_bound("p1", timeout_s=90) == {"p1": "m1"}
    (claim,) = cluster.claims_of("p1")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["device"].startswith("mig-")


def _is_gated(cluster: PlacedCluster) -> bool:
    named = [{"name": "gpu", "resourceClaimName": "none"}]
    spec = {"containers": [{"name": "main", "image": "none"}], "resourceClaims": named}
    made = cluster.api.create(PODS, {"metadata": {"name": "trial", "namespace": SPACE}, "spec": spec}, dry_run=True)
    return bool(made["spec"].get("schedulingGates"))


def _claim(cluster: PlacedCluster) -> JsonObject:
    return cluster.api.get(RESOURCE_CLAIMS, "shared", namespace=SPACE)
