"""The whole plugin without a kubelet: what it publishes, what it does not write, how it starts and how it ends."""

from __future__ import annotations

import json
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from driver.api.rootport_v1alpha1 import NodeInventory
from driver.objects.inventories import inventory_of
from kubeletplugin.protocol import dra_health_v1_pb2 as health_pb2
from kubeletplugin.protocol import dra_health_v1_pb2_grpc as health_grpc
from kubeletplugin.protocol import dra_v1_pb2, dra_v1_pb2_grpc
from kubeletplugin.protocol import plugin_registration_v1_pb2 as registration_pb2
from kubeletplugin.protocol import plugin_registration_v1_pb2_grpc as registration_grpc
from tests.support.cluster.driver import NAMESPACE
from tests.support.cluster.processes import wait_until
from tests.support.plugin_process import GPUS, NICS, Cluster, PluginNode, PluginProcess, node_info
from tests.support.pod_resources import KubeletPods
from tests.support.ports import free_port

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

MakeNode = Callable[[str], PluginNode]
NOWHERE = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """The kubeconfig of an API server that is away."""
    path = tmp_path / "nowhere.kubeconfig"
    path.write_text(NOWHERE)
    return path


@pytest.fixture
def pod_resources() -> Iterator[str]:
    """The option by which the plugin asks a kubelet that has no device plugin, and no pod with devices."""
    with tempfile.TemporaryDirectory() as folder:  # a path that is short enough for a socket
        kubelet = KubeletPods(Path(folder) / "kubelet.sock")
        kubelet.start()
        yield f"--pod-resources-socket={folder}/kubelet.sock"
        kubelet.stop()


def register(process: PluginProcess, *, accepted: bool = True, error: str = "") -> None:
    """What a kubelet does when it finds the registration socket."""
    process.wait_serving()
    with grpc.insecure_channel(f"unix:{process.registration}") as channel:
        stub = registration_grpc.RegistrationStub(channel)
        stub.GetInfo(registration_pb2.InfoRequest(), timeout=10)
        status = registration_pb2.RegistrationStatus(plugin_registered=accepted, error=error)
        stub.NotifyRegistrationStatus(status, timeout=10)


@contextmanager
def dra(node: PluginNode, instance: str = "local") -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"unix:{node.plugins / f'dra-{instance}.sock'}") as channel:
        yield channel


def probe(port: int, path: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def started(cluster: Cluster, node: PluginNode, *options: str, status: dict[str, Any] | None = None) -> PluginProcess:
    """A plugin that is registered and has said what it knows."""
    process = node.start(cluster.add_node(node.name, status=status), *options)
    register(process)
    process.wait_log("conditions published")
    return process


def test_a_node_is_published_with_all_its_devices_and_is_ready(
    cluster: Cluster, make_node: MakeNode, pod_resources: str
) -> None:
    node = make_node("published")
    # Where CDI specs lie elsewhere, only a person can say whether the runtime looks there.
    process = started(cluster, node, "--cdi-dir=/var/run/cdi", pod_resources)
    cluster.wait_condition(node.name, "Ready", "True", "Ready")
    stored = cluster.inventory(node.name)
    assert stored is not None
    inventory = inventory_of(NodeInventory.model_validate(stored))
    assert [device.address for device in inventory.devices()] == [*GPUS, *NICS]
    assert inventory.gpus[0].uuid == "GPU-00000000-0000-4000-8000-000000000000"
    assert "ownerReferences" not in stored["metadata"]
    conditions = cluster.conditions(node.name)
    assert {kind: item["status"] for kind, item in conditions.items()} == dict.fromkeys(
        (
            *("Ready", "Discovered", "Registered", "KubeletSupported", "RuntimeReadsCdi", "CdiDirectoryWritable"),
            *("StateDirectoryWritable", "NoRivalPlugin"),
        ),
        "True",
    )
    assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"] == 1
    assert process.terminate() == 0


def test_a_restart_with_nothing_changed_writes_nothing(cluster: Cluster, make_node: MakeNode) -> None:
    node = make_node("restarted")
    assert started(cluster, node).terminate() == 0
    before = cluster.inventory(node.name)
    kubeconfig = cluster.plane.service_account_kubeconfig(NAMESPACE, "rootport-kubelet-plugin", node=node.name)
    second = node.start(kubeconfig, "--log-level=debug", "--heartbeat-interval=1")
    register(second)
    renewed = cluster.lease(node.name)["spec"]["renewTime"]
    wait_until("the heartbeat", lambda: cluster.lease(node.name)["spec"]["renewTime"] != renewed, timeout_s=30)
    after = cluster.inventory(node.name)
    assert before is not None
    assert after is not None
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert "published" not in second.text()


def test_a_sighup_publishes_what_changed(cluster: Cluster, make_node: MakeNode) -> None:
    node = make_node("changed")
    process = started(cluster, node)
    (node.host / f"sys/bus/pci/devices/{NICS[0]}").unlink()
    process.signal(signal.SIGHUP)
    process.wait_log("inventory published", times=2)
    stored = cluster.inventory(node.name)
    assert stored is not None
    assert stored["spec"]["counts"] == {"gpus": 2, "nics": 1, "vfs": 0, "fpgas": 0}
    wait_until(
        "the status of generation 2",
        lambda: (cluster.inventory(node.name) or {})["status"]["observedGeneration"] == 2,
        timeout_s=20,
    )


def test_a_deleted_inventory_is_made_again(cluster: Cluster, make_node: MakeNode) -> None:
    node = make_node("deleted")
    process = started(cluster, node)
    cluster.plane.kubectl("delete", "nodeinventory", node.name)
    # The next look is a minute away; any change makes it now.
    register(process, accepted=False, error="no")
    process.wait_log("inventory published", times=2)
    cluster.wait_condition(node.name, "Registered", "False", "Refused")


def test_a_network_to_which_the_cni_plugin_cannot_be_added_is_told_and_left_as_it_is(
    cluster: Cluster, make_node: MakeNode
) -> None:
    node = make_node("chained")
    conf, programs = node.folder / "net.d", node.folder / "bin"
    conf.mkdir()
    programs.mkdir()
    (conf / "10-pods.conf").write_text('{"cniVersion": "1.0.0", "name": "pods", "type": "bridge"}')
    started(cluster, node, f"--cni-conf-dir={conf}", f"--cni-bin-dir={programs}")
    found = cluster.wait_condition(node.name, "NetworkPluginReady", "False", "NotChained")
    assert "no claim can have a network interface moved into its pod" in found["message"]
    assert [path.name for path in conf.iterdir()] == ["10-pods.conf"]
    assert (node.host / "run/rootport/cni/cni.sock").is_socket()


def test_a_look_that_fails_keeps_the_inventory_and_says_so(cluster: Cluster, make_node: MakeNode) -> None:
    node = make_node("blinded")
    process = started(cluster, node)
    (node.host / "sys").rename(node.host / "away")
    process.signal(signal.SIGHUP)
    found = cluster.wait_condition(node.name, "Discovered", "False", "DiscoveryFailed")
    assert "holds no sysfs" in found["message"]
    stored = cluster.inventory(node.name)
    assert stored is not None
    assert stored["spec"]["counts"]["gpus"] == 2
    (node.host / "away").rename(node.host / "sys")
    cluster.wait_condition(node.name, "Discovered", "True", "Discovered")


def test_rivals_and_old_runtimes_are_told(cluster: Cluster, make_node: MakeNode, pod_resources: str) -> None:
    node = make_node("rivalled")
    device = {"name": "gpu-0", "attributes": {"resource.kubernetes.io/pciBusID": {"string": GPUS[1]}}}
    rival = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "rival"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    }
    cluster.plane.kubectl("create", "--filename=-", input=json.dumps(rival))
    status = {"nodeInfo": node_info(runtime="containerd://1.6.9"), "capacity": {"nvidia.com/gpu": "2"}}
    process = started(cluster, node, pod_resources, "--rival-hold=0", status=status)
    found = cluster.wait_condition(node.name, "NoRivalPlugin", "False", "RivalPlugin")["message"]
    assert "nvidia.com/gpu: 2" in found
    assert f"DRA driver gpu.example.com publishes {GPUS[1]}" in found
    assert "kubectl label node rivalled" in found
    cluster.wait_condition(node.name, "RuntimeReadsCdi", "False", "RuntimeTooOld")
    cluster.wait_condition(node.name, "Ready", "False", "RuntimeTooOld")
    # A person acts; the kubelet's next registration has it checked anew.
    cluster.plane.kubectl("delete", "resourceslice", "rival")
    capacity = {"nvidia.com/gpu": "0"}
    cluster.set_node_status(node.name, {"nodeInfo": node_info(), "capacity": capacity})
    register(process)
    cluster.wait_condition(node.name, "Ready", "True", "Ready")


def test_a_rival_that_comes_or_goes_is_noticed_at_once(
    cluster: Cluster, make_node: MakeNode, pod_resources: str
) -> None:
    node = make_node("watched")
    started(cluster, node, pod_resources, "--rival-hold=0")
    cluster.wait_condition(node.name, "NoRivalPlugin", "True", "NoRival")

    def rivals() -> dict[str, list[str]]:
        status = (cluster.inventory(node.name) or {}).get("status", {})
        return {f"{item['kind']} {item['name']}": item["devices"] for item in status.get("rivals", [])}

    def noticed(*expected: str) -> None:
        # The kubelet tells nothing of it here, and the checks' own interval is ten minutes.
        wait_until(f"rivals {expected}", lambda: set(rivals()) == set(expected), timeout_s=15, step_s=0.2)

    names = [f"gpu-{address.replace(':', '-').replace('.', '-')}" for address in GPUS]
    cluster.set_node_status(node.name, {"capacity": {"koordinator.sh/gpu-core": "200"}})
    noticed("DevicePlugin koordinator.sh/gpu-core")
    assert rivals()["DevicePlugin koordinator.sh/gpu-core"] == names
    cluster.wait_condition(node.name, "NoRivalPlugin", "False", "RivalPlugin")
    device = {"name": "gpu-0", "attributes": {"resource.kubernetes.io/pciBusID": {"string": GPUS[1]}}}
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    rival = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "watched-rival"},
        "spec": {"driver": "gpu.example.com", "nodeName": node.name, "pool": pool, "devices": [device]},
    }
    cluster.plane.kubectl("create", "--filename=-", input=json.dumps(rival))
    noticed("DevicePlugin koordinator.sh/gpu-core", "DRADriver gpu.example.com")
    assert rivals()["DRADriver gpu.example.com"] == names[1:]
    cluster.set_node_status(node.name, {"capacity": {"koordinator.sh/gpu-core": "0"}})
    noticed("DRADriver gpu.example.com")
    cluster.plane.kubectl("delete", "resourceslice", "watched-rival")
    noticed()
    cluster.wait_condition(node.name, "NoRivalPlugin", "True", "NoRival")


def test_the_heartbeat_is_a_lease_that_both_instances_of_an_update_renew(cluster: Cluster, make_node: MakeNode) -> None:
    node = make_node("beating")
    kubeconfig = cluster.add_node(node.name)
    old = node.start(kubeconfig, "--heartbeat-interval=1", instance="old")
    old.wait_serving()
    new = node.start(kubeconfig, "--heartbeat-interval=1", instance="new")
    new.wait_serving()
    for holder in ("old", "new", "old"):
        wait_until(
            f"a heartbeat of {holder}",
            lambda holder=holder: cluster.lease(node.name)["spec"]["holderIdentity"] == holder,
            timeout_s=20,
        )
    assert old.terminate() == 0
    # The old one says nothing of an end: the new one serves.
    assert cluster.lease(node.name)["spec"]["holderIdentity"] in ("old", "new")
    assert new.terminate() == 0
    spec = cluster.lease(node.name)["spec"]
    assert spec["holderIdentity"] == ""
    assert spec["leaseDurationSeconds"] == 40
    assert "failed" not in old.text() + new.text()


def test_without_an_api_server_the_kubelet_is_served(nowhere: Path, make_node: MakeNode) -> None:
    node = make_node("alone")
    process = node.start(nowhere)
    register(process)
    claim = dra_v1_pb2.Claim(namespace="default", name="c", uid="1b671a64-40d5-491e-99b0-da01ff1f3341")
    with dra(node) as channel:
        stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
        undone = stub.NodeUnprepareResources(dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[claim]), timeout=20)
        asked = stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim]), timeout=30)
    assert undone.claims[claim.uid].error == ""
    assert "the API server is away" in asked.claims[claim.uid].error
    assert process.terminate() == 0


def test_the_health_stream_tells_every_device(nowhere: Path, make_node: MakeNode) -> None:
    node = make_node("healthy")
    process = node.start(nowhere)
    process.wait_serving()
    with dra(node) as channel:
        stream = health_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
            health_pb2.NodeWatchResourcesRequest(), timeout=60
        )
        first = next(stream)
        assert {device.health for device in first.devices} == {health_pb2.HealthStatus.HEALTHY}
        assert len(first.devices) == 4
        (node.host / f"sys/bus/pci/devices/{NICS[0]}").unlink()
        process.signal(signal.SIGHUP)
        sick = {d.device.device_name for d in next(stream).devices if d.health == health_pb2.HealthStatus.UNHEALTHY}
        assert sick == {"rdma-0000-14-00-0"}
        stream.cancel()


def test_probes_tell_when_the_kubelet_has_registered(nowhere: Path, make_node: MakeNode) -> None:
    node = make_node("probed")
    port = free_port()
    process = node.start(nowhere, f"--health-port={port}")
    process.wait_serving()
    assert probe(port, "/healthz") == (200, "ok\n")
    assert probe(port, "/readyz") == (503, "the kubelet has not registered the driver\n")
    register(process)
    assert probe(port, "/readyz") == (200, "ok\n")
    assert probe(port, "/else")[0] == 404


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_time_and_leaves_no_socket(
    nowhere: Path, make_node: MakeNode, number: signal.Signals
) -> None:
    node = make_node("ended")
    process = node.start(nowhere)
    process.wait_serving()
    began = time.monotonic()
    process.signal(number)
    assert process.popen.wait(12) == 0
    assert time.monotonic() - began < 10
    assert not process.registration.exists()
    assert not (node.plugins / "dra-local.sock").exists()
    assert (node.plugins / "checkpoint.json").exists()


def test_a_checkpoint_of_a_later_version_keeps_it_from_starting_and_says_so(
    cluster: Cluster, make_node: MakeNode
) -> None:
    node = make_node("newer")
    node.plugins.mkdir()
    (node.plugins / "checkpoint.json").write_text('{"version": 99, "checksum": "", "data": {}}')
    process = node.start(cluster.add_node(node.name))
    assert process.popen.wait(30) == 1
    assert "rootport-kubelet-plugin: " in process.text()
    assert "Traceback" not in process.text()
    found = cluster.wait_condition(node.name, "StateDirectoryWritable", "False", "CannotStart")
    assert "checkpoint.json" in found["message"]
    assert not process.registration.exists()


def test_without_a_checkpoint_a_folder_that_cannot_be_read_keeps_it_from_starting(
    cluster: Cluster, make_node: MakeNode
) -> None:
    """The CDI specs stand for a lost checkpoint: without either, nothing tells what is prepared."""
    node = make_node("unreadable")
    node.cdi.touch()  # a file where the folder belongs: that stops root as well
    process = node.start(cluster.add_node(node.name))
    assert process.popen.wait(30) == 1
    assert f"rootport-kubelet-plugin: the CDI folder {node.cdi} cannot be read" in process.text()
    assert "Traceback" not in process.text()
    for type_, reason in ("StateDirectoryWritable", "CannotStart"), ("CdiDirectoryWritable", "NotWritable"):
        found = cluster.wait_condition(node.name, type_, "False", reason)
        assert str(node.cdi) in found["message"]


def test_with_a_checkpoint_it_serves_and_reports_a_folder_that_cannot_be_written(
    cluster: Cluster, make_node: MakeNode
) -> None:
    node = make_node("readonly")
    kubeconfig = cluster.add_node(node.name)
    first = node.start(kubeconfig)
    register(first)
    assert first.terminate() == 0
    node.cdi.rmdir()
    node.cdi.touch()
    second = node.start(kubeconfig)
    register(second)
    found = cluster.wait_condition(node.name, "CdiDirectoryWritable", "False", "NotWritable")
    assert str(node.cdi) in found["message"]
    assert second.popen.poll() is None, second.text()


def test_the_idle_plugin_is_small(cluster: Cluster, make_node: MakeNode) -> None:
    node = make_node("small")
    process = started(cluster, node)
    assert process.rss_mib() < 75


def test_a_claim_is_prepared_with_the_rights_of_a_plugin_and_outlives_a_restart(
    cluster: Cluster, make_node: MakeNode
) -> None:
    node = make_node("preparing")
    give_driver(node.host)
    claim = allocated_claim(cluster, node.name, "gpu-0000-13-00-0")
    process = started(cluster, node)
    asked = dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim])
    with dra(node) as channel:
        first = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(asked, timeout=30).claims[claim.uid]
    assert first.error == ""
    assert [device.device_name for device in first.devices] == ["gpu-0000-13-00-0"]
    assert process.terminate() == 0
    (spec,) = node.cdi.iterdir()
    assert f"{node.host}/dev/nvidia0" in spec.read_text()
    # Without an API server, as the next process finds it: the same answer, then nothing is left.
    node.start(cluster.plane.token_kubeconfig("nobody", "no-such-token")).wait_serving()
    with dra(node) as channel:
        stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
        assert stub.NodePrepareResources(asked, timeout=30).claims[claim.uid] == first
        undone = stub.NodeUnprepareResources(dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[claim]), timeout=30)
    assert undone.claims[claim.uid].error == ""
    assert list(node.cdi.iterdir()) == []


def give_driver(host: Path) -> None:
    """Driver files and device nodes, all of them plain files: nothing opens them here."""
    names = [f"dev/nvidia{name}" for name in ("0", "1", "ctl", "-uvm", "-uvm-tools")]
    names += [f"dev/infiniband/{name}{number}" for name in ("uverbs", "umad", "issm") for number in range(2)]
    for name in (*names, "usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"):
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).touch()


def allocated_claim(cluster: Cluster, node: str, device: str) -> dra_v1_pb2.Claim:
    """A claim as the scheduler leaves it."""
    name = f"claim-{node}"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    cluster.plane.kubectl("create", "--filename=-", input=json.dumps(body))
    result = {"request": "gpu", "driver": "rootport.dev", "pool": node, "device": device}
    patch = json.dumps({"status": {"allocation": {"devices": {"results": [result]}}}})
    stored = cluster.plane.kubectl(
        *("patch", "resourceclaim", name, "--subresource=status", "--type=merge", f"--patch={patch}", "--output=json")
    )
    return dra_v1_pb2.Claim(namespace="default", name=name, uid=json.loads(stored)["metadata"]["uid"])
