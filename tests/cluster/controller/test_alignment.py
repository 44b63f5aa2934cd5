"""A pod whose GPU and NIC could have been nearer gets one Event: the controller as a process, at a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from driver.adapters.kubernetes.resources import EVENTS, EVENTS_K8S_IO, RESOURCE_CLAIMS, JsonObject
from driver.model.inventory import Inventory
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, nic, node
from tests.support.simulated_nodes import Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

GPU, OTHER_GPU = "gpu-0000-10-00-0", "gpu-0000-20-00-0"
NEAR, FAR = "rdma-0000-18-00-0", "rdma-0000-28-00-0"


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.add(machine())
    yield made
    for kind in ("resourceclaims", "events.events.k8s.io"):
        installed.kubectl("delete", kind, "--all", "--namespace=default")
    made.clear()


def machine() -> Inventory:
    return node(gpu("10", 0, "f0"), nic("18", 0, "f0"), gpu("20", 1, "f1"), nic("28", 1, "f1"), name="node-a")


class Pod:
    """A pod as claims know it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uid = str(uuid4())

    @property
    def consumer(self) -> dict[str, str]:
        return {"resource": "pods", "name": self.name, "uid": self.uid}


def allocate(nodes: Nodes, name: str, pods: list[Pod], **devices: str) -> None:
    """A claim as kube-scheduler leaves it, with the device of each request."""
    requests = [{"name": request, "exactly": {"deviceClassName": "x.rootport.dev"}} for request in devices]
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": requests}}}
    nodes.api.apply(RESOURCE_CLAIMS, body, field_manager="test")
    results = [
        {"request": request, "driver": "rootport.dev", "pool": "node-a", "device": device}
        for request, device in devices.items()
    ]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [pod.consumer for pod in pods]}
    patch(nodes, name, status)


def patch(nodes: Nodes, name: str, status: dict[str, Any]) -> None:
    nodes.api.merge_patch(RESOURCE_CLAIMS, name, {"status": status}, namespace="default", subresource="status")


def events(nodes: Nodes, pod: Pod) -> list[JsonObject]:
    found = nodes.api.list(EVENTS_K8S_IO, namespace="default").items
    return [item for item in found if item["regarding"].get("uid") == pod.uid]


def event(nodes: Nodes, pod: Pod) -> JsonObject:
    found: list[JsonObject] = eventually(f"an event on {pod.name}", lambda: events(nodes, pod))
    (one,) = found
    return one


def seen_all(nodes: Nodes) -> None:
    """Wait until the controller has looked at all pods that had claims before this call."""
    last = Pod("last")
    allocate(nodes, "last", [last], gpu=GPU, nic=FAR)
    event(nodes, last)


def test_a_pod_has_one_event_with_the_constraint(nodes: Nodes, start: Callable[[], Controller]) -> None:
    first = start()
    pod = Pod("train")
    allocate(nodes, "pair", [pod], gpu=GPU, nic=FAR)
    told = event(nodes, pod)
    assert (told["type"], told["reason"], told["reportingController"]) == (
        "Warning",
        "DevicesNotAligned",
        "rootport.dev/controller",
    )
    assert told["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "train",
        "uid": pod.uid,
    }
    assert f"Node node-a has {NEAR} at PIX" in told["note"]
    assert "{matchAttribute: rootport.dev/pcieSwitch, requests: [gpu, nic]}" in told["note"]
    # kubectl describe pod asks for these.
    (core,) = nodes.api.list(EVENTS, namespace="default", field_selector=f"involvedObject.uid={pod.uid}").items
    assert core["message"] == told["note"]
    # What the plugin writes when it has prepared the claim; then another controller.
    data = {"apiVersion": "rootport.dev/v1alpha1", "kind": "PreparedDevice", "gpu": GPU, "mode": "whole"}
    said = data | {"isolation": {"state": "enforced", "by": "MPS", "version": "1"}}
    patch(nodes, "pair", {"devices": [{"driver": "rootport.dev", "pool": "node-a", "device": GPU, "data": said}]})
    seen_all(nodes)
    assert first.stop() == 0
    second = start()
    eventually("another leader", second.leads)
    other = Pod("other")
    allocate(nodes, "other", [other], gpu=OTHER_GPU, nic=NEAR)
    event(nodes, other)
    assert events(nodes, pod) == [told]
    assert not first.logged("level=(warning|error)|traceback")
    assert not second.logged("level=(warning|error)|traceback")


def test_a_gpu_and_a_nic_of_two_claims_have_an_event(nodes: Nodes, start: Callable[[], Controller]) -> None:
    start()
    far, near, third = Pod("far"), Pod("near"), Pod("third")
    allocate(nodes, "gpu", [far, near, third], gpu=GPU)
    allocate(nodes, "far-nic", [far], nic=FAR)
    allocate(nodes, "near-nic", [near], nic=NEAR)
    assert "They are of two claims, gpu and far-nic, which no constraint can join" in event(nodes, far)["note"]
    seen_all(nodes)
    assert not events(nodes, near)
    assert not events(nodes, third)
    # A pod that comes to a claim later has its own look.
    patch(nodes, "far-nic", {"reservedFor": [far.consumer, third.consumer]})
    assert "gpu and far-nic" in event(nodes, third)["note"]
    assert not events(nodes, near)


def test_a_controller_that_may_not_write_events_goes_on_with_everything_else(
    nodes: Nodes, installed: ControlPlane, start: Callable[[], Controller]
) -> None:
    role = json.loads(installed.kubectl("get", "clusterrole", "rootport-controller", "--output=json"))["rules"]

    def may(rules: list[dict[str, Any]]) -> None:
        change = json.dumps({"rules": rules})
        installed.kubectl("patch", "clusterrole", "rootport-controller", "--type=merge", f"--patch={change}")

    may([rule for rule in role if rule["apiGroups"] != ["events.k8s.io"]])
    try:
        controller = start()
        pod = Pod("train")
        allocate(nodes, "pair", [pod], gpu=GPU, nic=FAR)
        eventually("a refusal in the log", lambda: controller.logged(f"will be tried again.*{pod.uid}"))
        eventually("the slices", lambda: len(nodes.visible("node-a")) == 4)
        eventually(
            "the device's status", lambda: any("allocations" in item["status"] for item in nodes.devices("node-a"))
        )
        assert not events(nodes, pod)
    finally:
        may(role)
    event(nodes, pod)


def test_a_device_that_is_gone_leaves_nothing_to_say(nodes: Nodes, start: Callable[[], Controller]) -> None:
    start()
    pod, elsewhere = Pod("gone"), Pod("elsewhere")
    allocate(nodes, "gone", [pod], gpu=GPU, nic=FAR, more="rdma-0000-99-00-0")
    allocate(nodes, "alone", [elsewhere], nic=FAR)
    seen_all(nodes)
    assert not events(nodes, pod)
    assert not events(nodes, elsewhere)
