"""Pods that ask for extended resources: a real API server, the real scheduler and controllers, simulated nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.resources import EVENTS_K8S_IO, NODES, PODS, RESOURCE_CLAIMS, JsonObject
from driver.explain.known.cluster import EXTENDED_CLAIM
from driver.modes.rule import Layout
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import MANIFESTS
from tests.support.cluster.mode_changes import Leader
from tests.support.machines import nic
from tests.support.mig_machines import dgx_h100
from tests.support.paths import REPO
from tests.support.simulated_nodes import Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

NODE = "extended-0"
GPU, RDMA, MIG = "nvidia.com/gpu", "rdma/hca", "nvidia.com/mig-1g.10gb"
SOON_S = 60
_CONTROLLERS = "garbage-collector-controller,resourceclaim-controller,resourcequota-controller"


@pytest.fixture(scope="module")
def scheduling(installed: ControlPlane) -> Iterator[ControlPlane]:
    """With the component's classes, the scheduler, and the controllers that clean up after pods."""
    component = MANIFESTS / "components/extended-resources"
    for name in yaml.safe_load((component / "kustomization.yaml").read_text())["resources"]:
        installed.kubectl("apply", f"--filename={component / name}")
    processes = [installed.start_scheduler(), installed.start_controller_manager(f"--controllers={_CONTROLLERS}")]
    yield installed
    for process in processes:
        process.stop()


class Cluster:
    """A node with two H100s and two NICs, and pods that ask for extended resources."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.nodes = Nodes(plane.kubeconfig)
        self.api = self.nodes.api
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        plane.kubectl("apply", "--namespace=default", "--filename=-", input=json.dumps(account))
        whole = dgx_h100(NODE)
        self.nodes.add(replace(whole, gpus=whole.gpus[:2], nics=(nic("18"), nic("19"))))
        self.offer()
        self.api.merge_patch(NODES, NODE, {"spec": {"taints": None}})

    def offer(self, **amounts: str) -> None:
        """What the node has in all, by a device plugin too."""
        room = {"cpu": "64", "memory": "512Gi", "pods": "1000"} | amounts
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        # Replaced, since a merge would keep what was there.
        status = [{"op": "add", "path": "/status/capacity", "value": room}]
        status += [{"op": "add", "path": "/status/allocatable", "value": room}]
        status += [{"op": "add", "path": "/status/conditions", "value": ready}]  # type: ignore[dict-item]
        self.plane.kubectl(
            "patch", "node", NODE, "--subresource=status", "--type=json", f"--patch={json.dumps(status)}"
        )

    def ask(self, name: str, *containers: Mapping[str, int], first: tuple[Mapping[str, int], ...] = ()) -> JsonObject:
        """Create a pod whose containers ask for these amounts; ``first`` are its init containers."""

        def made(amounts: Mapping[str, int], container: str) -> JsonObject:
            limits = {resource: str(amount) for resource, amount in amounts.items()}
            return {"name": container, "image": "none", "resources": {"limits": limits}}

        spec: JsonObject = {
            "terminationGracePeriodSeconds": 0,
            "containers": [made(amounts, f"main-{at}") for at, amounts in enumerate(containers)],
            "initContainers": [made(amounts, f"init-{at}") for at, amounts in enumerate(first)],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        return self.api.create(PODS, body, namespace="default")

    def end(self, *names: str) -> None:
        for name in names:
            self.api.delete(PODS, name, namespace="default")
        eventually("their claims are gone", lambda: not [c for c in self.claims() if c.partition("-ext")[0] in names])

    def is_placed(self, name: str) -> bool:
        return bool(self.api.get(PODS, name, namespace="default")["spec"].get("nodeName"))

    def placed(self, *names: str) -> None:
        eventually(f"all of {names} are placed", lambda: all(map(self.is_placed, names)), timeout_s=SOON_S)

    def claims(self) -> dict[str, list[str]]:
        """The claims and their devices."""
        found = {}
        for item in self.api.list(RESOURCE_CLAIMS, namespace="default").items:
            results = item.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            found[item["metadata"]["name"]] = sorted(result["device"] for result in results)
        return found

    def devices_of(self, name: str) -> list[str]:
        (found,) = (devices for claim, devices in self.claims().items() if claim.startswith(f"{name}-extended-res"))
        return found

    def holders(self) -> dict[str, set[tuple[str, str]]]:
        """By device, the pods and containers that the Device objects show."""
        return {
            item["spec"]["deviceName"]: {
                (pod["name"], container)
                for allocation in item.get("status", {}).get("allocations", ())
                for pod in allocation.get("pods", ())
                for container in pod.get("containers", ())
            }
            for item in self.nodes.devices(NODE)
        }

    def event(self, name: str) -> JsonObject:
        """The Event that Rootport has written on a pod, once it has."""

        def found() -> list[JsonObject]:
            items = self.api.list(EVENTS_K8S_IO, namespace="default").items
            mine = [item for item in items if item["reportingController"] == "rootport.dev/controller"]
            return [item for item in mine if item["regarding"]["name"] == name]

        event: JsonObject = eventually(f"an Event on {name}", found, timeout_s=SOON_S)[-1]
        return event

    def explained(self, *more: str) -> dict[str, Any]:
        """What the command says."""
        options = ("--namespace=default", f"--kubeconfig={self.plane.kubeconfig}", "--output=json")
        command = [sys.executable, "-m", "driver.cli.entry", "explain", *more, *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPO, timeout=SOON_S)
        assert ran.stdout, ran.stderr
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer


@pytest.fixture
def cluster(scheduling: ControlPlane) -> Iterator[Cluster]:
    made = Cluster(scheduling)
    yield made
    scheduling.kubectl("delete", "resourcequotas,pods", "--all", "--namespace=default", "--force")
    eventually("no claim is left", lambda: not made.claims(), timeout_s=SOON_S)
    made.nodes.clear()


def test_pods_share_out_the_gpus_and_the_one_that_waits_is_explained(
    scheduling: ControlPlane, cluster: Cluster
) -> None:
    with Leader(scheduling, Layout.FULL) as leader:
        eventually("the slices", lambda: cluster.nodes.visible(NODE))
        for name in ("one", "two"):
            cluster.ask(name, {GPU: 1}, {})
            cluster.placed(name)
        cluster.ask("three", {GPU: 1})
        gpus = cluster.devices_of("one") + cluster.devices_of("two")
        assert len({name for name in gpus if name.startswith("gpu-0")}) == 2
        wanted = {name: {(pod, "main-0")} for name, pod in zip(gpus, ("one", "two"), strict=True)}
        eventually("the Device objects", lambda: {k: v for k, v in cluster.holders().items() if v} == wanted)

        event = cluster.event("three")
        assert (event["reason"], event["type"]) == ("DevicesInUse", "Warning")
        found = cluster.explained("pod/three")
        assert (found["reason"], found["fits"], found["known"]) == ("DevicesInUse", False, True)
        assert [item["name"] for item in found["claims"]] == [EXTENDED_CLAIM]
        everything = cluster.explained()
        assert [item["subject"]["name"] for item in everything["items"]] == ["three"]
        listed = eventually("it is listed", lambda: [item for item in leader.pending if item.reason])
        assert [(item.name, item.pods, item.reason) for item in listed] == [
            (EXTENDED_CLAIM, ("three",), "DevicesInUse")
        ]

        cluster.end("one")
        cluster.placed("three")
        eventually("nothing is pending", lambda: not leader.pending)
        assert cluster.devices_of("three") == [gpus[0]]
        wanted = {gpus[0]: {("three", "main-0")}, gpus[1]: {("two", "main-0")}}
        eventually("the Device objects", lambda: {k: v for k, v in cluster.holders().items() if v} == wanted)
    assert cluster.explained("pod/three")["reason"] == "Allocated"


def test_a_pod_with_several_resources_and_init_containers_has_what_explain_says(
    scheduling: ControlPlane, cluster: Cluster
) -> None:
    with Leader(scheduling, Layout.FULL):
        eventually("the slices", lambda: cluster.nodes.visible(NODE))
        # The second init container asks for one more than the containers after it have.
        cluster.ask("fits", {GPU: 1}, {RDMA: 1}, first=({GPU: 1}, {GPU: 2, RDMA: 1}))
        cluster.placed("fits")
        had = cluster.devices_of("fits")
        assert [name.partition("-")[0] for name in had] == ["gpu", "gpu", "rdma"]
        containers = {"init-0", "init-1", "main-0", "main-1"}
        eventually(
            "the Device objects", lambda: {name for _, name in set().union(*cluster.holders().values())} == containers
        )
        cluster.ask("waits", {GPU: 1, RDMA: 1}, first=({RDMA: 2},))
        assert cluster.event("waits")["reason"] == "DevicesInUse"
        cluster.ask("never", {GPU: 3}, {RDMA: 1})
        assert cluster.event("never")["reason"] == "ClassSelectsTooFew"
        assert not cluster.is_placed("waits")
        cluster.end("fits")
        cluster.placed("waits")
        assert not cluster.is_placed("never")


def test_modes_follow_pods_that_ask_for_partitions(scheduling: ControlPlane, cluster: Cluster) -> None:
    with Leader(scheduling, Layout.ONE):
        eventually("the slices", lambda: cluster.nodes.visible(NODE))
        assert not any(name.startswith("mig") for name in cluster.nodes.visible(NODE))
        names = [f"small-{at}" for at in range(3)]
        for name in names:
            cluster.ask(name, {MIG: 1})
        cluster.placed(*names)
        assert all("-1g-10gb" in cluster.devices_of(name)[0] for name in names)
        # One GPU is left as it is.
        cluster.ask("whole", {GPU: 1})
        cluster.placed("whole")


def test_a_node_with_a_device_plugin_gives_its_own_until_that_has_nothing(
    scheduling: ControlPlane, cluster: Cluster
) -> None:
    with Leader(scheduling, Layout.FULL):
        eventually("the slices", lambda: cluster.nodes.visible(NODE))
        cluster.offer(**{GPU: "1"})
        cluster.ask("plugin", {GPU: 1})
        cluster.placed("plugin")
        assert cluster.claims() == {}
        cluster.ask("waits", {GPU: 1})
        found = eventually("an answer", lambda: cluster.explained("pod/waits"))
        assert (found["reason"], found["known"], found["fits"]) == ("ExtendedResourceNotEvaluated", False, False)
        assert not cluster.is_placed("waits")
        # As the kubelet writes it when the plugin has ended.
        cluster.offer(**{GPU: "0"})
        cluster.placed("waits")
        assert len(cluster.devices_of("waits")) == 1
        cluster.ask("nothing", {GPU: 0})
        cluster.placed("nothing")
        assert len(cluster.claims()) == 1


def test_quota_counts_a_pod_once(scheduling: ControlPlane, cluster: Cluster) -> None:
    hard = {f"requests.{GPU}": "2", "count/resourceclaims.resource.k8s.io": "1"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    scheduling.kubectl("apply", "--namespace=default", "--filename=-", input=json.dumps(quota))

    def used() -> dict[str, str]:
        text = scheduling.kubectl("get", "resourcequota", "gpus", "--namespace=default", "--output=json")
        found: dict[str, str] = json.loads(text).get("status", {}).get("used", {})
        return found

    with Leader(scheduling, Layout.FULL):
        eventually("the quota is counted", lambda: used().get(f"requests.{GPU}") == "0")
        eventually("the slices", lambda: cluster.nodes.visible(NODE))
        cluster.ask("one", {GPU: 1})
        cluster.placed("one")
        eventually(
            "one is used", lambda: used() == {f"requests.{GPU}": "1", "count/resourceclaims.resource.k8s.io": "1"}
        )
        # There is a GPU, and quota for it, but none for the claim.
        cluster.ask("two", {GPU: 1})

        def refused() -> str:
            items = cluster.api.list(EVENTS_K8S_IO, namespace="default").items
            notes = [item["note"] for item in items if item["regarding"]["name"] == "two"]
            return next((note for note in notes if "exceeded quota" in note), "")

        assert "count/resourceclaims" in eventually("the scheduler's Event", refused, timeout_s=SOON_S)
        assert not cluster.is_placed("two")
        found = cluster.explained("pod/two")
        assert (found["reason"], found["fits"]) == ("ClaimNotCreated", False)
        assert found["findings"][0]["message"].startswith(
            "kube-scheduler cannot create the claim for the extended resources of pod default/two: "
        )
        assert "exceeded quota" in found["findings"][0]["message"]
        assert cluster.event("two")["reason"] == "ClaimNotCreated"
