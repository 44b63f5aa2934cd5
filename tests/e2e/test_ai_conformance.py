"""What Kubernetes AI Conformance asks of a cluster and a driver has to bring, a test for each requirement.

The requirements are those of its checklist for Kubernetes 1.37, the steps those of the test plans of its KARs
(https://github.com/kubernetes-sigs/ai-conformance/tree/main/kars); docs/operator/ai-conformance.md lists them.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster.interfaces import interfaces
from tests.support.cluster.pods import gpu_claim, manifest, nic_claim, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import PLUGIN_HEALTH_PORT, RunningRootport

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

GPUS: Final = "ls -d /dev/nvidia[0-9]* 2>/dev/null || true"
IN_POD: Final = "rdma0"
ADDRESSES: Final = ("192.168.77.1", "192.168.77.2")


def start(rootport: RunningRootport, *objects: dict[str, Any]) -> None:
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))
    for name in (item["metadata"]["name"] for item in objects if item["kind"] == "Pod"):
        rootport.cluster.wait_for_pod(name, "Running")


def in_pod(rootport: RunningRootport, name: str, command: str, container: str = "main") -> str:
    """What a shell command in a container of the pod prints, its errors included."""
    return rootport.cluster.kubectl("exec", name, f"--container={container}", "--", "sh", "-c", f"({command}) 2>&1")


# KAR-0049, secure_accelerator_access, MUST


def test_secure_access_a_pod_without_a_claim_has_no_accelerator(rootport: RunningRootport) -> None:
    bystander = pod("bystander")
    del bystander["spec"]["resourceClaims"], bystander["spec"]["containers"][0]["resources"]
    start(rootport, bystander)
    assert in_pod(rootport, "bystander", GPUS) == ""
    opened = in_pod(rootport, "bystander", "mknod /tmp/gpu0 c 195 0 && dd if=/tmp/gpu0 count=1 || true")
    assert "Operation not permitted" in opened, "neither by a device node of its own making"


def test_secure_access_two_pods_each_have_their_own_accelerator_only(rootport: RunningRootport) -> None:
    start(rootport, template("one-gpu"), pod("left", template="one-gpu"), pod("right", template="one-gpu"))
    seen = {name: in_pod(rootport, name, GPUS).split() for name in ("left", "right")}
    (left,), (right,) = seen["left"], seen["right"]
    assert left != right
    for name, own, other in (("left", left, right), ("right", right, left)):
        minor = other.removeprefix("/dev/nvidia")
        taken = in_pod(rootport, name, f"mknod /tmp/taken c 195 {minor} && dd if=/tmp/taken count=1 || true")
        assert "Operation not permitted" in taken
        # No such hardware is behind the number here: ENXIO, which only those get who may open it.
        assert "No such device or address" in in_pod(rootport, name, f"dd if={own} count=1 || true")


def test_secure_access_of_a_pod_s_containers_only_the_one_that_names_the_claim_has_it(
    rootport: RunningRootport,
) -> None:
    two = pod("two-containers", template="one-gpu")
    other = {key: value for key, value in two["spec"]["containers"][0].items() if key != "resources"}
    two["spec"]["containers"].append(other | {"name": "other"})
    start(rootport, template("one-gpu"), two)
    assert len(in_pod(rootport, "two-containers", GPUS).split()) == 1
    assert in_pod(rootport, "two-containers", GPUS, container="other") == ""


# KAR-0001, driver_runtime_management, SHOULD


def test_driver_and_runtime_versions_in_the_slices_are_those_that_a_plain_image_sees(
    rootport: RunningRootport,
) -> None:
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    gpus = [device["attributes"] for device in devices if device["attributes"]["type"] == {"string": "gpu"}]
    (driver,) = {gpu["driverVersion"]["version"] for gpu in gpus}
    (runtime,) = {gpu["cudaDriverVersion"]["version"] for gpu in gpus}

    # The image has nothing of NVIDIA's: program and libraries are the node's, by CDI.
    start(rootport, template("one-gpu"), pod("probe", template="one-gpu"))
    said = in_pod(rootport, "probe", "/usr/bin/nvidia-smi")

    assert semantic(re.search(r"Driver Version: (\S+)", said)) == driver
    assert semantic(re.search(r"CUDA Version: (\S+)", said)) == runtime


def semantic(found: re.Match[str] | None) -> str:
    """A version as an attribute of type version writes it: three numbers without leading zeros."""
    assert found is not None
    numbers = [str(int(number)) for number in found[1].split(".")]
    return ".".join([*numbers, "0", "0"][:3])


# KAR-0003, gpu_sharing, SHOULD


@pytest.mark.parametrize(
    ("type_", "share"),
    [
        pytest.param("gpu", {"core": "50", "memory": "20Gi"}, id="shares in bytes"),
        pytest.param("gpu-ratio", {"core": "50", "memoryRatio": "50"}, id="shares in percent"),
        pytest.param("mig", {"profile": "3g.40gb"}, id="partitions"),
    ],
)
def test_sharing_two_pods_have_parts_of_one_accelerator_and_a_third_waits(
    rootport: RunningRootport, type_: str, share: dict[str, Any]
) -> None:
    gpu = rootport.host.gpus[1]
    for name in ("first", "second"):
        start(rootport, gpu_claim(name, gpu, type_=type_, **share), pod(name, claim=name))
        assert in_pod(rootport, name, GPUS).split() == ["/dev/nvidia1"]
    third = (gpu_claim("third", gpu, type_=type_, **share), pod("third", claim="third"))
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*third))

    def waits() -> bool:
        conditions = rootport.cluster.get("pod", "third")["status"].get("conditions", [])
        return any(item.get("reason") == "Unschedulable" for item in conditions)

    wait_until("the third pod finds no place", waits, timeout_s=30)


# KAR-0059, accelerator_metrics, MUST


def samples(rootport: RunningRootport) -> dict[tuple[str, str], float]:
    """Metric and PCI address to value, of the node's endpoint."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{rootport.cluster.machine.address}:{PLUGIN_HEALTH_PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, sample.labels["pci_bus_id"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("hw_")
    }


def test_metrics_utilization_and_memory_of_each_accelerator_follow_its_work(rootport: RunningRootport) -> None:
    names = {
        "hw_gpu_utilization_ratio",
        "hw_gpu_memory_usage_bytes",
        "hw_gpu_memory_limit_bytes",
        "hw_gpu_memory_utilization_ratio",
        "hw_temperature_celsius",
        "hw_power_watts",
    }
    before = samples(rootport)
    for gpu in rootport.host.gpus:
        assert names <= {name for name, address in before if address == gpu}

    rootport.host.set_live(3, utilization=87)
    try:
        busy, idle = rootport.host.gpus[3], rootport.host.gpus[4]
        wait_until(
            "the utilization is told",
            lambda: samples(rootport)["hw_gpu_utilization_ratio", busy] == 0.87,
            timeout_s=30,
            step_s=1,
        )
        assert samples(rootport)["hw_gpu_utilization_ratio", idle] == before["hw_gpu_utilization_ratio", idle]
    finally:
        rootport.host.set_live(3, utilization=None)


# KAR-0010, high_performance_networking, SHOULD


@pytest.fixture
def cable(rootport: RunningRootport) -> Iterator[None]:
    """The interfaces of two NICs' VFs, connected with each other: a veth each, for want of a NIC."""
    machine = rootport.cluster.machine
    ends = list(zip(*(nic.interfaces for nic in rootport.host.vf_nics), strict=True))
    for left, right in ends:
        machine.run("ip", "link", "add", "name", left, "type", "veth", "peer", "name", right)
    for name, address in zip(ends[0], ADDRESSES, strict=True):
        machine.run("ip", "address", "add", f"{address}/24", "dev", name)
        machine.run("ip", "link", "set", name, "up")
    yield
    rootport.delete_all()
    rootport.wait_until_clean()
    names = {name for pair in ends for name in pair}
    try:
        wait_until("the interfaces are back", lambda: names <= set(interfaces(machine)), timeout_s=20)
    finally:
        for left, _ in ends:
            machine.run("ip", "link", "delete", left, check=False)


def test_networking_pods_reach_each_other_by_a_second_interface_that_their_claims_gave_them(
    rootport: RunningRootport, cable: None
) -> None:
    nics = rootport.host.vf_nics
    characteristics = {"linkType", "numaNode", "pcieSwitch"}
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    pools = [device for device in devices if device["attributes"]["type"] == {"string": "rdma-vf"}]
    assert len(pools) == len(nics)
    assert all(characteristics <= set(device["attributes"]) for device in pools)

    for name, nic in zip(("sender", "receiver"), nics, strict=True):
        claim = nic_claim(name, parent=nic.address, parameters={"interface": {"name": IN_POD}})
        start(rootport, claim, pod(name, claim=name))

    found = in_pod(rootport, "sender", "ip -o link show")
    assert {"eth0", IN_POD} <= set(re.findall(r"^\d+: ([^:@]+)", found, re.MULTILINE))
    answer = in_pod(rootport, "sender", f"ping -c 3 -W 2 -I {IN_POD} {ADDRESSES[1]}")
    assert " 0% packet loss" in answer, answer
