"""Which claims are pending, as the list of them shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.api.claims import pending_answer
from controller.cluster.packed import pack
from controller.cluster.pending_annotations import MESSAGE, REASON
from controller.explanations.pending_claims import PendingClaim, PendingClaims
from controller.explanations.shared_state import SharedClusterState
from controller.serving.callers import Caller
from driver.adapters.http.exchange import Request
from driver.explain.known.cluster import EXTENDED_CLAIM


class Cluster:
    """A mirror, and how often it was said that something changed."""

    def __init__(self) -> None:
        self.state = SharedClusterState()
        self.told = 0
        self.pending = PendingClaims(self.state, changed=self._changed)
        self._version = 0

    def _changed(self) -> None:
        self.told += 1

    def claim(self, name: str, *, allocated: bool = False, said: dict[str, str] | None = None) -> None:
        self._version += 1
        metadata = {"namespace": "ml", "name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version)}
        metadata |= {"annotations": said} if said else {}
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
        result = {"request": "gpu", "driver": "rootport.dev", "pool": "n", "device": "gpu-0"}
        status: dict[str, Any] = {"allocation": {"devices": {"results": [result]}}} if allocated else {}
        wire = {"metadata": metadata, "spec": {"devices": {"requests": [request]}}, "status": status}
        self.state.put("ResourceClaim", f"ml/{name}", pack(wire))
        self.state.observe_claim(metadata)

    def device_class(self, name: str, resource: str) -> None:
        self.state.put(
            "DeviceClass", name, pack({"metadata": {"name": name}, "spec": {"extendedResourceName": resource}})
        )

    def asks(self, name: str, resource: str, *, node: str = "", claim: str = "") -> None:
        """A pod with an extended resource, once it has a node, or once the claim was made."""
        metadata = {"namespace": "ml", "name": name, "uid": f"uid-{name}"}
        spec = {"containers": [{"resources": {"requests": {resource: "1"}}}]} | ({"nodeName": node} if node else {})
        status = {"extendedResourceClaimStatus": {"resourceClaimName": claim}} if claim else {}
        self.state.put("Pod", f"ml/{name}", pack({"metadata": metadata, "spec": spec, "status": status}))

    def pod(self, name: str, claim: str) -> None:
        metadata = {"namespace": "ml", "name": name, "uid": f"uid-{name}"}
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}], "containers": []}
        self.state.put("Pod", f"ml/{name}", pack({"metadata": metadata, "spec": spec, "status": {}}))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_pending_claims_are_listed_with_their_pods_and_reasons(cluster: Cluster) -> None:
    cluster.claim("b", said={REASON: "DevicesInUse", MESSAGE: "all are in use"})
    cluster.claim("a")
    cluster.claim("c", allocated=True)
    cluster.pod("train-1", "b")
    cluster.pod("train-0", "b")
    cluster.pending.refresh()
    first, second = cluster.pending.claims
    assert first == PendingClaim(namespace="ml", name="a")
    assert second.to_wire() == {
        "namespace": "ml",
        "name": "b",
        "reason": "DevicesInUse",
        "message": "all are in use",
        "pods": ["train-0", "train-1"],
    }


def test_claims_that_are_made_with_a_pods_node_are_listed_before_they_are_there(cluster: Cluster) -> None:
    cluster.device_class("whole", "nvidia.com/gpu")
    cluster.asks("train-1", "nvidia.com/gpu")
    cluster.asks("train-0", "nvidia.com/gpu")
    cluster.asks("other", "example.com/fpga")
    cluster.claim("z")
    cluster.pending.refresh()
    assert [(item.name, item.pods) for item in cluster.pending.claims] == [
        (EXTENDED_CLAIM, ("train-0",)),
        (EXTENDED_CLAIM, ("train-1",)),
        ("z", ()),
    ]
    cluster.state.unmade.put("uid-train-1", {REASON: "DevicesInUse", MESSAGE: "all are in use"})
    cluster.pending.refresh()
    assert [(item.reason, item.message) for item in cluster.pending.claims[:2]] == [
        ("", ""),
        ("DevicesInUse", "all are in use"),
    ]
    cluster.asks("train-1", "nvidia.com/gpu", node="n")
    cluster.asks("train-0", "nvidia.com/gpu", claim="train-0-extended-resources-x7k")
    cluster.claim("train-0-extended-resources-x7k")
    cluster.pending.refresh()
    assert [item.name for item in cluster.pending.claims] == ["train-0-extended-resources-x7k", "z"]
    assert cluster.pending.claims[0].pods == ("train-0",)


def test_a_change_is_reported_once(cluster: Cluster) -> None:
    cluster.claim("a")
    for _ in range(3):
        cluster.pending.refresh()
    assert cluster.told == 1
    cluster.claim("a", said={REASON: "DevicesInUse", MESSAGE: "all are in use"})
    cluster.pending.refresh()
    assert cluster.told == 2
    cluster.claim("a", allocated=True)
    cluster.pending.refresh()
    assert (cluster.told, cluster.pending.claims) == (3, ())


@pytest.mark.parametrize(("may", "pods"), [(True, ["p"]), (False, [])], ids=["may-list-pods", "may-not"])
def test_pods_are_named_to_those_who_may_list_pods(may: bool, pods: list[str]) -> None:
    claims = [PendingClaim(namespace="ml", name="c", pods=("p",))]
    answer = pending_answer(lambda: claims, may_list_pods=lambda _: may)
    said = answer(Request(method="GET", path="/api/v1/claims/pending"), Caller(username="u"))
    assert json.loads(said.body) == {"claims": [{"namespace": "ml", "name": "c", "pods": pods}]}
