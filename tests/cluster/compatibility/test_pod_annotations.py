"""Pods that have devices carry Koordinator's annotation: the controller with its own rights, at a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import DEVICES, PODS, RESOURCE_CLAIMS, JsonObject
from driver.status.device_allocated import DEVICE_ALLOCATED
from tests.cluster.compatibility.conftest import SPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, nic, node
from tests.support.simulated_nodes import Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

GPU, NIC, POOL = "gpu-0000-10-00-0", "rdma-0000-20-00-0", "rdma-vfs-0000-21-00-0"
SHARE = "7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5aff"
ON = "--pod-annotations=koordinator.sh"
Start = Callable[..., Controller]


@pytest.fixture(autouse=True)
def _node(nodes: Nodes) -> None:
    card = replace(gpu("10", minor=0, uuid="GPU-1"), memory_bytes=80 << 30)
    nodes.add(node(card, nic("20", index=0), nic("21", index=1, vfs=4), name="node-a"))


def pod(nodes: Nodes, name: str, *, on: str = "node-a", annotations: dict[str, str] | None = None, **spec: Any) -> str:
    """A pod as the scheduler has left it; its UID."""
    body = {
        "metadata": {"name": name, "namespace": SPACE, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": "none"}], **({"nodeName": on} if on else {}), **spec},
    }
    uid: str = nodes.api.create(PODS, body)["metadata"]["uid"]
    return uid


def allocate(nodes: Nodes, name: str, pods: dict[str, str], *results: JsonObject) -> None:
    """A claim with these results, reserved for the pods of these names and UIDs, as kube-scheduler leaves it."""
    requests = [{"name": "r", "exactly": {"deviceClassName": "x.rootport.dev"}}]
    body = {"metadata": {"name": name, "namespace": SPACE}, "spec": {"devices": {"requests": requests}}}
    nodes.api.apply(RESOURCE_CLAIMS, body, field_manager="test")
    of = {"request": "r", "driver": "rootport.dev", "pool": "node-a"}
    allocation = {"devices": {"results": [of | item for item in results]}}
    reserved = [{"resource": "pods", "name": pod, "uid": uid} for pod, uid in pods.items()]
    status = {"allocation": allocation, "reservedFor": reserved}
    nodes.api.merge_patch(RESOURCE_CLAIMS, name, {"status": status}, namespace=SPACE, subresource="status")


def annotation(nodes: Nodes, name: str) -> str:
    found = nodes.api.get(PODS, name, namespace=SPACE)["metadata"].get("annotations") or {}
    return str(found.get(DEVICE_ALLOCATED, ""))


def share(core: int, memory: str) -> JsonObject:
    share_id = f"7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a{core:02}"
    return {"device": GPU, "shareID": share_id, "consumedCapacity": {"core": str(core), "memory": memory}}


def seen_all(nodes: Nodes) -> None:
    """Wait until the controller has looked at all pods that had their claims before this call."""
    uid = pod(nodes, "last")
    allocate(nodes, "last", {"last": uid}, {"device": NIC})
    eventually("the last pod's annotation", lambda: annotation(nodes, "last"))


def test_a_pod_gets_the_annotation_with_all_of_its_claims_in_one_write(nodes: Nodes, start: Start) -> None:
    controller = start(ON)
    uid = pod(nodes, "train", annotations={"example.com/kept": "1"})
    before = nodes.api.get(PODS, "train", namespace=SPACE)["metadata"]
    allocate(nodes, "gpu", {"train": uid}, share(50, "40Gi"))
    allocate(nodes, "nic", {"train": uid}, {"device": NIC})
    assert eventually("the annotation", lambda: annotation(nodes, "train")) == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"40Gi",'
        '"koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-1"}],'
        '"rdma":[{"minor":0,"resources":{"koordinator.sh/rdma":"100"},"id":"0000:20:00.0"}]}'
    )
    after = nodes.api.get(PODS, "train", namespace=SPACE)["metadata"]
    assert after["annotations"]["example.com/kept"] == "1"
    # What the plugin reports of a prepared claim changes nothing here; nor does another controller.
    data = {"apiVersion": "rootport.dev/v1alpha1", "kind": "PreparedDevice", "gpu": GPU, "mode": "shared"}
    said = {"driver": "rootport.dev", "pool": "node-a", "device": GPU, "shareID": share(50, "")["shareID"]}
    entry = said | {"data": data | {"isolation": {"state": "enforced", "by": "MPS", "version": "1"}}}
    change = {"status": {"devices": [entry]}}
    nodes.api.merge_patch(RESOURCE_CLAIMS, "gpu", change, namespace=SPACE, subresource="status")
    seen_all(nodes)
    assert controller.stop() == 0
    second = start(ON)
    eventually("another leader", second.leads)
    other = pod(nodes, "other")
    allocate(nodes, "other", {"other": other}, share(10, "8Gi"))
    eventually("the other pod's", lambda: annotation(nodes, "other"))
    assert nodes.api.get(PODS, "train", namespace=SPACE)["metadata"] == after
    assert before["resourceVersion"] != after["resourceVersion"]
    assert not controller.logged("level=(warning|error)|traceback")
    assert not second.logged("level=(warning|error)|traceback")


def test_the_first_releases_names_on_request(nodes: Nodes, start: Start) -> None:
    start("--pod-annotations=kubernetes.io")
    uid = pod(nodes, "train")
    allocate(nodes, "gpu", {"train": uid}, {"device": GPU})
    assert eventually("the annotation", lambda: annotation(nodes, "train")) == (
        '{"gpu":[{"minor":0,"resources":{"kubernetes.io/gpu-core":"100","kubernetes.io/gpu-memory":"80Gi",'
        '"kubernetes.io/gpu-memory-ratio":"100"}}]}'
    )


def test_the_claim_of_an_extended_resource_and_a_pools_virtual_function(nodes: Nodes, start: Start) -> None:
    start(ON)
    uid = pod(nodes, "extended")
    made = {"resource.kubernetes.io/extended-resource-claim": "true"}
    allocate(nodes, "extended-extended-resources-x", {"extended": uid}, {"device": POOL, "shareID": SHARE})
    body = {"metadata": {"annotations": made}}
    nodes.api.merge_patch(RESOURCE_CLAIMS, "extended-extended-resources-x", body, namespace=SPACE)
    found = json.loads(eventually("the annotation", lambda: annotation(nodes, "extended")))
    entry = {"minor": 1, "resources": {"koordinator.sh/rdma": "25"}, "id": "0000:21:00.0"}
    assert found == {"rdma": [entry]}
    vf = "rdma-vf-0000-21-01-2"
    data = {"apiVersion": "rootport.dev/v1alpha1", "kind": "PreparedDevice", "nic": "rdma-0000-21-00-0", "vf": vf}
    said = {"driver": "rootport.dev", "pool": "node-a", "device": POOL, "shareID": SHARE, "data": data}
    change = {"status": {"devices": [said]}}
    nodes.api.merge_patch(
        RESOURCE_CLAIMS, "extended-extended-resources-x", change, namespace=SPACE, subresource="status"
    )
    full = {"rdma": [entry | {"extension": {"vfs": [{"minor": 2, "busID": "0000:21:01.2"}]}}]}
    eventually("the VF", lambda: json.loads(annotation(nodes, "extended")) == full)


def test_what_the_pods_author_wrote_is_replaced_and_what_koordinator_has_is_not(nodes: Nodes, start: Start) -> None:
    start(ON)
    lie = {DEVICE_ALLOCATED: '{"gpu":[{"minor":7}]}'}
    liar = pod(nodes, "liar", annotations=lie)
    placed = pod(nodes, "placed", annotations=lie, schedulerName="koord-scheduler")
    written = pod(nodes, "written")
    body: JsonObject = {"metadata": {"name": "written", "annotations": lie}}
    nodes.api.apply(PODS, body, field_manager="koord-scheduler", namespace=SPACE)
    bare = pod(nodes, "bare", annotations=lie)
    assert bare
    of = {"liar": liar, "placed": placed, "written": written}
    allocate(nodes, "shared", of, share(10, "8Gi"))
    eventually("the replaced one", lambda: "GPU-1" in annotation(nodes, "liar"))
    seen_all(nodes)
    # Nor is a pod that has no devices of this driver read, whatever it says.
    assert {annotation(nodes, name) for name in ("placed", "written", "bare")} == set(lie.values())


def test_a_pod_is_annotated_once_it_is_bound(nodes: Nodes, installed: ControlPlane, start: Start) -> None:
    start(ON)
    uid = pod(nodes, "waits", on="")
    allocate(nodes, "gpu", {"waits": uid}, share(10, "8Gi"))
    seen_all(nodes)
    assert not annotation(nodes, "waits")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "waits", "namespace": SPACE},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-a"},
    }
    path = f"/api/v1/namespaces/{SPACE}/pods/waits/binding"
    installed.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(binding))
    eventually("the annotation", lambda: annotation(nodes, "waits"))


def test_a_pod_of_the_same_name_is_another_pod(nodes: Nodes, start: Start) -> None:
    start(ON)
    pod(nodes, "again")
    allocate(nodes, "gpu", {"again": "7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a69"}, share(10, "8Gi"))
    seen_all(nodes)
    assert not annotation(nodes, "again")


def test_off_by_default(nodes: Nodes, start: Start) -> None:
    controller = start()
    uid = pod(nodes, "train")
    allocate(nodes, "gpu", {"train": uid}, share(10, "8Gi"))

    def shows() -> bool:
        status = nodes.api.get(DEVICES, f"node-a.{GPU}").get("status") or {}
        return bool(status.get("allocations"))

    eventually("the Device object", lambda: nodes.exists(DEVICES, f"node-a.{GPU}") and shows())
    assert controller.stop() == 0
    assert not annotation(nodes, "train")


def test_without_the_components_rights_it_says_so_once_and_goes_on(
    nodes: Nodes, installed: ControlPlane, start: Start
) -> None:
    with _without(installed, "rootport-pod-annotations"):
        controller = start(ON)
        for name in ("one", "two"):
            allocate(nodes, name, {name: pod(nodes, name)}, share(10 if name == "one" else 20, "8Gi"))
        eventually("the refusal", lambda: controller.logged("pods are not annotated"))
        eventually("the slices", lambda: nodes.visible("node-a"))
        eventually("the Device object", lambda: nodes.exists(DEVICES, f"node-a.{GPU}"))
        assert controller.log.read_text().count("pods are not annotated") == 1
        assert not annotation(nodes, "one")
        assert not controller.logged("traceback")


@contextmanager
def _without(plane: ControlPlane, binding: str) -> Iterator[None]:
    text = plane.kubectl("get", "clusterrolebinding", binding, "--output=json")
    plane.kubectl("delete", "clusterrolebinding", binding)
    try:
        yield
    finally:
        made = json.loads(text)
        made["metadata"] = {"name": binding}
        plane.kubectl("create", "--filename=-", input=json.dumps(made))
