"""Pods that wait for Rootport's placement: what fits is judged as placement does, and who has to act is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import yaml

from controller.explanations.reports import PendingReport
from driver.explain.explainer import Explainer
from driver.explain.explanation import ChangeKind, Explanation, ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.explain.tell.report import report_text
from driver.explain.tell.summary import summary
from driver.model.managed_nodes import ANNOTATION, GATE, LEADER_ANNOTATION, TAINT
from resourceclasses import device_classes_text
from tests.unit.driver.explain.builders import (
    Json,
    allocated,
    claim_wire,
    class_wire,
    cluster,
    device_wire,
    exactly,
    held_wire,
    node_wire,
    pod_wire,
    slice_wire,
    taint_rule_wire,
)

CLASSES: Final[list[Json]] = list(yaml.safe_load_all(device_classes_text()))
GPUS: Final = "gpu.rootport.dev"
NOW: Final = datetime(2026, 11, 27, 12, 0, 0, tzinfo=UTC)
MANAGED: Final = {"key": TAINT, "effect": "NoSchedule"}
GATED: Final = {"schedulingGates": [{"name": GATE}]}


def machine(node: str, *taints: Json, count: int = 2) -> tuple[Json, Json]:
    """A node whose GPUs have these taints."""
    extra = {"taints": list(taints)} if taints else {}
    return node_wire(node), slice_wire(
        node,
        *(
            device_wire(f"gpu-{number}", type="gpu", sharingStrategy="timeSlicing", extra=extra)
            for number in range(count)
        ),
    )


def lease(
    *, holder: str = "rootport-controller-a", renewed: str = "2026-11-27T11:59:59.0Z", policy: str = "pack"
) -> Json:
    return {
        "kind": "Lease",
        "metadata": {
            "namespace": "rootport-system",
            "name": "rootport-controller",
            "annotations": {LEADER_ANNOTATION: f"{policy} rootport-controller-a"} if policy else {},
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }


def wants(*requests: Json, placed: str = "", **pod: Any) -> tuple[Json, Json]:
    claim = claim_wire("train", *(requests or (exactly("g", GPUS),)))
    if placed:
        claim["metadata"]["annotations"] = {ANNOTATION: placed}
    waiting = pod_wire("train-0", "train", **pod)
    waiting["metadata"]["creationTimestamp"] = "2026-11-27T11:59:55Z"
    return claim, waiting


def known(*objects: Json, clock: bool = True) -> ClusterState:
    state = cluster(*CLASSES, *objects)
    if clock:
        state.clock = lambda: NOW
    return state


def explained(*objects: Json, clock: bool = True, proposals: bool = False) -> Explanation:
    explainer = Explainer(known(*objects, clock=clock), proposals=proposals)
    return explainer.explain(ObjectRef(kind="Pod", namespace="ml", name="train-0"))


def test_a_claim_that_fits_on_a_managed_node_waits_for_the_controller() -> None:
    answer = explained(*machine("n1", MANAGED), *wants(), lease())
    assert (answer.reason, answer.fits, answer.nodes_fitting) == (Reason.WAITING_FOR_PLACEMENT, True, 1)
    assert "managed node n1" in answer.findings[0].message
    assert "created 5 s ago" in answer.findings[0].message
    assert "which is long" not in answer.findings[0].message


def test_a_long_wait_leads_to_the_controllers_log() -> None:
    claim, pod = wants()
    pod["metadata"]["creationTimestamp"] = "2026-11-27T11:50:00Z"
    answer = explained(*machine("n1", MANAGED), claim, pod, lease())
    assert "created 10 minutes ago, which is long" in answer.findings[0].message
    assert "kubectl -n rootport-system logs" in answer.findings[0].message


def test_a_dump_tells_no_times() -> None:
    answer = explained(*machine("n1", MANAGED), *wants(), lease(renewed="2020-01-01T00:00:00Z"), clock=False)
    assert answer.reason is Reason.WAITING_FOR_PLACEMENT
    assert "ago" not in answer.findings[0].message


def test_without_a_lease_in_a_dump_nobody_is_blamed_and_that_is_said() -> None:
    said = "whether a controller places is not known, for the Lease rootport-controller was not read"
    answer = explained(*machine("n1", MANAGED), *wants(), clock=False)
    assert answer.reason is Reason.WAITING_FOR_PLACEMENT
    assert said in answer.findings[0].message
    assert said not in explained(*machine("n1", MANAGED), *wants(), lease(), clock=False).findings[0].message


def test_that_devices_alone_were_looked_at_is_said() -> None:
    claim, pod = wants(**GATED)
    pod["spec"]["containers"] = [{"resources": {"requests": {"cpu": "500"}}}]
    message = explained(*machine("n1", MANAGED), claim, pod, lease()).findings[0].message
    assert "whether CPU, memory, ports and other pods leave room there is not looked at here" in message
    assert "`rootport place --dry-run --pod ml/train-0`" in message


def test_a_gated_pod_whose_claim_tolerates_the_taint_waits_for_its_gate_to_go() -> None:
    asked = exactly("g", GPUS, tolerations=[{"operator": "Exists"}])
    answer = explained(*machine("n1", MANAGED), *wants(asked, **GATED), lease())
    assert [item.reason for item in answer.findings] == [
        Reason.WAITING_FOR_PLACEMENT,
        Reason.MANAGED_TAINT_TOLERATED,
    ]
    assert answer.findings[0].message.startswith("kube-scheduler allocates the claims")


@pytest.mark.parametrize(
    ("leader", "said"),
    [
        (lease(holder=""), "its Lease is missing, or nobody holds it"),
        (lease(renewed="2026-11-27T11:40:00.123456Z"), "has not renewed its Lease since 11:40:00 UTC, 19 minutes ago"),
        (lease(policy=""), "--placement none, or is older"),
        (lease(holder="rootport-controller-b"), "rootport-controller-b, places nothing"),
    ],
    ids=["nobody leads", "the leader is gone", "the leader places nothing", "an older controller took over"],
)
def test_room_on_managed_nodes_is_of_no_use_while_no_controller_places(leader: Json, said: str) -> None:
    answer = explained(*machine("n1", MANAGED), *wants(), leader, proposals=True)
    assert (answer.reason, answer.fits, answer.is_known) == (Reason.PLACEMENT_NOT_RUNNING, False, True)
    assert said in answer.findings[0].message
    assert answer.findings[0].driver_fault
    (proposal,) = answer.proposals
    assert (proposal.kind, proposal.verified) == (ChangeKind.REPAIR_DRIVER, False)
    assert any(command.startswith("kubectl -n rootport-system get pods") for command in proposal.commands)
    assert "does not fit, although 1 of 1 node has room" in report_text(answer)


def test_a_lease_that_goes_leaves_nobody_to_place() -> None:
    state = known(*machine("n1", MANAGED), *wants(), lease())
    before = state.generation
    state.put(Kind.LEASE, lease(renewed="2026-11-27T11:59:59.9Z"))
    assert state.generation == before
    state.remove(Kind.LEASE, "rootport-system/rootport-controller")
    assert state.generation > before
    answer = Explainer(state).explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="train"))
    assert answer.reason is Reason.PLACEMENT_NOT_RUNNING


def test_leases_of_others_say_nothing() -> None:
    other = lease(holder="")
    other["metadata"]["name"] = "kube-scheduler"
    assert explained(*machine("n1", MANAGED), *wants(), lease(), other).reason is Reason.WAITING_FOR_PLACEMENT


def test_where_other_nodes_have_room_kube_scheduler_acts() -> None:
    answer = explained(*machine("n1", MANAGED), *machine("n2"), *wants(), lease(holder=""))
    assert (answer.reason, answer.fits, answer.nodes_fitting) == (Reason.FITS, True, 2)
    assert answer.findings[0].message == (
        "all devices are free on node n2: kube-scheduler has not come to it yet; and on managed node n1, where"
        " Rootport's placement allocates"
    )


def test_what_does_not_fit_on_a_managed_node_is_not_blamed_on_its_taint() -> None:
    taken = held_wire("other", "gpu-0", "gpu-1", user="o")
    answer = explained(*machine("n1", MANAGED), taken, *wants(), lease(), proposals=True)
    assert (answer.reason, answer.fits) == (Reason.DEVICES_IN_USE, False)
    assert TAINT not in report_text(answer)
    assert {proposal.kind for proposal in answer.proposals} == {ChangeKind.END_CLAIMS}


def test_other_taints_of_a_managed_device_count() -> None:
    unhealthy = {"key": "rootport.dev/unhealthy", "value": "Xid79", "effect": "NoSchedule"}
    answer = explained(*machine("n1", MANAGED, unhealthy), *wants(), lease(), proposals=True)
    assert answer.reason is Reason.DEVICE_TAINTED
    assert TAINT not in report_text(answer)
    assert not any(TAINT in str(patch.operations) for item in answer.proposals for patch in item.patches)


def test_a_rule_of_an_administrator_with_that_key_is_theirs() -> None:
    rule = taint_rule_wire("keep-off", key=TAINT, driver="rootport.dev")
    answer = explained(*machine("n1", MANAGED), rule, *wants(), lease())
    assert answer.reason is Reason.DEVICE_TAINTED
    assert "DeviceTaintRule keep-off" in answer.findings[0].message


def test_what_is_full_and_has_no_controller_has_both_said_the_devices_first() -> None:
    taken = held_wire("other", "gpu-0", "gpu-1", user="o")
    answer = explained(*machine("n1", MANAGED), taken, *wants(), lease(holder=""))
    assert [item.reason for item in answer.findings] == [Reason.DEVICES_IN_USE, Reason.PLACEMENT_NOT_RUNNING]


def test_the_gate_of_placement_keeps_nobody_from_judging_the_nodes() -> None:
    answer = explained(*machine("n1", MANAGED), *wants(**GATED), lease())
    assert (answer.reason, answer.nodes_fitting) == (Reason.WAITING_FOR_PLACEMENT, 1)
    taken = held_wire("other", "gpu-0", "gpu-1", user="o")
    answer = explained(*machine("n1", MANAGED), taken, *wants(**GATED), lease())
    assert [item.reason for item in answer.findings] == [Reason.DEVICES_IN_USE, Reason.SCHEDULING_GATED]
    assert GATE in answer.findings[1].message


def test_another_gate_comes_first() -> None:
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}, {"name": GATE}]}
    answer = explained(*machine("n1", MANAGED), *wants(**gates), lease())
    assert answer.reason is Reason.SCHEDULING_GATED
    assert "kueue.x-k8s.io/admission" in answer.findings[0].message


def test_a_gated_pod_for_which_other_nodes_have_room_waits_for_its_gate_to_go() -> None:
    answer = explained(*machine("n1"), *wants(**GATED), lease())
    assert (answer.reason, answer.fits) == (Reason.WAITING_FOR_PLACEMENT, True)
    assert f"takes the gate {GATE} away" in answer.findings[0].message
    answer = explained(*machine("n1"), *wants(**GATED), lease(policy=""))
    assert (answer.reason, answer.fits) == (Reason.PLACEMENT_NOT_RUNNING, False)
    ungate, repair = answer.proposals
    assert (ungate.kind, ungate.node, ungate.verified) == (ChangeKind.CHANGE_POD, "n1", True)
    (command,) = ungate.commands
    assert command.startswith("kubectl -n ml patch pod train-0 --type=json -p '[{")
    assert repair.kind is ChangeKind.REPAIR_DRIVER
    assert f"its gate {GATE} stays" in answer.findings[0].message


def test_a_gated_pod_with_all_its_claims_waits_for_its_gate_to_go() -> None:
    claim = claim_wire("train", exactly("r", GPUS), allocation=allocated("n1", "gpu-0"))
    answer = explained(*machine("n1", MANAGED), claim, pod_wire("train-0", "train", **GATED), lease())
    assert (answer.reason, answer.fits) == (Reason.WAITING_FOR_PLACEMENT, True)
    assert answer.findings[0].message.startswith("all claims are allocated")


def test_what_placement_wrote_on_the_claim_is_repeated() -> None:
    said = json.dumps({"node": "n3", "devices": ["gpu-0"], "why": "n3 leaves no GPU in part.", "by": "a"})
    answer = explained(*machine("n1", MANAGED), *wants(placed=said), lease())
    assert answer.findings[0].message.endswith("not any more, was for node n3: n3 leaves no GPU in part")
    claim = claim_wire("train", exactly("r", GPUS), allocation=allocated("n1", "gpu-0"))
    claim["metadata"]["annotations"] = {ANNOTATION: "pack: n1 rather than n2"}
    state = known(*machine("n1", MANAGED), claim)
    answer = Explainer(state).explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="train"))
    assert answer.reason is Reason.ALLOCATED
    assert answer.findings[0].message.endswith("placed by Rootport: pack: n1 rather than n2")


@pytest.mark.parametrize(
    "toleration",
    [{"key": TAINT, "operator": "Exists"}, {"operator": "Exists"}, {"key": TAINT, "operator": "Equal", "value": ""}],
    ids=["by its key", "of everything", "by its empty value"],
)
def test_a_claim_that_tolerates_the_taint_is_told_that_two_allocate(toleration: Json) -> None:
    answer = explained(*machine("n1", MANAGED), *wants(exactly("g", GPUS, tolerations=[toleration])), lease())
    assert (answer.reason, answer.fits) == (Reason.FITS, True)
    (found,) = [item for item in answer.findings if item.reason is Reason.MANAGED_TAINT_TOLERATED]
    assert (found.request, found.claim and found.claim.name) == ("g", "train")


def test_a_toleration_of_something_else_is_no_matter() -> None:
    other = {"key": "rootport.dev/unhealthy", "operator": "Exists"}
    answer = explained(*machine("n1", MANAGED), *wants(exactly("g", GPUS, tolerations=[other])), lease())
    assert [item.reason for item in answer.findings] == [Reason.WAITING_FOR_PLACEMENT]


def test_a_node_is_managed_once_all_its_devices_are() -> None:
    node, part = machine("n1", MANAGED)
    del part["spec"]["devices"][0]["taints"]
    state = known(node, part)
    assert (state.is_tainted("n1"), state.managed_nodes) == (False, [])
    state.put(Kind.SLICE, machine("n1", MANAGED)[1])
    assert (state.is_tainted("n1"), state.managed_nodes) == (True, ["n1"])
    state.put(Kind.SLICE, machine("n1")[1])
    assert not state.is_tainted("n1")
    state.put(Kind.SLICE, machine("n1", MANAGED)[1])
    state.remove(Kind.SLICE, part["metadata"]["name"])
    assert not state.is_tainted("n1")


@pytest.mark.parametrize("said", ["[" * 100_000, "{", "[]", '{"node": 3}', "{}", "x" * 10_000])
def test_whatever_stands_in_the_annotation_is_read(said: str) -> None:
    answer = explained(*machine("n1", MANAGED), *wants(placed=said), lease())
    assert answer.reason is Reason.WAITING_FOR_PLACEMENT
    assert len(answer.findings[0].message) < 1000


def test_a_node_is_managed_since_its_first_taint() -> None:
    node, part = machine("n1", MANAGED)
    for device, at in zip(part["spec"]["devices"], ("2026-11-27T11:00:05Z", "2026-11-27T11:00:03Z"), strict=True):
        device["taints"] = [MANAGED | {"timeAdded": at}]
    state = known(node, part)
    assert state.managed_since("n1") == datetime(2026, 11, 27, 11, 0, 3, tzinfo=UTC)
    assert known(*machine("n1", MANAGED)).managed_since("n1") is None
    assert known(*machine("n1")).managed_since("n1") is None


def test_why_placement_finds_no_node_is_told_in_its_own_words() -> None:
    """By the controller, which knows it; and by a command, which reads what the controller has annotated."""
    why = "it fits on none of 1 node: too little CPU (1)"
    state = known(*machine("n1", MANAGED), *wants(**GATED), lease())
    state.why_not_placed = {"uid-of-train-0": why}.get  # type: ignore[assignment]
    ref = ObjectRef(kind="Pod", namespace="ml", name="train-0")
    told = Explainer(state).explain(ref)
    assert told.reason is Reason.PLACEMENT_SAYS_OTHERWISE
    assert told.findings[0].message.endswith(f"Rootport's placement says: {why}")
    claim, pod = wants(**GATED)
    report = PendingReport(pod=ref, claims=(), reason=told.reason, message=summary(told))
    assert report.is_reportable
    claim["metadata"]["annotations"] = dict(report.annotations)
    read = explained(*machine("n1", MANAGED), claim, pod, lease())
    assert (read.reason, read.findings[0].message) == (told.reason, told.findings[0].message)


def test_the_taint_of_another_drivers_device_is_its_own() -> None:
    node, part = machine("n1", MANAGED)
    part["spec"]["driver"] = "gpu.example.com"
    state = known(node, part)
    assert not state.is_tainted("n1")
    view = state.index.view(state.nodes["n1"].node)
    assert [device.device.taints[0].key for device in view.pools[0].slices[0].devices] == [TAINT, TAINT]


def test_devices_of_managed_nodes_are_held_once_like_others() -> None:
    """The taint would make each device an object of its own."""
    state = known(*machine("n1", MANAGED), *machine("n2"))
    one, two = (state.index.view(state.nodes[name].node).pools[0].slices[0].devices[0].device for name in ("n1", "n2"))
    assert one == two
    assert one.taints == ()


def test_extended_resources_are_not_given_on_managed_nodes() -> None:
    pod = pod_wire("train-0")
    pod["spec"]["containers"] = [{"resources": {"requests": {f"deviceclass.resource.kubernetes.io/{GPUS}": "1"}}}]
    answer = explained(*machine("n1", MANAGED), pod, lease(), proposals=True)
    assert (answer.reason, answer.fits, answer.proposals) == (Reason.DEVICES_MANAGED, False, ())
    assert "extended resources" in answer.findings[0].message
    assert explained(*machine("n1", MANAGED), *machine("n2"), pod, lease()).reason is Reason.FITS
    pod["spec"] |= GATED
    gated = explained(*machine("n1", MANAGED), *machine("n2"), pod, lease())
    assert (gated.reason, gated.fits) == (Reason.WAITING_FOR_PLACEMENT, True)
    assert "nodes that are not managed have room" in gated.findings[0].message


def test_a_claim_for_devices_of_two_drivers_is_not_placed() -> None:
    other = slice_wire("n1", device_wire("x"), driver="x.example.com")
    wanted = wants(exactly("g", GPUS), exactly("x", "x.example.com"))
    classes = (class_wire("x.example.com", 'device.driver == "x.example.com"'),)
    answer = explained(*machine("n1", MANAGED), other, *classes, *wanted, lease())
    assert (answer.reason, answer.fits) == (Reason.DEVICES_MANAGED, False)
    assert "claim ml/train asks for devices of Rootport and of other drivers at once" in answer.findings[0].message


def test_a_claim_for_devices_of_another_driver_is_kube_schedulers_on_managed_nodes_too() -> None:
    other = slice_wire("n1", device_wire("x"), driver="x.example.com")
    classes = (class_wire("x.example.com", 'device.driver == "x.example.com"'),)
    wanted = wants(exactly("x", "x.example.com"))
    answer = explained(*machine("n1", MANAGED), other, *classes, *wanted, lease(holder=""))
    assert (answer.reason, answer.fits) == (Reason.FITS, True)


def test_a_pod_with_what_placement_does_not_evaluate_is_not_placed() -> None:
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}
    ]}}  # fmt: skip
    answer = explained(*machine("n1", MANAGED), *wants(affinity=affinity), lease())
    assert (answer.reason, answer.fits) == (Reason.DEVICES_MANAGED, False)
    assert "placement does not evaluate what the pod has" in answer.findings[0].message
