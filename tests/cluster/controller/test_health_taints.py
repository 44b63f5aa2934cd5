"""From what a plugin says of its devices to taints in the slices, at a real API server; and taints of others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from controller.cluster.informers import ClusterInformers
from controller.cluster.liveness import LivenessTracker
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, RESOURCE_SLICES, JsonObject
from driver.api.strict import write
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault, NodeHealth
from driver.objects.faults import device_faults
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import TAINT_RULES, ControlPlane
from tests.support.machines import gpu, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

GPU = "gpu-0000-10-00-0"
XID = "rootport.dev/unhealthy=Xid79:NoExecute"
MINE = {"key": "example.com/service", "value": "ana", "effect": "NoSchedule"}
SERVICE = "example.com/service=ana:NoSchedule"
MACHINE = node(gpu("10"), gpu("11"), nic("20"))


@pytest.fixture(scope="module")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One that serves DeviceTaintRules."""
    with ControlPlane(
        tmp_path_factory.mktemp("control-plane"),
        cluster_binaries,
        taint_rules=True,
    ) as plane:
        yield plane


@pytest.fixture(scope="module")
def edited_by_hand(installed: ControlPlane) -> None:
    """Without the policy that keeps everybody but the controller from writing slices."""
    installed.kubectl("delete", "validatingadmissionpolicybinding", "rootport-resource-slices")


class Plugins(Nodes):
    """Nodes whose plugins report their devices' health."""

    def report_health(
        self,
        *faults: Fault,
        node: str = "node-a",
        watched: tuple[str, ...] = (GPU,),
        ready: str = "well",
        registered: tuple[str, str] = ("True", "Registered"),
    ) -> None:
        """Report these faults, and that all others are over."""
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": ready,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        registration = condition | {"type": "Registered", "status": registered[0], "reason": registered[1]}
        status = {
            "conditions": [condition, registration],
            "watched": list(watched),
            "faults": [write(fault) for fault in device_faults(NodeHealth(faults=faults))],
        }
        body = {"metadata": {"name": node}, "status": status}
        self.api.apply(NODE_INVENTORIES, body, field_manager="rootport-kubelet-plugin", subresource="status")

    def taints(self, node: str = "node-a") -> dict[str, list[str]]:
        """Of the devices in the slices that have any."""
        return {
            device["name"]: [f"{item['key']}={item.get('value', '')}:{item['effect']}" for item in device["taints"]]
            for one in self.slices(node)
            for device in one["spec"].get("devices", ())
            if device.get("taints")
        }

    def edit(self, device: str, change: Callable[[list[JsonObject]], list[JsonObject]]) -> None:
        """As an administrator with ``kubectl edit resourceslice``: change a device's taints."""

        def is_done() -> bool:
            for one in self.slices("node-a"):
                found = [item for item in one["spec"].get("devices", ()) if item["name"] == device]
                for item in found:
                    item["taints"] = change(item.get("taints", []))
                try:
                    if found:
                        self.api.replace(RESOURCE_SLICES, one)
                except ForbiddenError:
                    return False  # policies that are gone hold for a moment longer
            return True

        eventually("the edit", is_done)

    def times(self) -> set[str]:
        return {
            taint["timeAdded"]
            for one in self.slices("node-a")
            for device in one["spec"].get("devices", ())
            for taint in device.get("taints", ())
        }


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Plugins]:
    made = Plugins(installed.kubeconfig)
    made.clear()
    yield made
    made.clear()


def allocatable_cores(nodes: Plugins) -> list[int]:
    """Of node-a's GPUs, as their Device objects tell."""
    told = [item["status"].get("allocatable") or {} for item in nodes.devices("node-a") if "status" in item]
    return [amounts["core"] for amounts in told if "core" in amounts]


def xid(device: str = GPU, reason: str = "Xid79", effect: Effect = Effect.NO_EXECUTE) -> Fault:
    since = datetime(2026, 1, 1, 10, tzinfo=UTC)
    return Fault(device=DeviceName(device), reason=reason, effect=effect, since=since, message="it fell off the bus")


def published(nodes: Plugins, count: int = 3) -> None:
    eventually("slices", lambda: len(nodes.visible("node-a")) == count)
    eventually("the condition", lambda: nodes.published("node-a").get("status") == "True")


def test_a_fault_taints_the_device_and_its_end_lifts_the_taint(nodes: Plugins, start: Callable[[], Controller]) -> None:
    nodes.add(node(mig_gpu("10"), gpu("11"), nic("20"), name="node-a"))
    start()
    published(nodes, 29)
    with nodes.beating("node-a"):
        nodes.report_health(xid())
        eventually("taints", nodes.taints)
        tainted = nodes.taints()
        assert len(tainted) == 27
        assert {tuple(found) for found in tainted.values()} == {(XID,)}
        nodes.report_health(xid(reason="Xid48", effect=Effect.NO_SCHEDULE))
        worst = ["rootport.dev/unhealthy=Xid48:NoSchedule"]
        eventually("another taint", lambda: nodes.taints().get(GPU) == worst)
        nodes.report_health()
        eventually("no taints", lambda: not nodes.taints())
    assert len(nodes.visible("node-a")) == 29
    assert {one["spec"]["pool"]["generation"] for one in nodes.slices("node-a")} == {1}


def test_all_devices_of_a_node_whose_plugin_the_kubelet_refuses_are_tainted_until_it_takes_it(
    nodes: Plugins, start: Callable[[], Controller]
) -> None:
    nodes.add(MACHINE)
    nodes.add(MACHINE.renamed("node-b"))
    start()
    published(nodes)
    refused = "rootport.dev/cannot-prepare=Refused:NoSchedule"
    with nodes.beating("node-a", "node-b"):
        # The summary says what it said before: something else was wrong already.
        nodes.report_health(xid(), registered=("False", "Refused"))
        eventually("taints of all", lambda: len(nodes.taints()) == 3)
        taints = nodes.taints()
        assert taints.pop(GPU) == [XID, refused]
        assert list(taints.values()) == [[refused]] * 2
        eventually("the condition", lambda: refused in nodes.published("node-a")["message"])
        eventually("nothing to give", lambda: allocatable_cores(nodes) == [0, 0])
        assert nodes.taints("node-b") == {}
        nodes.report_health(registered=("Unknown", "WaitingForKubelet"))
        eventually("no taints", lambda: not nodes.taints())
        eventually("the condition", lambda: refused not in nodes.published("node-a")["message"])
        eventually("all to give", lambda: allocatable_cores(nodes) == [100, 100])


def test_only_the_slice_of_the_unhealthy_device_is_written(nodes: Plugins, start: Callable[[], Controller]) -> None:
    nodes.add(MACHINE)
    nodes.add(MACHINE.renamed("node-b"))
    start()
    published(nodes)
    eventually("node-b", lambda: len(nodes.visible("node-b")) == 3)
    (before,) = nodes.slices("node-b")
    nodes.report_health(xid())
    eventually("the taint", lambda: nodes.taints() == {GPU: [XID]})
    (one,) = nodes.slices("node-a")
    assert one["metadata"]["generation"] == 2
    assert nodes.slices("node-b") == [before]


def test_a_restart_with_an_unhealthy_device_writes_nothing(nodes: Plugins, start: Callable[[], Controller]) -> None:
    nodes.add(MACHINE)
    nodes.report_health(xid())
    first = start()
    published(nodes)
    assert nodes.taints() == {GPU: [XID]}
    assert first.stop() == 0
    (before,) = nodes.slices("node-a")
    second = start()
    eventually("a leader", second.leads)
    nodes.report_health(xid(), xid("gpu-0000-11-00-0", effect=Effect.NONE))
    nodes.report(node(gpu("10"), gpu("11", model="B200"), nic("20")))
    eventually("the new model", lambda: "B200" in str(nodes.slices("node-a")))
    (after,) = nodes.slices("node-a")
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert nodes.taints() == {GPU: [XID]}


def test_a_taint_keeps_its_time_when_its_device_moves_to_another_slice(
    nodes: Plugins, start: Callable[[], Controller]
) -> None:
    """Tolerations for some seconds count from that time."""
    nics = [nic(f"{bus:02x}") for bus in range(66)]
    last = nics[-1].name
    nodes.add(node(*nics, name="node-a"))
    start()
    published(nodes, 66)
    assert len(nodes.slices("node-a")) == 1
    nodes.report_health(xid(last))
    eventually("the taint", nodes.taints)
    assert [len(one["spec"]["devices"]) for one in nodes.slices("node-a")] == [65, 1]
    times = nodes.times()
    later = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    eventually("another second", lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") > later)
    nodes.report(node(*nics[2:], name="node-a"))
    eventually("one slice", lambda: len(nodes.visible("node-a")) == 64)
    assert nodes.taints() == {last: [XID]}
    assert nodes.times() == times


def test_slices_that_kubelet_wiped_come_back_with_their_taints(nodes: Plugins, start: Callable[[], Controller]) -> None:
    nodes.add(MACHINE)
    nodes.report_health(xid())
    start()
    published(nodes)
    (one,) = nodes.slices("node-a")
    nodes.api.delete(RESOURCE_SLICES, one["metadata"]["name"])
    eventually(
        "new slices",
        lambda: [item for item in nodes.slices("node-a") if item["metadata"]["uid"] != one["metadata"]["uid"]],
    )
    assert nodes.taints() == {GPU: [XID]}


@pytest.mark.usefixtures("edited_by_hand")
def test_an_administrators_taint_survives_rewrites_of_the_pool_and_goes_when_they_take_it_off(
    nodes: Plugins, start: Callable[[], Controller]
) -> None:
    nodes.add(MACHINE)
    controller = start()
    published(nodes)
    nodes.edit(GPU, lambda taints: [*taints, MINE])
    times = nodes.times()
    nodes.report_health(xid())
    eventually("both", lambda: nodes.taints() == {GPU: [XID, SERVICE]})
    assert times <= nodes.times()
    # All slices of the pool are written, with a new generation, when it grows by one.
    nodes.report(node(gpu("10"), gpu("11"), *(nic(f"{bus:02x}") for bus in range(0x20, 0x20 + 70)), name="node-a"))
    eventually("two slices", lambda: len(nodes.visible("node-a")) == 72)
    assert {one["spec"]["pool"]["generation"] for one in nodes.slices("node-a")} == {2}
    nodes.report_health()
    eventually("the health is back", lambda: nodes.taints() == {GPU: [SERVICE]})
    assert nodes.times() == times
    nodes.edit(GPU, lambda _taints: [])
    nodes.report_health(xid("gpu-0000-11-00-0"))
    eventually("another taint", lambda: nodes.taints() == {"gpu-0000-11-00-0": [XID]})
    assert not controller.logged("traceback|will be tried again")


@pytest.mark.usefixtures("edited_by_hand")
def test_the_taint_for_a_devices_health_is_put_back_when_somebody_takes_it_off(
    nodes: Plugins, start: Callable[[], Controller]
) -> None:
    nodes.add(MACHINE)
    nodes.report_health(xid())
    start()
    published(nodes)
    nodes.edit(GPU, lambda _taints: [MINE])
    eventually("both", lambda: nodes.taints() == {GPU: [XID, SERVICE]})


def test_device_taint_rules_are_left_alone_and_their_taints_are_in_no_slice(
    nodes: Plugins, start: Callable[[], Controller]
) -> None:
    rule: JsonObject = {
        "apiVersion": TAINT_RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "service"},
        "spec": {"deviceSelector": {"driver": "rootport.dev", "pool": "node-a", "device": GPU}, "taint": MINE},
    }
    before = nodes.api.create(TAINT_RULES, rule)
    nodes.add(MACHINE)
    start()
    published(nodes)
    nodes.report_health(xid())
    eventually("the taint", lambda: nodes.taints() == {GPU: [XID]})
    nodes.report_health()
    eventually("no taints", lambda: not nodes.taints())
    after = nodes.api.get(TAINT_RULES, "service")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    nodes.api.delete(TAINT_RULES, "service")


def test_a_change_of_health_enqueues_the_node_and_one_of_conditions_does_not(nodes: Plugins) -> None:
    nodes_due: list[str] = []
    devices_due: list[str] = []
    informers = ClusterInformers(
        KubernetesApi.connect(kubeconfig=nodes.kubeconfig),
        namespace=NAMESPACE,
        leader_lease="rootport-controller",
        liveness=LivenessTracker(fresh_for_s=600, grace_s=900, max_gap_s=600),
        enqueue_node=nodes_due.append,
        enqueue_devices=devices_due.append,
    )
    stop = threading.Event()
    nodes.report(MACHINE)
    nodes.report(MACHINE.renamed("node-b"))
    threads = informers.start(stop)
    try:
        eventually("all objects", lambda: informers.devices_are_synced)
        eventually("both nodes", lambda: {"node-a", "node-b"} <= set(devices_due))
        informers.take_specs_due("node-a")

        def after(*faults: Fault, watched: tuple[str, ...] = (GPU,), ready: str = "well") -> tuple[int, int]:
            """How often this enqueues node-a, and its devices."""
            slices, devices, seen = nodes_due.count("node-a"), devices_due.count("node-a"), nodes_due.count("node-b")
            nodes.report_health(*faults, watched=watched, ready=ready)
            nodes.report_health(node="node-b", watched=(GPU, f"gpu-{seen}"))  # comes behind it in the same watch
            eventually("node-b", lambda: nodes_due.count("node-b") > seen)
            return nodes_due.count("node-a") - slices, devices_due.count("node-a") - devices

        assert after() == (1, 1)
        assert after(ready="still well") == (0, 0)
        assert after(xid()) == (1, 1)
        assert after(xid(), ready="and well again") == (0, 0)
        assert after(xid(), xid("gpu-0000-11-00-0")) == (1, 1)
        assert after(xid(), xid("gpu-0000-11-00-0"), watched=(GPU, "gpu-0000-11-00-0")) == (1, 1)
        assert after(watched=(GPU, "gpu-0000-11-00-0")) == (1, 1)
        assert not informers.take_specs_due("node-a")
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
