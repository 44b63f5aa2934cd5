"""The Event on a pod whose GPU and NIC could have been nearer, and which pods a claim is reserved for."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from driver.model.alignment import Misalignment, misalignments
from driver.objects.alignment_events import alignment_event, alignment_note, far_pairs, last_rung_note
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer, consumers
from tests.support.machines import gpu, nic, node

POD = Consumer(name="train-0", uid="1c5a0f5e-8a55-4b5e-9d5e-0d2f3c4b5a69")
NODE = node(gpu("10", 0, "f0"), gpu("11", 0, "f0"), nic("18", 0, "f0"), nic("19", 0, "f0"), nic("28", 1), nic("29", 1))
GPU, NIC, NEAR = "gpu-0000-10-00-0", "rdma-0000-28-00-0", "rdma-0000-18-00-0"


def allocation(device: str, request: str, claim: str = "pair") -> ClaimAllocation:
    return ClaimAllocation(
        namespace="team",
        claim=claim,
        uid=f"uid-of-{claim}",
        request=request,
        pool="node-a",
        device=device,
        share_id="",
        core=None,
        memory_bytes=None,
        memory_ratio=None,
        isolation=None,
    )


def found(*buses: str) -> tuple[Misalignment, ...]:
    by_bus = {device.address[5:7]: device for device in NODE.devices()}
    return misalignments(NODE, [by_bus[bus] for bus in buses])


def note(*allocations: ClaimAllocation) -> str:
    return alignment_note(allocations, found("10", "28"))


def test_the_note_says_what_is_how_far_and_what_would_have_been_nearer() -> None:
    assert note(allocation(GPU, "gpu"), allocation(NIC, "nic")) == (
        f"GPU {GPU} and the nearest NIC that the pod was given, {NIC}, are SYS apart (the interconnect between NUMA "
        f"nodes, such as UPI or Infinity Fabric). Node node-a has {NEAR} at PIX, in use or not. In claim pair, the "
        "constraint {matchAttribute: rootport.dev/pcieSwitch, requests: [gpu, nic]} gives such a pair or lets the pod "
        "wait for one."
    )


def test_a_prioritized_request_is_meant_by_its_name() -> None:
    text = note(allocation(GPU, "gpu/large"), allocation(NIC, "nic/root"))
    assert "requests: [gpu, nic]}" in text


def test_of_two_claims_it_says_that_no_constraint_joins_them() -> None:
    text = note(allocation(GPU, "gpu", "mine"), allocation(NIC, "nic", "extended"))
    assert text.endswith(
        "They are of two claims, mine and extended, which no constraint can join: ask for both in one claim, with a "
        "constraint matchAttribute rootport.dev/pcieSwitch."
    )


def test_of_requests_for_several_devices_it_says_that_each_pair_needs_its_own() -> None:
    text = note(allocation(GPU, "gpus"), allocation("gpu-0000-11-00-0", "gpus"), allocation(NIC, "nic"))
    assert "one request for each GPU and each NIC" in text
    assert "'rootport pairs'" in text


def test_of_extended_resources_it_says_that_a_claim_of_the_pods_own_can_have_a_constraint() -> None:
    made = [
        replace(allocation(device, f"container-0-request-{at}"), is_extended=True)
        for at, device in enumerate((GPU, NIC))
    ]
    assert note(*made).endswith(
        "kube-scheduler made claim pair of the pod's extended resources, without a constraint: a claim that the pod "
        "names, for both, can have one with matchAttribute rootport.dev/pcieSwitch."
    )


def test_of_several_nics_in_a_claim_it_says_that_each_pair_needs_its_own() -> None:
    # Which of the NICs was meant for the GPU is not known.
    nics = [allocation(NIC, "nic-0"), allocation("rdma-0000-29-00-0", "nic-1")]
    assert "'rootport pairs'" in note(allocation(GPU, "gpu"), *nics)


def test_a_nic_of_the_gpus_own_claim_is_the_one_to_join_it_with() -> None:
    text = note(
        allocation(GPU, "gpu", "mine"), allocation("rdma-0000-29-00-0", "nic", "mine"), allocation(NIC, "x", "other")
    )
    assert "In claim mine, the constraint {matchAttribute: rootport.dev/pcieSwitch, requests: [gpu, nic]}" in text


def test_every_gpu_is_told_of() -> None:
    text = alignment_note(
        [allocation(f"gpu-0000-{bus}-00-0", f"gpu-{bus}") for bus in ("10", "11")]
        + [allocation(f"rdma-0000-{bus}-00-0", f"nic-{bus}") for bus in ("28", "29")],
        found("10", "11", "28", "29"),
    )
    assert text.endswith(f" Likewise gpu-0000-11-00-0 ({NIC} SYS, rdma-0000-19-00-0 PIX, rootport.dev/pcieSwitch).")


@pytest.mark.parametrize("gpus", [1, 2, 3, 8, 16, 64])
@pytest.mark.parametrize("length", [3, 63, 253])
def test_a_note_is_never_longer_than_the_api_server_takes(gpus: int, length: int) -> None:
    (one,) = found("10", "28")
    many = [replace(one, gpu=f"{one.gpu}-{number}") for number in range(gpus)]
    allocations = [allocation(item.gpu, "g" * min(length, 63), "c" * length) for item in many]
    text = alignment_note([*allocations, allocation(NIC, "nic", "d" * length)], many)
    assert len(text.encode()) <= 1024
    if length < 253:
        # The last ones are counted, not forgotten.
        told = text.count("pcieSwitch") + int(text.rpartition("and ")[2].partition(" ")[0] if "more" in text else 0)
        assert told == gpus
        assert text.endswith(".")


def test_the_event_is_one_for_the_pod() -> None:
    allocations = [allocation(GPU, "gpu"), allocation(NIC, "nic")]
    noon_in_berlin = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))

    def event(now: datetime) -> dict[str, Any]:
        return alignment_event(
            POD, allocations=allocations, found=found("10", "28"), instance="rootport-controller", now=now
        )

    made = event(noon_in_berlin)
    assert made["eventTime"] == "2026-03-01T11:00:00.000005Z"
    assert (made["reason"], made["type"]) == ("DevicesNotAligned", "Warning")
    assert made["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team",
        "name": "train-0",
        "uid": POD.uid,
    }
    assert made["metadata"] == {"name": f"devices-not-aligned.{POD.uid}", "namespace": "team"}
    assert event(datetime.now(UTC))["metadata"] == made["metadata"]
    json.dumps(made)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, [], id="no-status"),
        pytest.param({}, [], id="for-nobody"),
        pytest.param(
            {
                "reservedFor": [
                    {"resource": "pods", "name": "a", "uid": "1"},
                    {"resource": "pods", "name": "b", "uid": "2", "apiGroup": ""},
                ]
            },
            [("a", "1", False), ("b", "2", False)],
            id="pods",
        ),
        pytest.param(
            {
                "reservedFor": [
                    {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g", "uid": "1"},
                    {"resource": "pods", "name": "a", "uid": "2"},
                ]
            },
            [("g", "1", True), ("a", "2", False)],
            id="a-pod-group-and-a-pod",
        ),
        pytest.param(
            {
                "reservedFor": [
                    {"resource": "podgroups", "apiGroup": "example.com", "name": "a", "uid": "1"},
                    {"resource": "pods", "apiGroup": "example.com", "name": "b", "uid": "2"},
                ]
            },
            [],
            id="others",
        ),
    ],
)
def test_a_claim_is_reserved_for_pods_and_groups(
    status: dict[str, Any] | None, expected: list[tuple[str, str, bool]]
) -> None:
    claim = {"metadata": {"name": "c"}} | ({} if status is None else {"status": status})
    assert [(user.name, user.uid, user.is_group) for user in consumers(claim)] == expected


def rung(bus: str, request: str) -> ClaimAllocation:
    kind = "gpu" if request.startswith("gpu") else "rdma"
    return allocation(f"{kind}-0000-{bus}-00-0", request)


def test_what_a_ladders_last_rung_gave_is_told_whether_or_not_the_node_has_something_nearer() -> None:
    given = [rung("10", "gpu-0/switch"), rung("18", "nic-0/switch"), rung("11", "gpu-1/node"), rung("28", "nic-1/node")]
    far = far_pairs(NODE, given)
    assert [(pair.gpu, pair.nic) for pair in far] == [("gpu-0000-11-00-0", NIC)]
    event = alignment_event(POD, allocations=given, found=(), far=far, instance="c", now=datetime.now(UTC))
    assert event["reason"] == "DevicesNotAligned"
    assert event["note"] == (
        f"GPU gpu-0000-11-00-0 and its NIC, {NIC}, are SYS apart (the interconnect between NUMA nodes, such as UPI or "
        "Infinity Fabric): node node-a had nothing nearer left when claim pair was allocated, so they are on the last "
        "rung of its ladder. 'rootport pairs --farthest numa' writes a claim that waits instead."
    )


def test_nothing_is_told_of_nearer_rungs_or_of_a_node_that_reports_no_numa_nodes() -> None:
    assert far_pairs(NODE, [rung("10", "gpu-0/numa"), rung("28", "nic-0/numa")]) == ()
    flat = node(gpu("10", None), nic("28", None))
    assert far_pairs(flat, [rung("10", "gpu-0/node-no-numa"), rung("28", "nic-0/node-no-numa")]) == ()
    assert far_pairs(NODE, [rung("10", "gpu-0/node"), rung("77", "nic-0/node")]) == (), "the NIC is gone"


def test_a_note_on_many_last_rungs_is_not_too_long() -> None:
    pair = far_pairs(NODE, [rung("10", "gpu-0/node"), rung("28", "nic-0/node")])
    text = last_rung_note([rung("10", "gpu-0/node")], pair * 64)
    assert len(text.encode()) <= 1024
    assert text.endswith("more GPUs.")
