"""Which claims a pod has, and which pods are looked at when a claim changes."""

from __future__ import annotations

import pytest

from controller.cluster.pod_index import PodIndex
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer

A, B, C = (Consumer(name=name, uid=f"uid-{name}") for name in "abc")


class Claims:
    """What the controller's cache knows of claims."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[ClaimAllocation, ...]] = {}
        self.looked_at: list[str] = []
        self.index = PodIndex(lambda key: self.given.get(key, ()), self.looked_at.append)

    def put(self, name: str, *pods: Consumer, device: str = "gpu-0000-10-00-0") -> set[str]:
        """A claim is given a device and is reserved for these pods; which pods are looked at."""
        key = f"default/{name}"
        former = self.given.get(key)
        self.given[key] = (allocation(name, device),)
        self.index.refresh(key, pods, is_allocation_changed=self.given[key] != former)
        return self._enqueued()

    def drop(self, name: str) -> set[str]:
        del self.given[f"default/{name}"]
        self.index.refresh(f"default/{name}", (), is_allocation_changed=True)
        return self._enqueued()

    def of(self, pod: Consumer) -> list[str]:
        found = self.index.pod(pod.uid)
        return [] if found is None else [item.claim for item in found.allocations]

    def _enqueued(self) -> set[str]:
        looked = set(self.looked_at)
        assert len(looked) == len(self.looked_at)
        self.looked_at.clear()
        return looked


def allocation(claim: str, device: str) -> ClaimAllocation:
    return ClaimAllocation(
        namespace="default",
        claim=claim,
        uid=f"uid-of-{claim}",
        request="r",
        pool="node-a",
        device=device,
        share_id="",
        core=None,
        memory_bytes=None,
        memory_ratio=None,
        isolation=None,
    )


@pytest.fixture
def claims() -> Claims:
    return Claims()


def test_a_pod_has_what_all_its_claims_have(claims: Claims) -> None:
    claims.put("nic", A)
    claims.put("gpu", A, B)
    assert (claims.of(A), claims.of(B), claims.of(C)) == (["gpu", "nic"], ["gpu"], [])
    found = claims.index.pod(A.uid)
    assert found is not None
    assert found.pod == A


def test_a_change_of_devices_is_a_matter_of_all_the_claims_pods(claims: Claims) -> None:
    assert claims.put("gpu", A, B) == {A.uid, B.uid}
    assert claims.put("gpu", A, B) == set()
    assert claims.put("gpu", A, B, device="gpu-0000-11-00-0") == {A.uid, B.uid}


def test_only_a_pod_that_comes_or_goes_is_enqueued(claims: Claims) -> None:
    claims.put("gpu", A)
    assert claims.put("gpu", A, B) == {B.uid}
    assert claims.put("gpu", B, C) == {A.uid, C.uid}
    assert (claims.of(A), claims.of(B), claims.of(C)) == ([], ["gpu"], ["gpu"])


def test_a_claim_that_is_gone_is_forgotten(claims: Claims) -> None:
    claims.put("gpu", A)
    claims.put("nic", A, B)
    assert claims.drop("gpu") == {A.uid}
    assert (claims.of(A), claims.of(B)) == (["nic"], ["nic"])
    assert claims.drop("nic") == {A.uid, B.uid}
    assert (claims.of(A), claims.of(B)) == ([], [])
