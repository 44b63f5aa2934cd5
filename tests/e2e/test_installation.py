"""``kubectl apply -k`` on the real node: the image we build, as DaemonSet and Deployment, under their own roles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.support.cluster.driver import NAMESPACE
from tests.support.cluster.installation import PLUGIN, Installation, installations, logs
from tests.support.cluster.interfaces import add_interfaces, interfaces, remove_interfaces
from tests.support.cluster.pods import manifest, nic_claim, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.paths import REPO

EXAMPLES = REPO / "examples"
DEVICES = 3 * 8 + 8 * 25 + 4
"""GPUs, NICs and percent devices; MIG partitions; one more NIC, two VF pools and an FPGA."""


@pytest.fixture(scope="module")
def installed(running: RunningRootport, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRootport]:
    """Rootport's workloads, rolled out, in place of the processes of the other tests."""
    with installations(running):
        installation = Installation(running, REPO, tmp_path_factory.mktemp("overlay") / "installed")
        installation.apply()
        installation.wait()
        yield running


def devices(rootport: RunningRootport) -> int:
    return sum(len(part["spec"].get("devices", ())) for part in rootport.slices())


def test_the_installed_driver_publishes_the_node_and_runs_a_pod(installed: RunningRootport) -> None:
    wait_until("the devices are published", lambda: devices(installed) == DEVICES, timeout_s=60)
    cluster = installed.cluster
    cluster.kubectl("wait", "--for=condition=Ready", "nodeinventory/node-1", "--timeout=60s")
    show = "ls /dev/nvidia[0-9]*"
    cluster.kubectl("apply", "--filename=-", input=manifest(template("gpu"), pod("real", template="gpu", command=show)))
    cluster.wait_for_pod("real", "Succeeded")

    assert cluster.kubectl("logs", "real").startswith("/dev/nvidia")
    installed.delete_all()
    installed.wait_until_clean()


@pytest.mark.parametrize("example", ["mig", "mps"])
def test_the_installed_plugin_may_do_what_partitions_and_mps_take(installed: RunningRootport, example: str) -> None:
    cluster, path = installed.cluster, EXAMPLES / f"{example}.yaml"
    installed.apply(path)
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "Pod":
            try:
                cluster.wait_for_pod(document["metadata"]["name"], "Succeeded")
            except TimeoutError as error:
                conditions = cluster.get("nodeinventory", "node-1")["status"]["conditions"]
                log = cluster.kubectl("logs", PLUGIN, f"--namespace={NAMESPACE}", "--tail=100", check=False)
                raise TimeoutError(f"{error}\n{yaml.safe_dump(conditions)}\n{log}") from None
    installed.delete(path)
    installed.delete_all()
    installed.wait_until_clean()


def test_the_installed_plugin_moves_an_interface_into_a_pod_and_back(installed: RunningRootport) -> None:
    cluster, nic = installed.cluster, installed.host.vf_nics[0]
    add_interfaces(cluster.machine, nic.interfaces)
    try:
        before = interfaces(cluster.machine)
        parameters = {"interface": {"name": "rdma0", "mtu": 1400}}
        moved = nic_claim("moved", parent=nic.address, parameters=parameters)
        shown = pod("moved", claim="moved", command="ip link show rdma0")
        cluster.kubectl("apply", "--filename=-", input=manifest(moved, shown))
        cluster.wait_for_pod("moved", "Succeeded")
        assert "mtu 1400" in cluster.kubectl("logs", "moved")
        installed.delete_all()
        installed.wait_until_clean()
        wait_until("it is back", lambda: interfaces(cluster.machine) == before, timeout_s=20)
    finally:
        remove_interfaces(cluster.machine, nic.interfaces)


def test_a_rolling_update_of_the_plugin_fails_no_pod(installed: RunningRootport) -> None:
    cluster = installed.cluster
    cluster.kubectl("rollout", "restart", PLUGIN, f"--namespace={NAMESPACE}")
    names = [f"during-{number}" for number in range(8)]
    cluster.kubectl(
        "apply",
        "--filename=-",
        input=manifest(template("gpu"), *(pod(name, template="gpu", command="ls /dev/nvidia[0-9]*") for name in names)),
    )
    for name in names:
        cluster.wait_for_pod(name, "Succeeded", timeout_s=120)
    cluster.kubectl("rollout", "status", PLUGIN, f"--namespace={NAMESPACE}", "--timeout=120s", timeout=130)

    warnings = cluster.get("events", "--field-selector=type=Warning,reason=FailedPrepareDynamicResources")["items"]
    assert [item["message"] for item in warnings if item["involvedObject"]["name"] in names] == []
    installed.delete_all()
    installed.wait_until_clean()


def test_nothing_was_forbidden(installed: RunningRootport) -> None:
    for workload in ("controller", "kubelet-plugin"):
        log = logs(installed, workload)
        assert "rootport-controller starts" in log or "starting" in log
        assert "orbidden" not in log, log
