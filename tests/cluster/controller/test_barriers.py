"""What one node makes go wrong ends no thread, and the other nodes are published as ever: at a real API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from controller.alignment.reconciler import AlignmentReconciler
from controller.devices.health_events import HealthEvents
from controller.publisher import Publisher, PublisherOptions
from controller.slices import reconciler
from driver.adapters.files.policies_in_force import PoliciesInForce
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import LEASES, NODE_INVENTORIES, NODES, JsonObject
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.resource_v1 import ResourceSlice
from driver.api.rootport_v1alpha1 import Device, DeviceStatus
from driver.model.inventory import Inventory
from driver.status.overview import ReadyState
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, nic, node
from tests.support.simulated_nodes import NAMESPACE, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

MACHINE = node(gpu("10"), nic("20"), name="node-a")
ODD = MACHINE.renamed("odd")
MOST_LEVELS = 200  # of JSON that is let through


class OddError(Exception):
    """Nobody expects it."""


class OddPolicies(PoliciesInForce[GpuPolicies]):
    """Cannot be reloaded."""

    def __init__(self) -> None:
        super().__init__(None, default=DEFAULT_POLICIES, flag="")

    def reload(self) -> bool:
        raise OddError


class OddOverview:
    """Fails for one node."""

    def put(
        self,
        node: str,
        *,
        devices: Sequence[Device] | None,
        statuses: Mapping[str, DeviceStatus],
        state: ReadyState,
        reason: str,
        cannot_prepare: bool,
        managed: bool,
    ) -> None:
        del devices, statuses, state, reason, cannot_prepare, managed
        if node == "odd":
            raise OddError

    def remove(self, node: str) -> None:
        raise OddError(node)


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.clear()
    yield made
    made.clear()


@contextmanager
def publishing(plane: ControlPlane, **parts: Any) -> Iterator[Publisher]:
    """A publisher in this process."""
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "rootport-controller")
    api = KubernetesApi.connect(kubeconfig=kubeconfig)
    made = Publisher(api, PublisherOptions(fresh_for_s=2.5, grace_s=5.0), **parts)
    made.start()
    try:
        yield made
        assert made.failure == ""
    finally:
        made.stop(10)
        api.close()


def as_ever(nodes: Nodes) -> None:
    """A node comes, is published and shown, and its slices go when it falls silent."""
    nodes.add(MACHINE)
    with nodes.beating("node-a", "odd"):
        eventually("slices", lambda: len(nodes.visible("node-a")) == 2)
        eventually("devices", lambda: len(nodes.devices("node-a")) == 2)
        eventually("statuses", lambda: all("conditions" in item["status"] for item in nodes.devices("node-a")))
        nodes.report(node(gpu("10", model="B200"), nic("20"), name="node-a"))
        eventually("an update", lambda: "B200" in str(nodes.slices("node-a")))
    stop = threading.Event()
    leader = threading.Thread(target=keep_contact, args=(nodes, stop))
    leader.start()
    try:
        eventually("a silent node's slices go", lambda: not nodes.slices("node-a"), timeout_s=40)
    finally:
        stop.set()
        leader.join()


def keep_contact(nodes: Nodes, stop: threading.Event) -> None:
    """What the leader's own Lease does: without any beat silence would not count."""
    while not stop.wait(0.5):
        nodes.beat("rootport-controller")


def test_an_error_in_one_nodes_layout_is_in_its_condition(
    nodes: Nodes, installed: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = reconciler.resource_slices

    def odd(inventory: Inventory, **more: Any) -> tuple[ResourceSlice, ...]:
        if inventory.node == "odd":
            raise RecursionError
        return real(inventory, **more)

    monkeypatch.setattr(reconciler, "resource_slices", odd)
    nodes.add(ODD)
    with publishing(installed):
        eventually("the condition", lambda: nodes.published("odd").get("reason") == "InternalError")
        assert "RecursionError" in nodes.published("odd")["message"]
        as_ever(nodes)


def test_an_error_at_one_nodes_devices_keeps_no_other_nodes_waiting(nodes: Nodes, installed: ControlPlane) -> None:
    nodes.add(ODD)
    with publishing(installed, overview=OddOverview()):
        eventually("slices", lambda: len(nodes.visible("odd")) == 2)
        as_ever(nodes)
        assert nodes.devices("odd") == []


def test_an_error_at_a_tick_leaves_the_others_of_the_tick_as_they_are(nodes: Nodes, installed: ControlPlane) -> None:
    with publishing(installed, policies=OddPolicies()):
        as_ever(nodes)


def test_events_and_pods_that_fail_end_no_thread(
    nodes: Nodes, installed: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_args: object, **_more: object) -> None:
        raise OddError

    monkeypatch.setattr(HealthEvents, "write", fails)
    monkeypatch.setattr(AlignmentReconciler, "reconcile", fails)
    nodes.add(ODD)
    fault = {
        "device": "gpu-0000-10-00-0",
        "reason": "Xid79",
        "effect": "NoSchedule",
        "since": "2026-01-01T00:00:00Z",
        "message": "gone",
    }
    body: JsonObject = {"metadata": {"name": "odd"}, "status": {"faults": [fault]}}
    with publishing(installed) as publisher:
        eventually("devices", lambda: len(nodes.devices("odd")) == 2)
        nodes.api.apply(NODE_INVENTORIES, body, field_manager="rootport-kubelet-plugin", subresource="status")
        publisher._pods.add("a pod")
        as_ever(nodes)


def test_objects_as_deep_as_is_let_through_are_published(nodes: Nodes, installed: ControlPlane) -> None:
    deep: JsonObject = {}
    for _ in range(MOST_LEVELS - 10):
        deep = {"f:a": deep}
    managed = {
        "manager": "x",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": deep,
    }
    nodes.add(ODD)
    for resource, namespace in ((NODE_INVENTORIES, None), (NODES, None), (LEASES, NAMESPACE)):
        patch: JsonObject = {"metadata": {"managedFields": [managed]}}
        nodes.api.merge_patch(resource, "odd", patch, namespace=namespace)
    with publishing(installed):
        eventually("slices", lambda: len(nodes.visible("odd")) == 2)
        as_ever(nodes)
