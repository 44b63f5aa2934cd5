"""Every example runs on the real node, with Rootport installed by Helm, and its pods say what their devices are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from driver.model.managed_nodes import LABEL, MANAGED, TAINT
from tests.support.cluster.hardware import switch_of
from tests.support.cluster.helm_release import HelmRelease
from tests.support.cluster.interfaces import add_interfaces, interfaces, remove_interfaces
from tests.support.cluster.ledger import oversold
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.cluster.strategies import hami_core_installed, offered_strategies, policies
from tests.support.paths import REPO

EXAMPLES = REPO / "examples"
OF_OPERATORS = {"jobset", "leaderworkerset"}
"""Their controllers are not on the node: tests/cluster/queues checks them against their CustomResourceDefinitions."""
WHOLE_DEVICES = ("gpu", "four-gpus", "best-linked-gpus", "gpu-nic-pair", "gpu-nic-ladder", "eight-gpu-nic-pairs")


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()) if document]


def logs(rootport: RunningRootport, name: str) -> dict[str, str]:
    """Pod to what it says, of an example whose pods end by themselves."""
    found = [document["metadata"] for document in documents(name) if document["kind"] == "Pod"]
    rootport.apply(EXAMPLES / f"{name}.yaml")
    try:
        pods = [(metadata["name"], metadata.get("namespace", "default")) for metadata in found]
        for pod, namespace in pods:
            rootport.cluster.wait_for_pod(pod, "Succeeded", namespace=namespace)
        claims = rootport.cluster.get("resourceclaims", "--all-namespaces")["items"]
        assert oversold(claims, rootport.slices()) == []
        return {pod: rootport.cluster.kubectl("logs", pod, f"--namespace={namespace}") for pod, namespace in pods}
    finally:
        rootport.delete(EXAMPLES / f"{name}.yaml")


def logs_of_one_gpu(rootport: RunningRootport, name: str) -> dict[str, str]:
    """Pod to what it says, of an example with its claims held to GPU 0 and its pods running side by side.

    As written, kube-scheduler may choose two GPUs: it counts a share twice between placing a pod and seeing it placed.
    """
    changed = documents(name)
    term = f'device.attributes["rootport.dev"].pcieSwitch == "{switch_of(rootport.host.gpus[0])}"'
    pods = []
    for document in changed:
        if document["kind"] == "Pod":
            (container,) = document["spec"]["containers"]
            says = container["command"][-1].removesuffix("; sleep 15")
            container["command"][-1] = f"{says}; trap 'exit 0' TERM; sleep 100000 & wait"
            pods.append(document["metadata"]["name"])
        else:
            spec = document["spec"].get("spec", document["spec"])
            for request in spec["devices"]["requests"]:
                for part in request.get("firstAvailable") or [request["exactly"]]:
                    part.setdefault("selectors", []).append({"cel": {"expression": term}})
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*changed))

    def said(pod: str) -> str:
        return rootport.cluster.kubectl("logs", pod, check=False)

    for pod in pods:
        rootport.cluster.wait_for_pod(pod, "Running")
        wait_until(f"{pod} says what it sees", lambda pod=pod: "/dev/nvidia0" in said(pod), timeout_s=30)
    found = {pod: said(pod) for pod in pods}
    assert {pod: seen_gpus(rootport, log) for pod, log in found.items()} == {pod: {0} for pod in pods}
    claims = rootport.cluster.list(RESOURCE_CLAIMS)
    assert oversold(claims, rootport.slices()) == []
    assert sum(bool(item["status"].get("allocation")) for item in claims) == len(pods) > 1, "all at once"
    return found


def variables(log: str, suffix: str) -> list[str]:
    """The values of all lists with this ending."""
    return [
        value for found in re.findall(rf"^ROOTPORT_\w+_{suffix}=(.*)$", log, re.MULTILINE) for value in found.split(",")
    ]


def seen_gpus(rootport: RunningRootport, log: str) -> set[int]:
    """The GPUs whose device nodes a container has; those must be the ones that its variables name."""
    gpus = rootport.host.gpus
    named = {gpus.index(address) for address in variables(log, "PCI") if address in gpus}
    there = set(map(int, re.findall(r"^/dev/nvidia(\d+)$", log, re.MULTILINE)))
    assert there == named
    assert named
    return named


def test_every_example_has_a_test() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.yaml")}
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    applied = re.findall(
        r'\blogs(?:_of_one_gpu)?\(rootport, "([^"]+)"\)|(?:\bEXAMPLES / "|\bREPO / "examples/)([\w-]+)\.yaml"', source
    )
    assert names - {name for found in applied for name in found} - set(WHOLE_DEVICES) - OF_OPERATORS == set()


@pytest.mark.parametrize("name", WHOLE_DEVICES)
def test_whole_devices(rootport: RunningRootport, name: str) -> None:
    (log,) = logs(rootport, name).values()

    gpus = seen_gpus(rootport, log)
    addresses = variables(log, "PCI")
    nics = {rootport.host.nics.index(address) for address in addresses if address in rootport.host.nics}
    assert len(gpus) + len(nics) == len(addresses)
    if "nic" in name:
        assert set(map(int, re.findall(r"^/dev/infiniband/uverbs(\d+)$", log, re.MULTILINE))) == nics
        assert nics == gpus, "GPU i and NIC i share a switch on this host"


def test_half_a_gpu(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "half-gpu").values()

    assert len(seen_gpus(rootport, log)) == 1
    assert variables(log, "CORE") == ["50"]
    assert variables(log, "MEMORY") == [str(39 << 30)]


def test_three_pods_on_one_gpu(rootport: RunningRootport) -> None:
    """Or on two: kube-scheduler 1.36 counts a share twice between placing a pod and seeing it placed."""
    found = logs(rootport, "three-pods-one-gpu")

    held = [seen_gpus(rootport, log) for log in found.values()]
    assert [len(gpus) for gpus in held] == [1, 1, 1]
    assert len(set.union(*held)) <= 2
    assert sorted(int(variables(log, "CORE")[0]) for log in found.values()) == [20, 30, 50]


def test_two_pods_of_memory_alone_on_one_gpu(rootport: RunningRootport) -> None:
    found = logs_of_one_gpu(rootport, "memory-only")

    assert [variables(log, "CORE") for log in found.values()] == [["0"], ["0"]]


def test_percent_and_bytes_on_one_gpu(rootport: RunningRootport) -> None:
    found = logs_of_one_gpu(rootport, "percent-and-bytes")

    assert variables(found["percent"], "MEMORY") == [str(20389 << 20)]
    assert variables(found["bytes"], "MEMORY") == [str(8 << 30)]


def test_a_mig_partition(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "mig").values()

    assert len(seen_gpus(rootport, log)) == 1
    assert variables(log, "PROFILE") == ["1g.10gb"]
    assert variables(log, "UUID")[0].startswith("MIG-")
    assert len(re.findall(r"^/dev/nvidia-caps/nvidia-cap\d+$", log, re.MULTILINE)) == 2


def test_one_h100_or_else_two_a100s(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "h100-or-two-a100s").values()

    assert len(seen_gpus(rootport, log)) == 1


def seen_verbs(log: str) -> set[int]:
    """The N of the uverbs nodes that a container has."""
    return set(map(int, re.findall(r"^/dev/infiniband/uverbs(\d+)$", log, re.MULTILINE)))


def test_half_a_gpu_and_a_vf_under_its_switch(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "half-gpu-vf").values()

    (gpu,) = seen_gpus(rootport, log)
    (verbs,) = seen_verbs(log)
    assert (gpu, verbs) in {(0, number) for number in rootport.host.vf_nics[0].verbs} | {
        (7, number) for number in rootport.host.vf_nics[1].verbs
    }
    assert variables(log, "CORE") == ["50"]


def test_two_nics_for_one_gpu(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "two-nics-per-gpu").values()

    (gpu,) = seen_gpus(rootport, log)
    assert gpu in seen_verbs(log), "NIC i is under the switch of GPU i"
    assert len(seen_verbs(log)) == 2


def test_a_training_job_on_rails(rootport: RunningRootport) -> None:
    """On the one node its pods run one after the other; on two nodes: tests/cluster/joint_allocation."""
    cluster, path = rootport.cluster, EXAMPLES / "training-job.yaml"
    rootport.apply(path)
    try:
        cluster.kubectl("wait", "--for=condition=complete", "job/training-job", "--timeout=90s")
        pods = cluster.kubectl("get", "pods", "--selector=app=training-job", "--output=name").split()
        found = [cluster.kubectl("logs", pod) for pod in pods]
    finally:
        rootport.delete(path)
    assert len(found) == 2
    for log in found:
        assert seen_verbs(log) == seen_gpus(rootport, log) == {0, 1}


def test_a_nic_for_each_switch(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "nic-per-switch").values()

    gpus = seen_gpus(rootport, log)
    assert len(gpus) == 2
    assert seen_verbs(log) == gpus, "GPU i and NIC i share a switch on this host"


def test_a_nic_shared_by_bandwidth(rootport: RunningRootport) -> None:
    found = logs(rootport, "nic-bandwidth")

    assert all(len(seen_verbs(log)) == 1 for log in found.values())


def test_a_nic_shared_by_percent(rootport: RunningRootport) -> None:
    nic, tree = rootport.host.nics[6], rootport.host.tree

    def by_percent() -> list[str]:
        devices = [device for part in rootport.slices() for device in part["spec"].get("devices", [])]
        return [device["name"] for device in devices if "bandwidthRatio" in device.get("capacity", {})]

    tree.port_rate(nic, None)
    try:
        wait_until("a NIC is shared by percent", lambda: len(by_percent()) == 1, timeout_s=60)
        (log,) = logs(rootport, "nic-percent").values()
        assert seen_verbs(log) == {6}
    finally:
        tree.port_rate(nic, "400 Gb/sec (4X NDR)")
    wait_until("it is shared by bandwidth again", lambda: not by_percent(), timeout_s=60)


def test_a_vf_with_bandwidth_of_its_own(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "vf-bandwidth").values()

    assert len(seen_verbs(log)) == 1
    assert variables(log, "BANDWIDTH") == ["25000000000"]


def test_an_fpga(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "fpga").values()

    assert variables(log, "PCI") == [rootport.host.fpga]
    assert re.search("^/dev/dfl-port.0$", log, re.MULTILINE)


def test_a_vf_with_its_interface(rootport: RunningRootport) -> None:
    names = [name for nic in rootport.host.vf_nics for name in nic.interfaces]
    add_interfaces(rootport.cluster.machine, names)
    try:
        (log,) = logs(rootport, "vf-interface").values()
        assert len(seen_verbs(log)) == 1
        wait_until("it is back", lambda: set(names) <= set(interfaces(rootport.cluster.machine)), timeout_s=20)
    finally:
        remove_interfaces(rootport.cluster.machine, names)


@pytest.fixture
def inference(rootport: RunningRootport) -> Iterator[str]:
    path = EXAMPLES / "inference.yaml"
    rootport.apply(path)
    yield "deployment/inference"
    rootport.delete(path)


def test_a_deployment_scaled_from_two_to_six(rootport: RunningRootport, inference: str) -> None:
    cluster = rootport.cluster
    cluster.kubectl("rollout", "status", inference, "--timeout=60s")
    cluster.kubectl("scale", inference, "--replicas=6")
    cluster.kubectl("rollout", "status", inference, "--timeout=60s")

    names = cluster.kubectl("get", "pods", "--selector=app=inference", "--output=name").split()
    held = [frozenset(seen_gpus(rootport, cluster.kubectl("logs", name))) for name in names]
    assert len(names) == 6
    assert sorted(held.count(gpu) for gpu in set(held)) == [2, 4], "a GPU holds four quarters"
    assert oversold(cluster.get("resourceclaims")["items"], rootport.slices()) == []


@pytest.fixture(scope="module")
def with_policies(installed: HelmRelease) -> Iterator[RunningRootport]:
    """From here to the end of the module: the values that the last examples need, by an upgrade of the release.

    MPS on GPUs 2 and 3, HAMi-core on GPUs 0 and 1, roles of NICs, and placement.
    """
    running = installed.running
    gpus = running.host.gpus
    wanted = {**dict.fromkeys(gpus[2:4], "mps"), **dict.fromkeys(gpus[:2], "hamiCore")}
    values = {
        "components": {"placement": True},
        "gpuPolicies": policies({"mps": gpus[2:4], "hamiCore": gpus[:2]})["policies"],
        "devicePolicies": yaml.safe_load((EXAMPLES / "policies/device-policies.yaml").read_text())["policies"],
    }
    with hami_core_installed(running.host):
        installed.upgrade(values)
        wait_until("the GPUs are offered", lambda: offered_strategies(running) == wanted, timeout_s=60)
        yield running
    installed.roll_back()
    wait_until("all GPUs are offered for time-slicing", lambda: not offered_strategies(running), timeout_s=60)


@pytest.mark.usefixtures("with_policies")
def test_two_pods_by_mps(rootport: RunningRootport) -> None:
    found = logs(rootport, "mps")

    wait_until("the MPS daemon has ended", lambda: not rootport.mps_daemons())
    for log in found.values():
        assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50" in log
        assert re.search("^control$", log, re.MULTILINE), "the daemon's pipe"
        assert seen_gpus(rootport, log) <= {2, 3}


@pytest.mark.usefixtures("with_policies")
def test_two_pods_by_hami_core(rootport: RunningRootport) -> None:
    found = logs(rootport, "hami-core")

    assert "CUDA_DEVICE_SM_LIMIT=50" in found["hami-core-half"]
    assert "CUDA_DEVICE_SM_LIMIT=20" in found["hami-core-fifth"]
    for log in found.values():
        assert re.search("^/usr/local/vgpu/libvgpu.so$", log, re.MULTILINE)
        assert re.search("^tmpfs /tmp/vgpulock tmpfs ", log, re.MULTILINE)


@pytest.mark.usefixtures("with_policies")
def test_a_nic_by_its_role(rootport: RunningRootport) -> None:
    (log,) = logs(rootport, "nic-by-role").values()

    assert f"STORAGE_PCI={rootport.host.second_nic}\n" in log
    shown = rootport.cluster.kubectl("get", "devices.rootport.dev", "--output=yaml")
    assert "name: example.com/role" in shown
    assert "string: storage" in shown


@pytest.mark.usefixtures("with_policies")
def test_pods_on_a_managed_node(rootport: RunningRootport) -> None:
    kubectl, path = rootport.cluster.kubectl, EXAMPLES / "managed-nodes/pods.yaml"
    kubectl("label", "node", NODE_NAME, f"{LABEL}={MANAGED}")
    try:
        wait_until("the devices are tainted", lambda: rootport.all_have_taint(TAINT), timeout_s=60)
        rootport.apply(path)
        pods = [document for document in yaml.safe_load_all(path.read_text()) if document["kind"] == "Pod"]
        for name in (document["metadata"]["name"] for document in pods):
            rootport.cluster.wait_for_pod(name, "Succeeded", namespace="placed")
            said = kubectl("logs", name, "--namespace=placed")
            assert len(variables(said, "PCI")) == (2 if name == "two-gpus-0" else 1)
        events = kubectl("get", "events", "--namespace=placed", "--field-selector=reason=Placed", "--output=name")
        assert len(events.split()) == len(pods) == 6
    finally:
        rootport.delete(path)
        kubectl("label", "node", NODE_NAME, f"{LABEL}-")
    wait_until("the taint is gone", lambda: not rootport.all_have_taint(TAINT), timeout_s=60)
