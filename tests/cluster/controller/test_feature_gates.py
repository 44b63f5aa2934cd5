"""The controller at an API server that drops what GPU sharing needs: no GPU may be on offer in two ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.slices.features import SliceFeatures
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, NODES, RESOURCE_SLICES
from driver.model.managed_nodes import LABEL, MANAGED
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane, gates_off
from tests.support.machines import nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.paths import REPO
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

CRDS = REPO / "resourceclasses/crd"


@pytest.fixture(scope="module")
def without_gates(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """As Kubernetes 1.34 and 1.35 are by default."""
    with ControlPlane(
        tmp_path_factory.mktemp("without-gates"),
        cluster_binaries,
        feature_gates=gates_off("DRAPartitionableDevices", "DRAConsumableCapacity", "DRADeviceTaints"),
    ) as plane:
        plane.kubectl("apply", f"--filename={CRDS}")
        plane.wait_for_crds()
        plane.kubectl("create", "namespace", NAMESPACE)
        yield plane


@pytest.mark.since_kubernetes(36, "the gates are off by default")
def test_an_api_server_with_the_gates_keeps_all_and_nothing_is_stored(control_plane: ControlPlane) -> None:
    api = KubernetesApi.connect(kubeconfig=control_plane.kubeconfig)
    features = SliceFeatures(api)
    assert features.has_counters
    assert features.has_shares
    assert features.notes == ()
    assert not list(api.list(RESOURCE_SLICES).items)


@pytest.mark.since_kubernetes(35, "there counters are refused, not dropped: tests/matrix has the message")
def test_without_counters_a_gpu_is_offered_in_one_way_and_the_condition_has_the_reason(
    without_gates: ControlPlane, tmp_path: Path
) -> None:
    nodes = Nodes(without_gates.kubeconfig)
    nodes.add(node(mig_gpu("10"), nic("20", vfs=2), name="node-a"))
    gates = "--feature-gates=DRAListTypeAttributes=true,DRANodeAllocatableResources=true"
    controller = Controller(without_gates.kubeconfig, tmp_path / "log", "--resync=1", gates)
    try:
        eventually("the condition", lambda: nodes.published("node-a").get("status") == "True")
        vfs = ["rdma-vf-0000-20-01-0", "rdma-vf-0000-20-01-1"]  # a pool would give one
        assert nodes.visible("node-a") == ["gpu-0000-10-00-0", *vfs]
        message = nodes.published("node-a")["message"]
        assert "GPUs and RDMA NICs are given whole only" in message
        # What the administrator turns on in the controller alone.
        assert "several NUMA nodes, are published in the first alone: the API server drops what says it" in message
        assert "its feature gate DRAListTypeAttributes is off" in message
        assert "GPUs bring no CPU and no memory of the node: the API server drops what says it" in message
        layout = nodes.published("node-a", "AllModesPublished")
        assert (layout["status"], layout["reason"]) == ("False", "CountersDropped")
        assert "DRAPartitionableDevices is off" in layout["message"]
        assert "its feature gate DRADeviceTaints is off" in message
        assert controller.logged("turn on its feature gates DRAConsumableCapacity and DRADeviceTaints and DRAList")
        # A taint that is dropped is written once, and not again and again.
        fault = {
            "device": "gpu-0000-10-00-0",
            "reason": "Xid79",
            "effect": "NoSchedule",
            "since": "2026-01-01T00:00:00Z",
            "message": "it fell off the bus",
        }
        nodes.api.merge_patch(NODE_INVENTORIES, "node-a", {"status": {"faults": [fault]}}, subresource="status")
        eventually("the loss", lambda: controller.logged("dropped fields of a slice"))
        passes = controller.log.read_text().count("looking at everything")
        eventually("two resyncs", lambda: controller.log.read_text().count("looking at everything") >= passes + 2)
        assert controller.log.read_text().count("slices written") == 2
    finally:
        controller.stop()


def test_without_taints_kube_scheduler_keeps_a_managed_node_and_the_condition_says_so(
    without_gates: ControlPlane, tmp_path: Path
) -> None:
    nodes = Nodes(without_gates.kubeconfig)
    nodes.add(node(mig_gpu("10"), name="node-b"))
    nodes.api.merge_patch(NODES, "node-b", {"metadata": {"labels": {LABEL: MANAGED}}})
    controller = Controller(without_gates.kubeconfig, tmp_path / "log", "--resync=1", "--placement=pack")
    try:
        eventually(
            "the condition",
            lambda: "placed by kube-scheduler although" in nodes.published("node-b").get("message", ""),
        )
    finally:
        controller.stop()
