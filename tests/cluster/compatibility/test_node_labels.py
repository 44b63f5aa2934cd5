"""Nodes carry the labels of Koordinator and GPU Feature Discovery: the controller with its own rights."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from driver.adapters.kubernetes.resources import NODE_INVENTORIES, NODES
from driver.model.devices import MigSupport
from driver.model.inventory import Inventory
from driver.objects.node_labels import NODE_LABELS, node_labels
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, node
from tests.support.simulated_nodes import Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

ON, REMOVE = "--node-labels=on", "--node-labels=remove"
Start = Callable[..., Controller]
PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"


def machine(name: str, gpus: int = 2) -> Inventory:
    cards = (
        gpu(
            f"{0x10 + at:02x}",
            minor=at,
            model="NVIDIA H100 80GB HBM3",
            memory_bytes=81559 << 20,
            architecture="Hopper",
            cuda_compute_capability="9.0",
            driver_version="580.159.03",
            cuda_driver_version="13.0",
            mig=MigSupport(enabled=False),
        )
        for at in range(gpus)
    )
    return node(*cards, name=name)


def labels(nodes: Nodes, name: str) -> dict[str, str]:
    return dict(nodes.api.get(NODES, name)["metadata"].get("labels") or {})


def shows(nodes: Nodes, name: str, wanted: dict[str, str]) -> None:
    eventually(f"{wanted} on {name}", lambda: labels(nodes, name) == wanted)


def version(nodes: Nodes, name: str) -> str:
    return str(nodes.api.get(NODES, name)["metadata"]["resourceVersion"])


def test_labels_come_follow_the_devices_and_go(nodes: Nodes, start: Start) -> None:
    nodes.add(machine("node-a"))
    nodes.api.merge_patch(NODES, "node-a", {"metadata": {"labels": {"example.com/a": "1"}}})
    controller = start(ON)
    others = {"example.com/a": "1"}
    shows(nodes, "node-a", others | node_labels(machine("node-a")))
    assert set(node_labels(machine("node-a"))) == set(NODE_LABELS)
    nodes.report(machine("node-a", gpus=1))
    shows(nodes, "node-a", others | node_labels(machine("node-a", gpus=1)))
    assert labels(nodes, "node-a")[COUNT] == "1"
    nodes.api.delete(NODE_INVENTORIES, "node-a")
    shows(nodes, "node-a", others)
    assert not controller.logged("level=(warning|error)|traceback")


def test_nothing_changed_is_nothing_written_after_a_restart_too(nodes: Nodes, start: Start) -> None:
    nodes.add(machine("node-a"))
    first = start(ON)
    shows(nodes, "node-a", node_labels(machine("node-a")))
    before = version(nodes, "node-a")
    assert first.stop() == 0
    second = start(ON)
    nodes.add(machine("node-b"))  # the later one: the first was looked at by then
    shows(nodes, "node-b", node_labels(machine("node-b")))
    assert version(nodes, "node-a") == before
    assert second.logged("node labelled.*node-b")
    assert not second.logged("node labelled.*node-a")


def test_labels_of_gpu_feature_discovery_are_not_fought_over(nodes: Nodes, start: Start) -> None:
    nodes.add(machine("node-a"))
    theirs = {COUNT: "56", PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}
    nodes.api.merge_patch(NODES, "node-a", {"metadata": {"labels": theirs}})  # as nfd-master writes them
    controller = start(ON)
    shows(nodes, "node-a", node_labels(machine("node-a")) | theirs)
    assert controller.logged(f"labels of others.*node-a.*{COUNT}, {PRODUCT}")
    # It changes another one, which is its own from then on; and goes, which leaves ours.
    nodes.api.merge_patch(NODES, "node-a", {"metadata": {"labels": {"nvidia.com/gpu.memory": "0"}}})
    eventually("a word about it", lambda: controller.logged("labels of others.*nvidia.com/gpu.memory"))
    nodes.report(machine("node-a", gpus=1))  # so that there is something to write
    theirs["nvidia.com/gpu.memory"] = "0"
    shows(nodes, "node-a", node_labels(machine("node-a", gpus=1)) | theirs)
    nodes.api.merge_patch(NODES, "node-a", {"metadata": {"labels": dict.fromkeys(theirs)}})
    shows(nodes, "node-a", node_labels(machine("node-a", gpus=1)))


def test_removal_takes_its_own_labels_and_no_others(nodes: Nodes, start: Start) -> None:
    nodes.add(machine("node-a"))
    nodes.add(machine("node-b"))
    nodes.api.merge_patch(NODES, "node-b", {"metadata": {"labels": {COUNT: "7"}}})
    first = start(ON)
    shows(nodes, "node-a", node_labels(machine("node-a")))
    shows(nodes, "node-b", node_labels(machine("node-b")) | {COUNT: "7"})
    assert first.stop() == 0
    start(REMOVE)
    shows(nodes, "node-a", {})
    shows(nodes, "node-b", {COUNT: "7"})


def test_the_guides_command_removes_them_as_well(nodes: Nodes, installed: ControlPlane, start: Start) -> None:
    nodes.add(machine("node-a"))
    controller = start(ON)
    shows(nodes, "node-a", node_labels(machine("node-a")))
    assert controller.stop() == 0
    body = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
    installed.kubectl("apply", "--server-side", "--field-manager=rootport-node-labels", "--filename=-", input=body)
    shows(nodes, "node-a", {})


def test_a_node_without_gpus_and_one_without_the_option_have_none(nodes: Nodes, start: Start) -> None:
    nodes.add(node(name="node-a"))
    nodes.add(machine("node-b"))
    controller = start(ON)
    shows(nodes, "node-b", node_labels(machine("node-b")))
    assert labels(nodes, "node-a") == {}
    assert controller.stop() == 0
    nodes.add(machine("node-c"))
    start()
    eventually("the slices", lambda: nodes.visible("node-c"))
    assert labels(nodes, "node-c") == {}


def test_another_node_of_the_name_gets_its_own(nodes: Nodes, start: Start) -> None:
    nodes.add(machine("node-a"))
    start(ON)
    shows(nodes, "node-a", node_labels(machine("node-a")))
    nodes.api.delete(NODES, "node-a")
    eventually("the inventory goes", lambda: not nodes.exists(NODE_INVENTORIES, "node-a"))
    nodes.add(machine("node-a", gpus=1))
    shows(nodes, "node-a", node_labels(machine("node-a", gpus=1)))


def test_each_node_costs_one_write(nodes: Nodes, start: Start) -> None:
    for at in range(20):
        nodes.add(machine(f"node-{at}"))
    controller = start(ON)
    for at in range(20):
        shows(nodes, f"node-{at}", node_labels(machine(f"node-{at}")))
    assert controller.log.read_text().count("node labelled") == 20
