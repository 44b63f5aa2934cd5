"""Binding conditions with the real scheduler: it waits for the node's plugin, and goes elsewhere where that fails.

The nodes have no kubelets, so nobody asks for what is prepared: all that is on a node was prepared before binding.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import (
    EVENTS,
    NODE_INVENTORIES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
)
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller, start_plugin
from tests.support.cluster.hardware import FakeHost, make_host
from tests.support.cluster.processes import Process
from tests.support.paths import REPO
from tests.support.stub_nvml import StubNvml
from tests.support.waiting import eventually

pytestmark = pytest.mark.since_kubernetes(36, "the gate DRADeviceBindingConditions is off by default")

SPACE: Final = "ahead"
ROOM: Final = {"cpu": "64", "memory": "512Gi", "pods": "100"}
CREATE: Final = "fail.nvmlDeviceCreateGpuInstanceWithPlacement"
FAULTY: Final = str(REPO / "tests/e2e/faulty_plugin.py")
HOLD: Final = ("--health-interval=2", "--health-hold=300")


@dataclass
class SimulatedNode:
    """A node with a plugin and no kubelet."""

    plane: ControlPlane
    name: str
    host: FakeHost
    folders: Path
    plugin: Process | None = None

    def start(self, *options: str, module: tuple[str, ...] = ("-m", "kubeletplugin")) -> Process:
        chosen = options or ("--prepare-before-binding=mig",)
        self.plugin = start_plugin(
            self.plane,
            self.plane.processes,
            self.host,
            node=self.name,
            folders=self.folders,
            options=(*HOLD, *chosen),
            module=module,
        )
        return self.plugin

    def prepared(self) -> list[str]:
        """What is left of claims on the node: specs, notes, journals, and what differs at its GPUs."""
        plugins = self.folders / "plugins"
        folders = (self.folders / "cdi", plugins / "ahead", plugins / "effects")
        return [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()] + (
            self.host.gpu_changes()
        )


class World:
    """Two nodes with a GPU each, and pods in a namespace."""

    def __init__(self, plane: ControlPlane, nodes: dict[str, SimulatedNode]) -> None:
        self.plane = plane
        self.api = KubernetesApi.connect(kubeconfig=plane.kubeconfig)
        self.nodes = nodes

    def pod(self, name: str, *, first: str, only: bool = False, template: str = "part") -> None:
        """Create a pod with a partition, which would rather be on one node, or must be there."""
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [first]}]}
        hostname = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [first]}]}
        affinity: JsonObject = (
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            if only
            else {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": hostname}]}
        )
        body = {
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {
                "affinity": {"nodeAffinity": affinity},
                "resourceClaims": [{"name": "part", "resourceClaimTemplateName": template}],
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "part"}]}}],
            },
        }
        self.api.create(PODS, body)

    def claim(self) -> JsonObject | None:
        found = list(self.api.list(RESOURCE_CLAIMS, namespace=SPACE).items)
        return found[0] if found else None

    def conditions(self) -> dict[str, JsonObject]:
        """The conditions of the claim's device, by type."""
        claim = self.claim() or {}
        devices = claim.get("status", {}).get("devices", ())
        return {item["type"]: item for device in devices for item in device.get("conditions", ())}

    def bound(self, name: str) -> str:
        return str(self.api.get(PODS, name, namespace=SPACE)["spec"].get("nodeName", ""))

    def status(self, node: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(NODE_INVENTORIES, node).get("status", {})
        return found

    def partitions(self, node: str) -> list[JsonObject]:
        slices = self.api.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={node}").items
        devices = [device for item in slices for device in item["spec"].get("devices", ())]
        return [device for device in devices if device["name"].startswith("mig-")]

    def waits(self, node: str) -> bool:
        """Whether the node's partitions are published, with binding conditions."""
        found = self.partitions(node)
        return bool(found) and all(device.get("bindingConditions") == ["Prepared"] for device in found)

    def events(self, name: str) -> str:
        found = self.api.list(EVENTS, namespace=SPACE, field_selector=f"involvedObject.name={name}").items
        return "\n".join(f"{item['reason']}: {item['message']}" for item in found)

    def end(self, name: str) -> None:
        self.plane.kubectl("delete", "pod", name, f"--namespace={SPACE}", "--force", "--grace-period=0")
        # There is no garbage collector here.
        self.plane.kubectl("delete", "resourceclaims", "--all", f"--namespace={SPACE}", "--wait=false")
        eventually("the claim is gone", lambda: self.claim() is None, timeout_s=60)


@pytest.fixture(scope="module")
def world(cluster_binaries: Binaries, nvml_stub: StubNvml, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("binding")
    with ControlPlane(folder / "plane", cluster_binaries) as plane:
        install(plane)
        plane.start_controller_manager("--controllers=resourceclaim-controller")
        plane.start_scheduler()
        start_controller(plane, plane.processes, "--gpu-layout=full")
        nodes = {}
        with KubernetesApi.connect(kubeconfig=plane.kubeconfig) as api:
            plane.kubectl("create", "namespace", SPACE)
            plane.kubectl("label", "namespace", SPACE, "resource.kubernetes.io/admin-access=true")
            plane.kubectl("create", "serviceaccount", "default", f"--namespace={SPACE}")
            expression = 'device.attributes["rootport.dev"].profile == "1g.10gb"'
            exactly = {"deviceClassName": "mig.rootport.dev", "selectors": [{"cel": {"expression": expression}}]}
            for name, access in (("part", {}), ("watch", {"adminAccess": True})):
                spec = {"spec": {"devices": {"requests": [{"name": "part", "exactly": exactly | access}]}}}
                api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": SPACE}, "spec": spec})
            for name in ("node-a", "node-b"):
                labels = {"kubernetes.io/hostname": name}
                api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
                ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
                status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]}
                api.merge_patch(NODES, name, {"status": status}, subresource="status")
                api.merge_patch(NODES, name, {"spec": {"taints": None}})
                host = make_host(folder / name, nvml_stub, pairs=1)
                # Sockets have short paths, and pytest's folders long ones.
                nodes[name] = SimulatedNode(plane, name, host, Path(tempfile.mkdtemp(prefix="rootport-")))
                nodes[name].start()
        world = World(plane, nodes)
        try:
            for name in nodes:
                eventually(f"{name}'s partitions wait", partial(world.waits, name), timeout_s=120)
            yield world
        finally:
            world.api.close()
            plane.processes.stop()
            for node in nodes.values():
                shutil.rmtree(node.folders)


def test_a_pod_is_bound_once_its_partition_is_made_and_undone_if_it_goes_before_the_kubelet_asks(world: World) -> None:
    node = world.nodes["node-a"]
    world.pod("first", first="node-a", only=True)
    eventually("the pod is bound", lambda: world.bound("first") == "node-a", timeout_s=120)

    condition = world.conditions()["Prepared"]
    assert (condition["status"], condition["reason"]) == ("True", "Prepared")
    claim = world.claim()
    assert claim is not None
    uid = claim["metadata"]["uid"]
    assert {uid, f"{uid}.json", f"rootport.dev-claim_{uid}.json"} <= set(node.prepared())
    assert node.host.gpu_changes()
    assert "BindingConditionsPending" in world.events("first")
    assert [item["uid"] for item in world.status("node-a")["claimsToPrepare"]] == [uid]

    world.end("first")
    eventually("nothing is left on the node", lambda: not node.prepared(), timeout_s=120)


def test_a_node_that_cannot_make_the_partition_is_left_for_another_and_says_why(world: World) -> None:
    node = world.nodes["node-a"]
    node.host.set_live(0, **{CREATE: "NVML_ERROR_UNKNOWN"})
    try:
        world.pod("second", first="node-a")
        eventually("node-a is tried", lambda: world.status("node-a").get("faults"), timeout_s=120)
        fault = world.status("node-a")["faults"][0]
        assert (fault["reason"], fault["effect"]) == ("MigDeviceNotCreated", "NoSchedule")
        assert SPACE not in fault["message"], "who asked is no part of a node's health"
        failed = eventually("the claim says so", lambda: world.conditions().get("PreparationFailed"), timeout_s=60)
        assert failed["reason"] == "MigDeviceNotCreated"

        eventually("the pod is bound elsewhere", lambda: world.bound("second") == "node-b", timeout_s=120)

        assert "PreparationFailed" not in world.conditions()
        assert world.conditions()["Prepared"]["status"] == "True"
        assert not node.prepared()
        assert "device binding failed" in world.events("second")
        taints = {taint["value"] for device in world.partitions("node-a") for taint in device.get("taints", ())}
        assert taints == {"MigDeviceNotCreated"}
    finally:
        node.host.set_live(0, **{CREATE: None})
    world.end("second")
    eventually("nothing is left", lambda: not world.nodes["node-b"].prepared(), timeout_s=120)


def test_a_plugin_killed_between_partition_and_entry_goes_on_at_its_next_start(world: World) -> None:
    node = world.nodes["node-b"]
    assert node.plugin is not None
    node.plugin.stop()
    options = ("kill", "prepare: effect done")
    doomed = node.start("--prepare-before-binding=mig", module=(FAULTY, *options))
    world.pod("third", first="node-b", only=True)
    assert doomed.wait(120) != 0
    assert node.host.gpu_changes()

    node.start()
    eventually("the pod is bound", lambda: world.bound("third") == "node-b", timeout_s=120)
    world.end("third")
    eventually("nothing is left", lambda: not node.prepared(), timeout_s=120)


def test_a_pod_with_admin_access_is_bound_as_well(world: World) -> None:
    world.pod("watch", first="node-b", only=True, template="watch")
    eventually("the pod is bound", lambda: world.bound("watch") == "node-b", timeout_s=120)
    (result,) = (world.claim() or {})["status"]["allocation"]["devices"]["results"]
    assert (result["adminAccess"], result["bindingConditions"]) == (True, ["Prepared"])
    assert set(world.conditions()) == {"Prepared"}
    world.end("watch")
    eventually("nothing is left", lambda: not world.nodes["node-b"].prepared(), timeout_s=120)


def test_no_pod_waits_for_a_plugin_that_may_not_watch_its_inventory(world: World) -> None:
    """As with the ClusterRole before 0.1.0, which has no right for it."""
    node, role = world.nodes["node-b"], "rootport-kubelet-plugin"
    assert node.plugin is not None
    node.plugin.stop()
    stored = json.loads(world.plane.kubectl("get", "clusterrole", role, "--output=json"))
    del stored["metadata"]["resourceVersion"]
    rules = [
        rule | {"verbs": [verb for verb in rule["verbs"] if verb not in ("list", "watch")]}
        if "nodeinventories" in rule.get("resources", ())
        else rule
        for rule in stored["rules"]
    ]
    world.plane.kubectl("replace", "--filename=-", input=json.dumps(stored | {"rules": rules}))
    node.start()
    eventually("nobody waits", lambda: world.partitions("node-b") and not world.waits("node-b"), timeout_s=120)
    assert "preparesBeforeBinding" not in world.status("node-b")
    world.pod("fourth", first="node-b", only=True)
    eventually("the pod is bound", lambda: world.bound("fourth") == "node-b", timeout_s=60)
    world.end("fourth")

    world.plane.kubectl("replace", "--filename=-", input=json.dumps(stored))
    eventually("they wait again", lambda: world.waits("node-b"), timeout_s=120)
