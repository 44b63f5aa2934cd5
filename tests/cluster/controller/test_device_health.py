"""Device objects at a real API server: who has a device, how it is, since when, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import (
    DEVICES,
    EVENTS_K8S_IO,
    NODE_INVENTORIES,
    PODS,
    RESOURCE_CLAIMS,
    JsonObject,
)
from driver.model.devices import LinkLayer, RdmaPort
from driver.model.inventory import Inventory
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

MIB = 1 << 20
GPU, OTHER, NIC = "gpu-0000-10-00-0", "gpu-0000-11-00-0", "rdma-0000-20-00-0"
SINCE = "2026-01-02T03:04:05Z"


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    clear(made)
    yield made
    clear(made)


def clear(nodes: Nodes) -> None:
    nodes.clear()
    for resource in (RESOURCE_CLAIMS, PODS, EVENTS_K8S_IO):
        for item in nodes.api.list(resource, namespace="default", metadata_only=True).items:
            try:
                nodes.api.delete(resource, item["metadata"]["name"], namespace="default")
            except NotFoundError:
                continue


@pytest.fixture
def start(nodes: Nodes, installed: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., Controller]]:
    """Starts a controller with its own rights; all are ended with the test."""
    started: list[Controller] = []
    kubeconfig = installed.service_account_kubeconfig(NAMESPACE, "rootport-controller")

    def run(*options: str) -> Controller:
        log = tmp_path / f"{len(started)}.log"
        started.append(Controller(kubeconfig, log, "--no-explain", *options, identity=f"c{len(started)}"))
        return started[-1]

    yield run
    for controller in started:
        controller.kill()


def machine() -> Inventory:
    card = {"memory_bytes": 81559 * MIB, "model": "NVIDIA H100 80GB HBM3"}
    return node(gpu("10", **card), gpu("11", **card), nic("20"), name="node-a")


def report_health(nodes: Nodes, *faults: dict[str, str], watched: tuple[str, ...] = (GPU, OTHER, NIC)) -> None:
    """Report the devices' health as the node's plugin does."""
    status = {"watched": list(watched), "faults": [{"message": "Look.", "since": SINCE} | item for item in faults]}
    body = {"metadata": {"name": "node-a"}, "status": status}
    nodes.api.apply(NODE_INVENTORIES, body, field_manager="rootport-kubelet-plugin", subresource="status")


def device(nodes: Nodes, name: str = GPU) -> JsonObject:
    try:
        return nodes.api.get(DEVICES, f"node-a.{name}")
    except NotFoundError:
        return {}


def condition(nodes: Nodes, name: str = GPU, type_: str = "Healthy") -> JsonObject:
    conditions = device(nodes, name).get("status", {}).get("conditions", ())
    return next((item for item in conditions if item["type"] == type_), {})


def is_healthy(nodes: Nodes, *names: str) -> bool:
    return all(condition(nodes, name).get("status") == "True" for name in names)


@pytest.fixture(scope="module")
def installed(installed: ControlPlane) -> ControlPlane:
    """With what kube-controller-manager, which is not here, would make, and no pod is taken without."""
    installed.kubectl("create", "serviceaccount", "default", "--namespace=default")
    return installed


def a_pod(nodes: Nodes, name: str = "trainer") -> str:
    """A pod of three containers, of which two use its claim; its UID."""
    claims = {"claims": [{"name": "gpu"}]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
            "initContainers": [{"name": "check", "image": "i", "resources": claims}],
            "containers": [
                {"name": "train", "image": "i", "resources": {"claims": [{"name": "gpu", "request": "gpu"}]}},
                {"name": "sidecar", "image": "i"},
            ],
        },
    }
    return str(nodes.api.create(PODS, body)["metadata"]["uid"])


def a_claim(nodes: Nodes) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    nodes.api.create(RESOURCE_CLAIMS, body)


def allocate(nodes: Nodes, *pods: tuple[str, str]) -> None:
    """As kube-scheduler does: the result and the pods in one write."""
    consumed = {"rootport.dev/core": "30", "rootport.dev/memory": "20Gi"}
    result: dict[str, Any] = {"request": "gpu", "driver": "rootport.dev", "pool": "node-a", "device": GPU}
    result |= {"shareID": "7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a69", "consumedCapacity": consumed}
    reserved = [{"resource": "pods", "name": name, "uid": uid} for name, uid in pods]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    nodes.api.merge_patch(RESOURCE_CLAIMS, "one", {"status": status}, namespace="default", subresource="status")


def events(nodes: Nodes) -> list[JsonObject]:
    found = nodes.api.list(EVENTS_K8S_IO, namespace="default").items
    return [item for item in found if item["reason"].startswith("Device") and "NotAligned" not in item["reason"]]


def test_a_claims_change_is_shown_within_a_second_with_its_pods_and_containers(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.add(machine())
    report_health(nodes)
    controller = start()
    with nodes.beating("node-a"):
        eventually("healthy devices", lambda: is_healthy(nodes, GPU, OTHER, NIC))
        uid = a_pod(nodes)
        a_claim(nodes)
        before = nodes.versions()
        began = time.monotonic()
        allocate(nodes, ("trainer", uid))
        status = eventually("the allocation", lambda: device(nodes)["status"].get("mode") and device(nodes)["status"])
        took = time.monotonic() - began
        assert took < 1, f"{took:.2f} s"
        (given,) = status["allocations"]
        assert given["pods"] == [{"name": "trainer", "uid": uid, "containers": ["check", "train"]}]
        assert status["allocated"] == {"core": 30, "memory": "20480Mi"}
        assert status["largestFree"] == {"core": 70, "memory": "61079Mi"}
        assert status["allocatable"] == status["capacity"] == {"core": 100, "memory": "81559Mi"}
        nodes.api.delete(PODS, "trainer", namespace="default")
        began = time.monotonic()
        nodes.api.merge_patch(
            RESOURCE_CLAIMS, "one", {"status": {"reservedFor": None}}, namespace="default", subresource="status"
        )
        eventually("no pods", lambda: "pods" not in device(nodes)["status"]["allocations"][0])
        assert time.monotonic() - began < 1
        # A whole second: what is written twice would be by now.
        time.sleep(1)
        after = nodes.versions()
        assert {key for key in after if after[key] != before[key]} == {f"devices/node-a.{GPU}"}
        assert "managedFields" in device(nodes)["metadata"]
    assert not controller.logged("will be tried again")


def test_a_fault_makes_the_device_unhealthy_with_an_event_on_its_pod_and_recovery_undoes_it(
    nodes: Nodes, start: Callable[..., Controller], installed: ControlPlane
) -> None:
    nodes.add(machine())
    report_health(nodes)
    start()
    with nodes.beating("node-a"):
        eventually("healthy devices", lambda: is_healthy(nodes, GPU, OTHER, NIC))
        uid = a_pod(nodes)
        a_claim(nodes)
        allocate(nodes, ("trainer", uid))
        eventually("the pod", lambda: "pods" in str(device(nodes)["status"]))
        well_since = condition(nodes)["lastTransitionTime"]
        assert not events(nodes)
        fault = {"device": GPU, "reason": "Xid79", "effect": "NoExecute", "message": "The GPU fell off the bus."}
        report_health(nodes, fault, {"device": OTHER, "reason": "ThermalSlowdown", "effect": "None"})
        installed.kubectl("wait", "--for=condition=Healthy=false", f"device/node-a.{GPU}", "--timeout=10s")
        found = condition(nodes)
        assert (found["reason"], found["lastTransitionTime"]) == ("Xid79", SINCE)
        assert found["message"] == "The GPU fell off the bus."
        status = device(nodes)["status"]
        assert (status["state"], status["allocatable"]) == ("Unhealthy", {"core": 0, "memory": "0"})
        assert status["allocated"] == {"core": 30, "memory": "20480Mi"}
        assert "largestFree" not in status
        eventually("degraded", lambda: condition(nodes, OTHER, "Degraded").get("reason") == "ThermalSlowdown")
        assert is_healthy(nodes, OTHER, NIC)
        told = events(nodes)
        assert {item["reason"] for item in told} == {"DeviceUnhealthy"}
        assert sorted(item["regarding"]["kind"] for item in told) == ["Device", "Pod"]
        assert all("Xid79" in item["note"] for item in told)
        report_health(nodes)
        installed.kubectl("wait", "--for=condition=Healthy", f"device/node-a.{GPU}", "--timeout=10s")
        assert condition(nodes)["lastTransitionTime"] >= well_since
        eventually("no longer degraded", lambda: not condition(nodes, OTHER, "Degraded"))
        assert sorted(item["reason"] for item in events(nodes)) == ["DeviceHealthy"] * 2 + ["DeviceUnhealthy"] * 2


def test_a_new_leader_writes_nothing_again_and_asks_for_no_pod(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    report_health(nodes, {"device": GPU, "reason": "Xid79", "effect": "NoSchedule"})
    first = start()
    with nodes.beating("node-a"):
        eventually("an unhealthy device", lambda: condition(nodes).get("status") == "False")
        uid = a_pod(nodes)
        a_claim(nodes)
        allocate(nodes, ("trainer", uid))
        eventually("containers", lambda: "containers" in str(device(nodes)["status"]))
        eventually("the other devices", lambda: is_healthy(nodes, OTHER, NIC))
        first.stop()
        nodes.api.delete(PODS, "trainer", namespace="default")  # were it asked for, its containers would be gone
        before, told = nodes.versions(), len(events(nodes))
        second = start()
        eventually("the second one", lambda: second.logged("looking at everything"))
        time.sleep(2)
        assert nodes.versions() == before
        assert len(events(nodes)) == told == 1


def test_a_silent_nodes_devices_are_unknown_until_it_is_heard_again(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.add(machine())
    report_health(nodes, {"device": OTHER, "reason": "GpuLost", "effect": "NoExecute"})
    quick = ("--fresh-for=2.5", "--grace-period=4")
    first = start(*quick)
    with nodes.beating("node-a"):
        eventually("healthy devices", lambda: is_healthy(nodes, GPU, NIC))
    eventually("nothing known", lambda: condition(nodes).get("reason") == "NodeSilent")
    assert device(nodes)["status"]["state"] == "Unknown"
    assert device(nodes)["status"]["allocatable"] == {"core": 0, "memory": "0"}
    eventually("the lost one stays lost", lambda: condition(nodes, OTHER).get("reason") == "GpuLost")
    eventually("the slices are gone", lambda: not nodes.slices("node-a"))
    first.stop()
    second = start(*quick)
    eventually("the second one", lambda: second.logged("looking at everything"), timeout_s=40)
    time.sleep(1)
    assert condition(nodes)["reason"] == "NodeSilent"
    with nodes.beating("node-a"):
        eventually("healthy devices", lambda: is_healthy(nodes, GPU, NIC))


def test_devices_that_are_not_watched_and_devices_without_a_link(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    down = RdmaPort(link_layer=LinkLayer.INFINIBAND, speed_gbps=400, state="down")
    nodes.add(node(mig_gpu("10"), nic("20", ports=(down,), vfs=2), name="node-a"))
    start()
    eventually("no link", lambda: condition(nodes, NIC).get("reason") == "LinkDown")
    eventually("its VF", lambda: condition(nodes, "rdma-vf-0000-20-01-0").get("reason") == "LinkDown")
    eventually("not watched", lambda: condition(nodes).get("reason") == "NotWatched")
    assert device(nodes)["status"]["largestFree"]["profile"] == "7g.80gb"
    assert device(nodes, NIC)["status"]["capacity"] == {"bandwidth": "400G", "vfs": 2}
    assert device(nodes, NIC)["status"]["allocatable"] == {"bandwidth": "0", "vfs": 0}


def test_the_table_fits_a_terminal(nodes: Nodes, start: Callable[..., Controller], installed: ControlPlane) -> None:
    nodes.add(machine())
    report_health(nodes)
    start()
    eventually("healthy devices", lambda: is_healthy(nodes, GPU, OTHER, NIC))
    a_claim(nodes)
    allocate(nodes)
    eventually("the allocation", lambda: "mode" in device(nodes)["status"])
    table = installed.kubectl("get", "devices", "--selector=rootport.dev/node=node-a").splitlines()
    assert table[0].split() == ["NAME", "MODEL", "STATE", "MODE", "CORE%", "USED", "FREE"]
    assert max(map(len, table)) <= 100
    assert table[1].split()[-5:] == ["Healthy", "shared", "30", "20480Mi", "61079Mi"]
    assert datetime.fromisoformat(condition(nodes)["lastTransitionTime"]) <= datetime.now(UTC)
