"""The controller as a process at a real API server, with simulated nodes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from controller.cluster.informers import ClusterInformers
from controller.cluster.liveness import LivenessTracker
from controller.devices.reconciler import DeviceReconciler
from driver.adapters.kubernetes.resources import DEVICES, LEASES, NODE_INVENTORIES, NODES, RESOURCE_SLICES, JsonObject
from driver.api.gpu_policies import DEFAULT_POLICIES
from driver.model.devices import LinkLayer, RdmaPort
from driver.model.inventory import Inventory
from driver.objects.devices import device_objects
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import fpga, gpu, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.paths import REPO
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

# Short times, so that the tests are; twice a plugin's beat in these tests is 1 s.
QUICK = ("--fresh-for=2.5", "--grace-period=5")
START = REPO / "resourceclasses/crd"


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    control_plane.kubectl("apply", f"--filename={START}")
    control_plane.wait_for_crds()
    if "rootport-system" not in control_plane.kubectl("get", "namespaces", "--output=name"):
        control_plane.kubectl("create", "namespace", NAMESPACE)
    return control_plane


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.clear()
    yield made
    made.clear()


@pytest.fixture
def start(nodes: Nodes, tmp_path: Path) -> Iterator[Callable[..., Controller]]:
    """Starts a controller; all are ended with the test."""
    started: list[Controller] = []

    def run(*options: str, identity: str = "one", module: str = "controller") -> Controller:
        log = tmp_path / f"{identity}-{len(started)}.log"
        made = Controller(nodes.kubeconfig, log, *options, identity=identity, module=module)
        started.append(made)
        return made

    yield run
    for controller in started:
        controller.kill()


def machine(name: str = "node-a", *, model: str = "H100") -> Inventory:
    return node(gpu("10", model=model), gpu("11"), nic("20"), name=name)


@contextmanager
def watching(nodes: Nodes, enqueue_devices: Callable[[str], None]) -> Iterator[ClusterInformers]:
    """Run a controller's informers in this process."""
    informers = ClusterInformers(
        nodes.api,
        namespace=NAMESPACE,
        leader_lease="rootport-controller",
        liveness=LivenessTracker(fresh_for_s=600, grace_s=900, max_gap_s=600),
        enqueue_node=lambda _node: None,
        enqueue_devices=enqueue_devices,
    )
    stop = threading.Event()
    threads = informers.start(stop)
    try:
        yield informers
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


def published(nodes: Nodes, name: str = "node-a", count: int = 3) -> None:
    eventually("slices", lambda: len(nodes.visible(name)) == count)
    eventually("the condition", lambda: nodes.published(name).get("status") == "True")


def settled(nodes: Nodes, name: str = "node-a", count: int = 3) -> dict[str, str]:
    """Wait until all is written; the versions."""
    published(nodes, name, count)
    eventually("device objects", lambda: len(nodes.devices(name)) == count)
    eventually("their statuses", lambda: all("conditions" in item["status"] for item in nodes.devices(name)))
    return nodes.versions()


def test_a_node_is_published_with_slices_devices_and_a_condition(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.add(machine())
    controller = start()
    settled(nodes)
    (one,) = nodes.slices("node-a")
    uid = nodes.api.get(NODES, "node-a")["metadata"]["uid"]
    assert one["spec"]["pool"] == {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    assert one["metadata"]["ownerReferences"][0]["uid"] == uid
    condition = nodes.published("node-a")
    assert condition["observedGeneration"] == 1
    assert condition["message"] == "devices: 3, ResourceSlices: 1, pool generation: 1"
    assert all(item["metadata"]["ownerReferences"][0]["uid"] == uid for item in nodes.devices("node-a"))
    assert not controller.logged("traceback")
    if os.environ.get("COVERAGE_RUN") is None:
        assert controller.rss_mb() <= 120


def test_parts_of_gpus_are_published_and_other_policies_are_published_without_a_restart(
    nodes: Nodes, start: Callable[..., Controller], tmp_path: Path
) -> None:
    policies = tmp_path / "policies.yaml"
    header = "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\n"
    policies.write_text(header)
    nodes.add(node(mig_gpu("10"), mig_gpu("11"), nic("20"), name="node-a"))
    controller = start(f"--gpu-policies={policies}", module="tests.support.quick_controller")
    with nodes.beating("node-a"):
        published(nodes, count=2 * 27 + 1)
        sets = [len(one["spec"].get("sharedCounters", ())) for one in nodes.slices("node-a")]
        assert sets == [0, 2]
        eventually("a device object for each GPU and the NIC", lambda: len(nodes.devices("node-a")) == 3)
        policies.write_text(header + "policies: [{modes: [gpu], maxShares: 4}]\n")
        eventually("the other devices cannot be allocated", lambda: len(nodes.closed("node-a")) == 2 * 26)
        eventually("whole GPUs alone", lambda: len(nodes.visible("node-a")) == 3)
        assert '"shares"' in json.dumps(nodes.slices("node-a"))
        eventually("no profile is free", lambda: '"profile"' not in json.dumps(nodes.devices("node-a")))
        before = settled(nodes)
        policies.write_text(header + "policies: [{modes: [gpus]}]\n")
        eventually("an error in the log", lambda: controller.logged("the file is wrong.*GpuPolicies"))
        assert nodes.versions() == before


def test_a_node_without_devices_has_an_empty_slice(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(node(name="node-a"))
    start()
    eventually("an empty slice", lambda: len(nodes.slices("node-a")) == 1)
    assert nodes.visible("node-a") == []


def test_one_changed_attribute_is_one_update_and_one_device(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    start()
    before = settled(nodes)
    nodes.report(machine(model="B200"))
    eventually("the new model", lambda: "B200" in str(nodes.slices("node-a")))
    eventually("the condition", lambda: nodes.published("node-a")["observedGeneration"] == 2)
    eventually("the device", lambda: any(item["spec"].get("model") == "B200" for item in nodes.devices("node-a")))
    (one,) = nodes.slices("node-a")
    assert (one["spec"]["pool"]["generation"], one["metadata"]["generation"]) == (1, 2)
    after = nodes.versions()
    changed = {key.partition("/")[0] for key in after if after[key] != before[key]}
    assert sum(after[key] != before[key] for key in after if key.startswith("devices/")) == 1
    assert changed == {"resourceslices", "devices", "nodeinventories"}


def test_vfs_by_name_are_several_slices_and_pooled_without_a_restart_when_the_policies_say_so(
    nodes: Nodes, start: Callable[..., Controller], tmp_path: Path
) -> None:
    policies = tmp_path / "nic-policies.yaml"
    header = "apiVersion: rootport.dev/v1alpha1\nkind: NicPolicies\n"
    policies.write_text(header + "policies: [{vfs: named}]\n")
    nodes.add(node(*(nic(f"{bus:02x}", vfs=64) for bus in range(3)), name="node-a"))
    start(f"--nic-policies={policies}")
    with nodes.beating("node-a"):
        eventually("192 VFs", lambda: len(nodes.visible("node-a")) == 192)
        slices = nodes.slices("node-a")
        assert [item["spec"]["pool"]["resourceSliceCount"] for item in slices] == [2, 2]
        policies.write_text(header)
        eventually("three pools", lambda: len(nodes.visible("node-a")) == 3)
        (one,) = nodes.slices("node-a")
        assert one["spec"]["pool"]["resourceSliceCount"] == 1
        pool = one["spec"]["devices"][0]
        assert pool["allowMultipleAllocations"] is True
        assert pool["capacity"]["vfs"]["value"] == "64"


def test_a_link_that_is_down_is_written_once_and_the_time_that_the_api_server_adds_stays(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    down = RdmaPort(link_layer=LinkLayer.INFINIBAND, speed_gbps=400, state="down")
    nodes.add(node(gpu("10"), nic("20", ports=(down,)), nic("21"), name="node-a"))

    def taint() -> JsonObject:
        (one,) = nodes.slices("node-a")
        (device,) = (item for item in one["spec"]["devices"] if item["name"] == "rdma-0000-20-00-0")
        taints = device.get("taints", [])
        assert len(taints) <= 1
        return dict(taints[0]) if taints else {}

    controller = start("--resync=1")
    with nodes.beating("node-a"):
        before = settled(nodes)
        added = taint()
        assert added.pop("timeAdded")
        assert added == {"key": "rootport.dev/link-down", "value": "down", "effect": "NoSchedule"}
        first = taint()["timeAdded"]
        looks = controller.log.read_text().count("looking at everything")
        eventually("two resyncs", lambda: controller.log.read_text().count("looking at everything") >= looks + 2)
        assert nodes.versions() == before
        nodes.report(node(gpu("10", model="B200"), nic("20", ports=(down,)), nic("21"), name="node-a"))
        eventually("the new model", lambda: "B200" in str(nodes.slices("node-a")))
        assert taint()["timeAdded"] == first
        nodes.report(node(gpu("10", model="B200"), nic("20"), nic("21"), name="node-a"))
        eventually("no taint", lambda: not taint())


def test_more_devices_than_a_slice_holds_are_several_slices(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nics = [nic(f"{bus:02x}") for bus in range(128)]
    nodes.add(node(*nics, *(fpga(f"{bus:02x}") for bus in range(128, 192)), name="node-a"))
    start()
    eventually("128 NICs and 64 FPGAs", lambda: len(nodes.visible("node-a")) == 192)
    slices = nodes.slices("node-a")
    assert [item["spec"]["pool"]["resourceSliceCount"] for item in slices] == [2, 2]
    nodes.report(machine())
    eventually("three devices", lambda: len(nodes.visible("node-a")) == 3)
    (one,) = nodes.slices("node-a")
    assert one["spec"]["pool"]["resourceSliceCount"] == 1


def test_wiped_slices_come_back(nodes: Nodes, installed: ControlPlane, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    start()
    settled(nodes)
    (uid,) = (item["metadata"]["uid"] for item in nodes.slices("node-a"))
    for _ in range(3):
        installed.kubectl(
            "delete", "resourceslices", "--field-selector=spec.driver=rootport.dev,spec.nodeName=node-a", "--wait=false"
        )
        eventually(
            "new slices",
            lambda uid=uid: (found := nodes.slices("node-a")) and found[0]["metadata"]["uid"] != uid,
        )
        (uid,) = (item["metadata"]["uid"] for item in nodes.slices("node-a"))


def test_somebody_elses_change_is_undone(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    start()
    settled(nodes)
    (one,) = nodes.slices("node-a")
    one["spec"]["devices"] = one["spec"]["devices"][:1]
    nodes.api.replace(RESOURCE_SLICES, one)
    eventually("all devices again", lambda: len(nodes.visible("node-a")) == 3)


def test_a_restart_with_nothing_changed_writes_nothing(nodes: Nodes, start: Callable[..., Controller]) -> None:
    for number in range(5):
        nodes.add(machine(f"node-{number}"))
    first = start()
    for number in range(5):
        settled(nodes, f"node-{number}")
    assert first.stop() == 0
    before = nodes.versions()
    second = start("--resync=1")
    eventually("two resyncs", lambda: second.log.read_text().count("looking at everything") >= 3)
    assert nodes.versions() == before
    assert not second.logged("slices written|devices written")


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "claims can be prepared",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize("is_released", [True, False], ids=["ended", "killed"])
def test_a_node_is_ready_no_longer_than_its_plugin_is_heard(
    nodes: Nodes, start: Callable[..., Controller], *, is_released: bool
) -> None:
    def ready() -> JsonObject:
        conditions = nodes.api.get(NODE_INVENTORIES, "node-a")["status"]["conditions"]
        return next(item for item in conditions if item["type"] == "Ready")

    def report_ready() -> None:
        body: JsonObject = {"metadata": {"name": "node-a"}, "status": {"conditions": [READY]}}
        nodes.api.apply(NODE_INVENTORIES, body, field_manager="rootport-kubelet-plugin", subresource="status")

    nodes.add(machine())
    start(*(() if is_released else QUICK))
    with nodes.beating("node-a"):
        published(nodes)
        report_ready()
    if is_released:
        nodes.api.merge_patch(LEASES, "node-a", {"spec": {"holderIdentity": ""}}, namespace=NAMESPACE)
    assert ready()["status"] == "True"
    eventually("it is not known", lambda: ready()["status"] == "Unknown", timeout_s=15)
    assert ready()["reason"] == "PluginNotHeard"
    assert len(nodes.visible("node-a")) == 3
    eventually("the other condition stays", lambda: nodes.published("node-a"))
    with nodes.beating("node-a"):
        report_ready()
        eventually("it is ready", lambda: ready()["status"] == "True")
        before = nodes.versions()
        time.sleep(1)
        assert nodes.versions() == before
        assert nodes.published("node-a")["status"] == "True"


def test_a_silent_node_loses_its_slices_and_gets_them_back(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    nodes.add(machine("node-b"))
    with nodes.beating("node-b"):
        controller = start(*QUICK)
        with nodes.beating("node-a"):
            settled(nodes)
        eventually("no slices", lambda: not nodes.slices("node-a"))
        assert nodes.published("node-a")["reason"] == "NodeSilent"
        assert len(nodes.visible("node-b")) == 3
        # A controller that starts now has never heard node-a: it must not publish it for that.
        controller.stop()
        second = start(*QUICK, "--log-level=debug")
        eventually("a pass", lambda: second.logged("node=node-a action=keep"))
        assert not nodes.slices("node-a")
        with nodes.beating("node-a"):
            published(nodes)


def test_a_quiet_nodes_wiped_slices_stay_away(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    controller = start("--fresh-for=2", "--grace-period=600", "--log-level=debug")
    settled(nodes)
    eventually("quiet", lambda: controller.logged("node=node-a action=keep"))
    (one,) = nodes.slices("node-a")
    nodes.api.delete(RESOURCE_SLICES, one["metadata"]["name"])
    kept = controller.log.read_text().count("action=keep")
    eventually("another pass", lambda: controller.log.read_text().count("action=keep") > kept)
    assert not nodes.slices("node-a")
    nodes.beat("node-a")
    published(nodes)


def test_all_of_a_deleted_node_goes(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    nodes.add(machine("node-b"))
    start()
    settled(nodes)
    settled(nodes, "node-b")
    nodes.api.delete(NODES, "node-a")
    eventually("no slices", lambda: not nodes.slices("node-a"))
    eventually("no devices", lambda: not nodes.devices("node-a"))
    assert not nodes.exists(NODE_INVENTORIES, "node-a")
    assert not nodes.exists(LEASES, "node-a", namespace=NAMESPACE)
    assert len(nodes.visible("node-b")) == 3
    nodes.add(machine())
    settled(nodes)


def test_orphans_of_a_node_that_went_while_no_controller_ran_are_removed(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.add(machine())
    first = start()
    settled(nodes)
    first.stop()
    nodes.api.delete(NODE_INVENTORIES, "node-a")
    start()
    eventually("no slices", lambda: not nodes.slices("node-a"))
    eventually("no devices", lambda: not nodes.devices("node-a"))


def test_an_inventory_waits_for_its_node(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine(), with_node=False)
    controller = start("--log-level=debug")
    eventually("a pass", lambda: controller.logged("await node"))
    assert not nodes.slices("node-a")
    nodes.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
    settled(nodes)


def test_a_refused_inventory_keeps_what_is_published_and_the_condition_has_the_reason(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.add(machine())
    controller = start()
    settled(nodes)
    bad = nodes.api.get(NODE_INVENTORIES, "node-a")
    bad["spec"]["gpus"][1]["address"] = bad["spec"]["gpus"][0]["address"]
    nodes.api.replace(NODE_INVENTORIES, bad)
    eventually("the condition", lambda: nodes.published("node-a")["status"] == "False")
    condition = nodes.published("node-a")
    assert (condition["reason"], condition["observedGeneration"]) == ("InvalidInventory", 2)
    assert "0000:10:00.0" in condition["message"]
    assert len(nodes.visible("node-a")) == 3
    assert controller.logged("level=error .*InvalidInventory")
    assert not controller.logged("traceback")
    nodes.report(replace(machine(), notes=("good again",)))
    published(nodes)


def test_a_deleted_device_object_comes_back(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    start()
    settled(nodes)
    name = nodes.devices("node-a")[0]["metadata"]["name"]
    nodes.api.delete(DEVICES, name)
    eventually("the object", lambda: nodes.exists(DEVICES, name))


def test_a_restart_of_the_api_server_costs_no_slice(
    nodes: Nodes, installed: ControlPlane, start: Callable[..., Controller]
) -> None:
    nodes.add(machine())
    with nodes.beating("node-a"):
        # Away for longer than the leader's deadline: the controller ends, as it must, and its successor is as patient.
        start(*QUICK)
        uids = {item["metadata"]["uid"] for item in (settled(nodes), nodes.slices("node-a"))[1]}
        installed.stop_api_server()
        installed.start_api_server()
        nodes.report(machine(model="B200"))
        eventually("the new model", lambda: "B200" in str(nodes.slices("node-a")), timeout_s=40)
        assert {item["metadata"]["uid"] for item in nodes.slices("node-a")} == uids


def test_two_controllers_one_writes_and_the_other_takes_over(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(machine())
    with nodes.beating("node-a"):
        first = start(identity="first")
        eventually("a leader", first.leads)
        second = start(identity="second")
        settled(nodes)
        assert not second.leads()
        assert first.stop() == 0
        assert first.logged("lease released")
        eventually("a new leader", second.leads, timeout_s=8)
        third = start(identity="third")
        second.kill()
        eventually("a new leader", third.leads, timeout_s=25)
        nodes.report(machine(model="B200"))
        eventually("the new model", lambda: "B200" in str(nodes.slices("node-a")))


def test_a_leader_that_lost_its_lease_ends_with_an_error(nodes: Nodes, start: Callable[..., Controller]) -> None:
    controller = start()
    eventually("a leader", controller.leads)
    theft = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}}
    nodes.api.merge_patch(LEASES, "rootport-controller", theft, namespace=NAMESPACE)
    assert controller.process.wait(15) == 1
    assert controller.logged("Lease is lost")


def test_a_status_without_room_for_the_reason_does_not_keep_a_silent_nodes_slices(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.add(machine())
    moment = "2026-01-01T00:00:00Z"
    full = [
        {"type": f"Theirs{at}", "status": "True", "reason": "Full", "message": "", "lastTransitionTime": moment}
        for at in range(16)
    ]
    nodes.api.merge_patch(NODE_INVENTORIES, "node-a", {"status": {"conditions": full}}, subresource="status")
    controller = start(*QUICK)
    eventually("slices", lambda: len(nodes.visible("node-a")) == 3)
    eventually("no slices", lambda: not nodes.slices("node-a"))
    assert controller.logged("the condition is refused")
    assert not controller.logged("traceback")


def test_the_heartbeat_of_a_plugin_that_outlived_its_node_is_removed_once_it_ends(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.beat("gone")
    nodes.add(machine())
    nodes.add(machine("node-b"))
    with nodes.beating("node-a"):
        with nodes.beating("gone"):
            start(*QUICK)
            published(nodes, "node-b")
            # By then a grace period has passed. As long as somebody renews a Lease, it is somebody's.
            eventually("node-b silent", lambda: not nodes.slices("node-b"))
            assert nodes.exists(LEASES, "gone", namespace=NAMESPACE)
        eventually("no Lease", lambda: not nodes.exists(LEASES, "gone", namespace=NAMESPACE))
        assert nodes.exists(LEASES, "node-a", namespace=NAMESPACE)


def test_a_slice_in_a_pool_that_no_node_can_be_named_like_is_removed(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    pool = {"name": "rack/1", "generation": 1, "resourceSliceCount": 1}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "foreign"},
        "spec": {"driver": "rootport.dev", "allNodes": True, "pool": pool, "devices": []},
    }
    nodes.api.create(RESOURCE_SLICES, body)
    controller = start()
    eventually("no slice", lambda: not nodes.exists(RESOURCE_SLICES, "foreign"))
    assert not controller.logged("will be tried again")


def test_a_node_of_very_many_devices_does_not_delay_the_others(nodes: Nodes) -> None:
    """Device objects are written slowly: those of thousands of VFs would take minutes."""
    nodes.add(machine())
    with watching(nodes, lambda _label: None) as informers:
        reconciler = DeviceReconciler(
            nodes.api,
            informers=informers,
            policies=lambda: DEFAULT_POLICIES,
            stop=threading.Event(),
            pause=lambda: None,
            most_writes=2,
        )
        eventually("all objects", lambda: informers.devices_are_synced)
        assert reconciler.reconcile("node-a") is not None
        assert len(nodes.devices("node-a")) == 2
        eventually("two devices seen", lambda: len(informers.devices("node-a")) == 2)
        assert reconciler.reconcile("node-a") is not None
        assert len(nodes.devices("node-a")) == 3
        eventually("three devices seen", lambda: len(informers.devices("node-a")) == 3)
        eventually("all statuses", lambda: reconciler.reconcile("node-a") is None)
        assert all("conditions" in item["status"] for item in nodes.devices("node-a"))
        nodes.api.delete(NODE_INVENTORIES, "node-a")
        eventually("all gone", lambda: informers.inventory("node-a") is None and len(informers.devices("node-a")) == 3)
        assert reconciler.reconcile("node-a") is not None
        assert len(nodes.devices("node-a")) == 1
        eventually("one device seen", lambda: len(informers.devices("node-a")) == 1)
        assert reconciler.reconcile("node-a") is None
        assert not nodes.devices("node-a")


def test_slow_writes_end_after_a_second_and_the_next_reconciliation_goes_on(nodes: Nodes) -> None:
    now = 0.0

    def pause() -> None:
        nonlocal now
        now += 0.6

    nodes.add(machine())
    with watching(nodes, lambda _label: None) as informers:
        reconciler = DeviceReconciler(
            nodes.api,
            informers=informers,
            policies=lambda: DEFAULT_POLICIES,
            stop=threading.Event(),
            pause=pause,
            clock=lambda: now,
        )
        eventually("all objects", lambda: informers.devices_are_synced)
        assert reconciler.reconcile("node-a") is not None
        assert len(nodes.devices("node-a")) == 2
        eventually("two devices seen", lambda: len(informers.devices("node-a")) == 2)
        eventually("everything", lambda: reconciler.reconcile("node-a") is None)
        assert len(nodes.devices("node-a")) == 3
        assert all("conditions" in item["status"] for item in nodes.devices("node-a"))


def test_device_objects_that_were_there_before_are_enqueued_however_late_they_are_read(nodes: Nodes) -> None:
    """Without an inventory nothing else names them: they would stay until the next resync."""
    nodes.add(machine("node-x"), with_node=False)
    body = device_objects(machine())[0].to_wire()
    body.pop("status")
    nodes.api.create(DEVICES, body)
    labels: set[str] = set()
    with watching(nodes, labels.add):
        eventually("the orphan's label", lambda: "node-a" in labels)


def test_a_status_that_this_process_wrote_enqueues_nothing_and_another_does(nodes: Nodes) -> None:
    body = device_objects(machine())[0].to_wire()
    body.pop("status")
    metadata = {"name": nodes.api.create(DEVICES, body)["metadata"]["name"]}
    enqueued: list[str] = []
    with watching(nodes, enqueued.append) as informers:
        eventually("the device", lambda: informers.devices("node-a") and enqueued)

        def seen(state: str) -> None:
            (before,) = informers.devices("node-a")
            wanted = {"metadata": metadata, "status": {"state": state}}
            if state == "Healthy":
                informers.expected_devices.expect(metadata["name"], status=wanted["status"])
            nodes.api.apply(DEVICES, wanted, field_manager="test", subresource="status")
            eventually("the status", lambda: informers.devices("node-a") != [before])

        enqueued.clear()
        seen("Healthy")
        seen("Unhealthy")
        eventually("the label", lambda: enqueued)
        assert enqueued == ["node-a"]


def test_a_node_with_the_name_of_the_leaders_lease_does_not_take_it_along(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rootport-controller"}})
    nodes.report(machine("rootport-controller"))
    start()
    settled(nodes, "rootport-controller")
    uid = nodes.api.get(LEASES, "rootport-controller", namespace=NAMESPACE)["metadata"]["uid"]
    nodes.api.delete(NODES, "rootport-controller")
    eventually("no devices", lambda: not nodes.devices("rootport-controller"))
    eventually("no inventory", lambda: not nodes.exists(NODE_INVENTORIES, "rootport-controller"))
    nodes.add(machine())
    published(nodes)
    assert nodes.api.get(LEASES, "rootport-controller", namespace=NAMESPACE)["metadata"]["uid"] == uid
