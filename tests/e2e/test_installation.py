"""``kubectl apply -k`` on the real node: the image we build, as DaemonSet and Deployment, under their own roles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.binaries import cache_folder
from cluster.driver import MANIFESTS, NAMESPACE
from cluster.images import build_rootport
from cluster.pods import manifest, pod, template
from cluster.processes import wait_until
from cluster.rootport import RunningRootport

EXAMPLES = Path(__file__).parents[2] / "examples"
PLUGIN = "daemonset/rootport-kubelet-plugin"
CONTROLLER = "deployment/rootport-controller"


def overlay(rootport: RunningRootport, folder: Path) -> Path:
    """A kustomization as a user would write one: ours, with the plugin told where this node's hardware is described."""
    root, container = rootport.host.root, "/spec/template/spec/containers/0"
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": f"{container}/args/-", "value": f"--host-root=/host{root}"},
        {"op": "add", "path": f"{container}/args/-", "value": f"--device-root={root}"},
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
    folder.mkdir(parents=True, exist_ok=True)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS, folder)],
        "patches": [{"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump(patch)}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


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
    wait_until("the devices are published", lambda: devices(installed) == 3 * 8 + 8 * 25, timeout_s=60)
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
