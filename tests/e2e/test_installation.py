"""``kubectl apply -k`` on the real node: the image we build, as DaemonSet and Deployment, under their own roles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.binaries import cache_folder
from tests.support.cluster.cni_program import build_cni_program
from tests.support.cluster.driver import MANIFESTS, NAMESPACE
from tests.support.cluster.images import build_rootport
from tests.support.cluster.interfaces import add_interfaces, interfaces, remove_interfaces
from tests.support.cluster.pods import manifest, nic_claim, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.paths import REPO

EXAMPLES = REPO / "examples"
CNI_PROGRAM = "rootport-cni-of-the-installation"
PLUGIN = "daemonset/rootport-kubelet-plugin"
CONTROLLER = "deployment/rootport-controller"
DEVICES = 3 * 8 + 8 * 25 + 4
"""GPUs, NICs and percent devices; MIG partitions; one more NIC, two VF pools and an FPGA."""


def overlay(rootport: RunningRootport, folder: Path) -> Path:
    """A kustomization as a user would write one: ours, with the plugin told where this node's hardware is described."""
    root, container = rootport.host.root, "/spec/template/spec/containers/0"
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": f"{container}/args/-", "value": f"--host-root=/host{root}"},
        {"op": "add", "path": f"{container}/args/-", "value": f"--device-root={root}"},
        {"op": "add", "path": f"{container}/args/-", "value": f"--cni-program=/host{root}/{CNI_PROGRAM}"},
        {
            "op": "add",
            "path": f"{container}/env/-",
            "value": {"name": "ROOTPORT_STUB_NVML", "value": f"/host{root}/nvml.txt"},
        },
        # The real host's /run, /dev and GPUs are file systems of their own below a read-only /host, or none at all.
        {
            "op": "add",
            "path": f"{container}/volumeMounts/-",
            "value": {"name": "described-hardware", "mountPath": f"/host{root}"},
        },
        {
            "op": "add",
            "path": "/spec/template/spec/volumes/-",
            "value": {"name": "described-hardware", "hostPath": {"path": str(root), "type": "Directory"}},
        },
    ]
    build_cni_program(root / CNI_PROGRAM, state=root / "run/rootport/cni")
    cni_folders = {"cni-conf": rootport.cluster.cni_conf_folder, "cni-bin": rootport.cluster.cni_bin_folder}
    volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in cni_folders.items()]
    folder.mkdir(parents=True, exist_ok=True)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS, folder)],
        "components": [os.path.relpath(MANIFESTS / "components/cni", folder)],
        "patches": [
            {"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump(patch)},
            {"patch": yaml.safe_dump(_daemon_set({"spec": {"template": {"spec": {"volumes": volumes}}}}))},
        ],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def _daemon_set(body: dict[str, Any]) -> dict[str, Any]:
    """A strategic merge patch of the plugin's DaemonSet."""
    metadata = {"name": "rootport-kubelet-plugin", "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, **body}


@pytest.fixture(scope="module")
def installed(running: RunningRootport, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRootport]:
    """Rootport's workloads, rolled out, in place of the processes of the other tests."""
    cluster = running.cluster
    running.stop()
    cluster.import_image(build_rootport(MANIFESTS.parent, cache_folder()))
    cluster.kubectl("apply", "--kustomize", overlay(running, tmp_path_factory.mktemp("overlay")))
    try:
        for workload in (CONTROLLER, PLUGIN):
            cluster.kubectl("rollout", "status", workload, f"--namespace={NAMESPACE}", "--timeout=120s", timeout=130)
        yield running
        cluster.kubectl("delete", PLUGIN, CONTROLLER, f"--namespace={NAMESPACE}", "--cascade=foreground")
    finally:
        for workload in ("controller", "kubelet-plugin"):
            selector = f"--selector=app.kubernetes.io/component={workload}"
            (running.cluster.folder / f"{workload}.pods.log").write_text(
                cluster.kubectl("logs", selector, f"--namespace={NAMESPACE}", "--tail=-1", check=False)
            )
    running.start_controller()
    running.start_plugin()


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
            cluster.wait_for_pod(document["metadata"]["name"], "Succeeded")
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
        selector = f"--selector=app.kubernetes.io/component={workload}"
        log = installed.cluster.kubectl("logs", selector, f"--namespace={NAMESPACE}", "--tail=-1")
        assert "rootport-controller starts" in log or "starting" in log
        assert "orbidden" not in log, log
