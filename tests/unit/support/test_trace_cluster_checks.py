"""What the bench on a real control plane says about a cluster in which something is wrong, and in which nothing is."""

from __future__ import annotations

from typing import Any

from tests.bench.trace_cluster.checks import given_too_often, left_unbound

GPU = {
    "name": "gpu-0",
    "allowMultipleAllocations": True,
    "capacity": {"core": {"value": "100"}, "memory": {"value": "16000Mi"}},
}
SLICES = [{"spec": {"pool": {"name": "node-a"}, "devices": [GPU, {"name": "nic-0"}]}}]


def claim(name: str, device: str = "gpu-0", *, core: str = "", memory: str = "", pod: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {"pool": "node-a", "device": device}
    if core:
        result["consumedCapacity"] = {"core": core, "memory": memory}
    status: dict[str, Any] = {"allocation": {"devices": {"results": [result]}}}
    if pod:
        status["reservedFor"] = [{"name": pod}]
    return {"metadata": {"name": name}, "status": status}


def pod(name: str, *claims: str, node: str = "node-a") -> dict[str, Any]:
    entries = [{"name": "gpu", "resourceClaimName": each} for each in claims]
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "resourceClaims": entries}}


def test_shares_that_fill_a_gpu_are_right() -> None:
    halves = [claim(name, core="50", memory="8000Mi") for name in "ab"]
    assert [*given_too_often(halves, SLICES)] == []


def test_shares_of_more_than_a_gpu_are_told() -> None:
    shares = [claim("a", core="50", memory="8000Mi"), claim("b", core="51", memory="8000Mi")]
    assert [*given_too_often(shares, SLICES)] == ["node-a/gpu-0: 101 of 100 core in 2 claims"]


def test_a_device_that_cannot_be_shared_is_told_the_second_time() -> None:
    assert [*given_too_often([claim("a", "nic-0")], SLICES)] == []
    assert [*given_too_often([claim("a", "nic-0"), claim("b", "nic-0")], SLICES)] == ["node-a/nic-0: 2 claims have it"]


def test_a_device_that_nobody_publishes_is_told() -> None:
    assert [*given_too_often([claim("a", "gpu-9")], SLICES)] == ["node-a/gpu-9: is not published, 1 claims have it"]


def test_a_bound_pod_with_its_claim_is_right() -> None:
    assert [*left_unbound([claim("a", pod="p")], [pod("p", "a")])] == []


def test_an_allocated_claim_is_told_where_no_pod_has_it_or_its_pod_is_not_bound() -> None:
    assert [*left_unbound([claim("a")], [])] == ["claim a: allocated, and no bound pod has it"]
    waiting = pod("p", "a", node="")
    assert [*left_unbound([claim("a", pod="p")], [waiting])] == ["claim a: allocated, and no bound pod has it"]


def test_a_bound_pod_is_told_where_its_claim_is_not_allocated() -> None:
    without = {"metadata": {"name": "a"}, "status": {}}
    assert [*left_unbound([without], [pod("p", "a")])] == ["pod p: bound, and its claim is not allocated"]
