"""Pods that ask for devices as extended resources, and pods that ask for none."""

from __future__ import annotations

import pytest

from driver.explain.explainer import Explainer
from driver.explain.explanation import ChangeKind, Explanation, ObjectRef
from driver.explain.judge.pending import pending_subjects
from driver.explain.known.cluster import EXTENDED_CLAIM, Kind
from driver.explain.known.extended import extended_of
from driver.explain.known.pod_reading import read_pod
from driver.explain.known.reading import read_class
from driver.explain.reasons import Reason
from driver.explain.tell.report import report_text
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
)

OF_CLASS = "deviceclass.resource.kubernetes.io/gpus"
PLUGIN = "nvidia.com/gpu"
POD = ObjectRef(kind="Pod", namespace="ml", name="train")


def a_class(name: str = "gpus", resource: str = "") -> Json:
    wire = class_wire(name)
    if resource:
        wire["spec"]["extendedResourceName"] = resource
    return wire


def node(name: str = "n1", **allocatable: str) -> list[Json]:
    wire = node_wire(name)
    wire["status"]["allocatable"] = {"cpu": "8"} | allocatable
    return [wire, slice_wire(name, device_wire("gpu-0"), device_wire("gpu-1"))]


def pod(*claims: str, first: tuple[Json, ...] = (), status: Json | None = None, **amounts: str | int) -> Json:
    """With one container that requests these; ``first`` are the requests of init containers before it."""
    names = {"of_class": OF_CLASS, "plugin": PLUGIN}
    requests = {"cpu": "1"} | {names.get(key, key): str(amount) for key, amount in amounts.items()}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    before = [{"name": f"i{at}", **item} for at, item in enumerate(first)]
    return pod_wire("train", *claims, containers=containers, initContainers=before, status=status)


def explained(*objects: Json, proposals: bool = False) -> Explanation:
    return Explainer(cluster(*objects), proposals=proposals).explain(POD)


def counts(wire: Json, *classes: Json) -> dict[str, int]:
    """What the claim that is made of a pod's extended resources asks for, by the request's name."""
    named = {item["metadata"]["name"]: read_class(item) for item in classes}
    claim = extended_of(read_pod(wire), named, is_made=False).claim
    assert claim is not None
    assert claim.claim is not None
    requests = claim.claim.spec.devices.requests
    return {request.name: request.exactly.count for request in requests if request.exactly is not None}


@pytest.mark.parametrize(
    ("pending", "device_class"),
    [
        pytest.param(pod(of_class=3), a_class(), id="named by its class"),
        pytest.param(pod(plugin=3), a_class(resource=PLUGIN), id="named by the class"),
    ],
)
def test_devices_behind_a_class_are_looked_for_as_kube_scheduler_does(pending: Json, device_class: Json) -> None:
    found = explained(*node(), device_class, pending, proposals=True)
    assert (found.reason, found.fits, found.is_known) == (Reason.CLASS_SELECTS_TOO_FEW, False, True)
    assert found.claims == (ObjectRef(kind="ResourceClaim", namespace="ml", name=EXTENDED_CLAIM),)
    assert any("the one that kube-scheduler makes of" in note for note in found.notes)
    (fewer,) = found.proposals
    assert (fewer.kind, fewer.patches) == (ChangeKind.CHANGE_POD, ())
    assert "2 devices in request container-0-request-1 instead of 3" in fewer.text


def test_they_fit_where_there_are_as_many() -> None:
    assert explained(*node(), a_class(), pod(of_class=2)).reason is Reason.FITS
    held = held_wire("other", "gpu-0", user="o")
    assert explained(*node(), a_class(), held, pod(of_class=2)).reason is Reason.DEVICES_IN_USE


def test_the_claim_has_a_request_for_each_container_that_lasts_and_one_for_those_before() -> None:
    """As createRequestsAndMappings of k8s.io/kubernetes v1.37.2, dynamicresources/extendeddynamicresources.go."""

    def asks(amount: int, **more: str) -> Json:
        return {"resources": {"requests": {OF_CLASS: str(amount), "memory": "1Gi"}}, **more}

    assert counts(pod(of_class=2), a_class()) == {"container-0-request-1": 2}
    # An init container uses what the main one waits for, and asks only for what is missing; of two the larger one does.
    first = (asks(5), asks(7))
    assert counts(pod(first=first, of_class=2), a_class()) == {"container-1-request-0": 5, "container-2-request-1": 2}
    assert counts(pod(first=(asks(2),), of_class=2), a_class()) == {"container-1-request-1": 2}
    # A sidecar goes on, so that what it has is nobody else's.
    sidecar = asks(1, restartPolicy="Always")
    assert counts(pod(first=(sidecar, asks(3)), of_class=2), a_class()) == {
        "container-0-request-0": 1,
        "container-1-request-0": 1,
        "container-2-request-1": 2,
    }


@pytest.mark.parametrize(
    ("ages", "chosen"),
    [
        pytest.param({"a": "2026-01-01T00:00:00Z", "b": "2026-02-01T00:00:00Z"}, "b", id="the newer one"),
        pytest.param({"a": "2026-02-01T00:00:00Z", "b": "2026-01-01T00:00:00Z"}, "a", id="whatever its name"),
        pytest.param({"b": "2026-01-01T00:00:00Z", "a": "2026-01-01T00:00:00Z"}, "a", id="of equals the lower name"),
        pytest.param({"a": "2026-01-01T00:00:00Z", "b": None}, "b", id="one that is yet to be created"),
    ],
)
def test_of_classes_with_one_resource_one_counts_as_in_kube_scheduler(ages: dict[str, str | None], chosen: str) -> None:
    """As ExtendedResourceCache of k8s.io/dynamic-resource-allocation, deviceclass/extendedresourcecache."""
    state = cluster(*(a_class(name, PLUGIN) for name in ages))
    for name, age in ages.items():
        wire = a_class(name, PLUGIN)
        wire["metadata"]["creationTimestamp"] = age
        state.put(Kind.CLASS, wire)
    assert extended_of(read_pod(pod(plugin=1)), state.classes, is_made=False).classes == {PLUGIN: chosen}


def test_what_is_limited_is_requested() -> None:
    wire = pod()
    wire["spec"]["containers"][0]["resources"] = {"limits": {OF_CLASS: "2", "cpu": "1"}}
    assert counts(wire, a_class()) == {"container-0-request-1": 2}


def test_what_a_device_plugin_gives_is_not_looked_at_and_nobody_is_told_that_it_fits() -> None:
    found = explained(*node(**{"nvidia.com/gpu": "8"}), pod(plugin=1))
    assert (found.reason, found.fits, found.is_known) == (Reason.EXTENDED_RESOURCE_NOT_EVALUATED, False, False)
    message = found.findings[0].message
    assert message.startswith("pod ml/train names no ResourceClaim; it asks for nvidia.com/gpu: 1 of a device plugin")
    assert "node n1 has nvidia.com/gpu: 8 from a device plugin" in message
    assert report_text(found).startswith("pod ml/train: not known whether it fits: ExtendedResourceNotEvaluated\n")
    assert "with room" not in report_text(found)
    assert not found.is_cut


def test_a_node_without_the_resource_or_with_less_of_it_refuses() -> None:
    found = explained(*node("n1"), *node("n2", **{"nvidia.com/gpu": "1"}), pod(plugin=2))
    assert (found.reason, found.is_known) == (Reason.EXTENDED_RESOURCE_MISSING, True)
    assert found.groups[0].count == 2
    assert "node n1 has nvidia.com/gpu: 0, which is less than the 2" in found.findings[0].message


def test_of_a_node_that_does_not_say_what_it_has_it_is_not_known() -> None:
    found = explained(node_wire("n1"), pod(plugin=1))
    assert (found.reason, found.is_known) == (Reason.EXTENDED_RESOURCE_NOT_EVALUATED, False)
    assert "node n1 does not say whether it has nvidia.com/gpu" in found.findings[0].message


def test_where_a_node_has_the_resource_already_its_plugin_gives_it_and_not_the_class() -> None:
    plugin = node("n1", **{"nvidia.com/gpu": "8"})
    found = explained(*plugin, a_class(resource=PLUGIN), pod(plugin=3))
    assert (found.reason, found.is_known) == (Reason.EXTENDED_RESOURCE_NOT_EVALUATED, False)
    # Another node that has none gives it by the class.
    assert explained(*plugin, *node("n2"), a_class(resource=PLUGIN), pod(plugin=2)).fits


def test_claims_and_extended_resources_of_a_pod_are_both_needed() -> None:
    objects = (*node(), a_class(), claim_wire("data", exactly("g", "gpus")))
    assert explained(*objects, pod("data", of_class=1)).fits
    assert explained(*objects, pod("data", of_class=2)).reason is Reason.REQUESTS_COMPETE
    plugin = (*node("n1", **{"nvidia.com/gpu": "8"}), a_class(), claim_wire("data", exactly("g", "gpus", count=3)))
    # What the claim lacks decides, whatever the plugin has.
    assert explained(*plugin, pod("data", plugin=1)).reason is Reason.CLASS_SELECTS_TOO_FEW


def test_a_class_that_a_resource_names_and_that_is_not_there_is_told() -> None:
    found = explained(*node(), a_class("gpu"), pod(of_class=1))
    assert (found.reason, found.fits) == (Reason.DEVICE_CLASS_MISSING, False)
    assert "there is no DeviceClass gpus (did you mean gpu?)" in found.findings[0].message


def test_a_class_that_could_not_be_read_may_stand_behind_a_resource() -> None:
    state = cluster(*node(), pod(plugin=1))
    assert Explainer(state).explain(POD).is_known
    state.leave_out(Kind.CLASS, "old", "the dump has it as resource.k8s.io/v1beta1")
    assert not Explainer(state).explain(POD).is_known


def test_the_claim_that_was_made_already_is_the_pods() -> None:
    made = claim_wire("train-extended-resources-x7k", exactly("r", "gpus"), allocation=allocated("n1", "gpu-0"))
    status = {"extendedResourceClaimStatus": {"resourceClaimName": made["metadata"]["name"], "requestMappings": []}}
    wire = pod(of_class=1, status=status)
    wire["spec"]["nodeName"] = "n1"
    found = explained(*node(), a_class(), made, wire)
    assert (found.reason, [ref.name for ref in found.claims]) == (Reason.ALLOCATED, ["train-extended-resources-x7k"])
    state = cluster(*node(), a_class(), made, wire)
    assert [each.name for each in state.pods_of("ml/train-extended-resources-x7k")] == ["train"]


def made_claim(name: str, *, of: str = "train", **metadata: object) -> Json:
    """What kube-scheduler makes of a pod's extended resources, with gpu-0 of n1."""
    wire = claim_wire(name, exactly("container-0-request-1", "gpus"), allocation=allocated("n1", "gpu-0"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": of, "uid": f"uid-of-{of}", "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    wire["metadata"] |= {"ownerReferences": [owner], "annotations": annotations, **metadata}
    return wire


def test_the_claim_is_the_pods_before_its_status_has_it() -> None:
    """kube-scheduler allocates the claim, then writes it into the pod's status, then binds the pod."""
    everything = made_claim("train-extended-resources-x7k")
    found = explained(*node(), a_class(), everything, pod(of_class=2))
    assert (found.reason, [ref.name for ref in found.claims]) == (Reason.FITS, ["train-extended-resources-x7k"])
    # Another pod's is in use, also of a pod that had the same name.
    for other in (made_claim("o", of="other"), made_claim("o")):
        other["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another"
        assert explained(*node(), a_class(), other, pod(of_class=2)).reason is Reason.DEVICES_IN_USE


def test_that_the_api_server_refuses_the_claim_is_no_fit() -> None:
    """As kube-scheduler 1.37.2 writes it into the condition PodScheduled, where a quota is used up."""
    refusal = 'resourceclaims.resource.k8s.io "train-extended-resources-x7k2p" is forbidden: exceeded quota: claims'
    said = f'running PreBind plugin "DynamicResources": create claim for extended resources ml/: {refusal}'
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": said}
    found = explained(*node(), a_class(), pod(of_class=1, status={"conditions": [condition]}))
    assert (found.reason, found.fits, found.is_known) == (Reason.CLAIM_NOT_CREATED, False, True)
    assert found.findings[0].message == (
        f"kube-scheduler cannot create the claim for the extended resources of pod ml/train: {refusal}"
    )
    condition["message"] = "0/1 nodes are available: 1 cannot allocate all claims."
    assert explained(*node(), a_class(), pod(of_class=1, status={"conditions": [condition]})).fits


@pytest.mark.parametrize("deleting", [False, True], ids=["gone", "going"])
def test_where_the_claim_in_the_status_is_gone_another_one_is_made(deleting: bool) -> None:
    """As findExtendedResourceClaim of k8s.io/kubernetes v1.37.2: the pod's status is not looked at."""
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "train-extended-resources-x7k"}}
    going = [made_claim("train-extended-resources-x7k", deletionTimestamp="2026-01-01T00:00:00Z")] if deleting else []
    found = explained(*node(), a_class(), *going, pod(of_class=1, status=status))
    assert (found.reason, [ref.name for ref in found.claims]) == (Reason.FITS, [EXTENDED_CLAIM])
    assert explained(*node(), a_class(), *going, pod(of_class=3, status=status)).reason is Reason.CLASS_SELECTS_TOO_FEW
    # A pod that was placed needs the very claim.
    placed = pod(of_class=1, status=status)
    placed["spec"]["nodeName"] = "n1"
    if not deleting:
        assert explained(*node(), a_class(), placed).reason is Reason.CLAIM_MISSING


def test_a_claim_that_is_made_anew_is_found_in_whatever_order_the_watch_shows_it() -> None:
    state = cluster(*node(), a_class(), pod(of_class=1), made_claim("old"))
    (waiting,) = (item for key in state.pod_keys() if (item := state.pod(key)) is not None)
    state.put(Kind.CLAIM, made_claim("new"))
    state.remove(Kind.CLAIM, "ml/old")
    found = state.extended_claim(waiting)
    assert found is not None
    assert found.name == "new"
    state.remove(Kind.CLAIM, "ml/new")
    assert state.extended_claim(waiting) is None


@pytest.mark.parametrize("scheduler", ["default-scheduler", "hami-scheduler"])
def test_of_a_pod_without_claims_nobody_is_told_that_it_fits(scheduler: str) -> None:
    wire = pod_wire("train", schedulerName=scheduler)
    found = explained(*node(), wire)
    assert (found.reason, found.fits, found.is_known) == (Reason.NO_CLAIM, False, False)
    assert "names no ResourceClaim and asks for no extended resource" in found.findings[0].message
    others = [finding.reason for finding in found.findings[1:]]
    assert others == ([Reason.OTHER_SCHEDULER] if scheduler == "hami-scheduler" else [])
    assert "all claims are allocated" not in report_text(found)


def test_a_pod_without_claims_that_no_node_takes_is_known_not_to_fit() -> None:
    found = explained(node_wire("n1", unschedulable=True), pod_wire("train"))
    assert (found.reason, found.is_known) == (Reason.NODE_UNSCHEDULABLE, True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("node_name", ["", "n1"])
def test_a_pod_that_has_ended_waits_for_nothing(phase: str, node_name: str) -> None:
    found = explained(*node(), pod_wire("train", template="gone", phase=phase, node=node_name))
    assert (found.reason, found.fits) == (Reason.POD_ENDED, True)
    assert report_text(found).startswith("pod ml/train has ended\n")
    assert f"({phase})" in found.findings[0].message


def test_of_a_claim_whose_pods_have_ended_it_is_said() -> None:
    state = cluster(*node(), a_class(), claim_wire("c", exactly("g", "gpus")), pod_wire("p", "c", phase="Succeeded"))
    found = Explainer(state).explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="c"))
    assert found.reason is Reason.WAITING_FOR_POD
    assert "no pod uses claim ml/c any more, for pod ml/p has ended" in found.findings[0].message


def test_a_running_pod_without_claims_is_not_said_to_have_all_of_them() -> None:
    found = explained(*node(), pod_wire("train", node="n1", phase="Running"))
    assert (found.reason, found.fits) == (Reason.NO_CLAIM, True)
    assert found.findings[0].message == "pod ml/train runs on node n1, and names no ResourceClaim"


@pytest.mark.parametrize("containers", [1, 300, 100_000])
def test_of_a_pod_that_names_very_many_resources_it_is_said_that_not_all_are_looked_at(containers: int) -> None:
    names = 100_000 // containers
    requests = [{f"example.com/r{name}": "1" for name in range(names)} for _ in range(containers)]
    wire = pod_wire("train", containers=[{"resources": {"requests": item}} for item in requests])
    assert read_pod(wire).containers == ()
    found = explained(*node(), wire, proposals=True)
    assert (found.reason, found.fits, found.is_known) == (Reason.SEARCH_LIMIT, False, False)
    assert "name more than 256 resources, which are as many as Rootport looks at" in found.findings[0].message
    assert [ref.name for ref in pending_subjects(cluster(wire))] == ["train"]


def test_a_pod_of_many_containers_with_few_extended_resources_is_looked_at() -> None:
    wire = pod(of_class=1)
    usual = {"resources": {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}}}
    wire["spec"]["containers"] += [usual] * 200
    assert explained(*node(), a_class(), wire).fits


@pytest.mark.parametrize("amount", ["1e30", "-3", "0", "x", 7])
def test_an_odd_amount_is_answered(amount: object) -> None:
    wire = pod()
    wire["spec"]["containers"][0]["resources"]["requests"] = {OF_CLASS: amount}
    report_text(explained(*node(), a_class(), wire))
