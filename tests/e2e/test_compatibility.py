"""What tools for other systems read, on the real node: pods that the kubelet runs, and the Node that it keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from driver.adapters.kubernetes.resources import NODES, PODS
from driver.objects.node_labels import NODE_LABELS
from driver.status.device_allocated import DEVICE_ALLOCATED
from tests.support.cluster.driver import MANIFESTS, install
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import gpu_claim, manifest, nic_claim, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport

_COMPONENTS: Final = ("pod-annotations", "node-labels")
_FIRST = 0


@pytest.fixture(scope="module", autouse=True)
def _components(running: RunningRootport) -> Iterator[None]:
    """Both components, for these tests alone; after them the controller takes the labels off."""
    plane = running.cluster.control_plane
    install(plane, *_COMPONENTS)
    _restart(running, "--pod-annotations=koordinator.sh", "--node-labels=on")
    yield
    _restart(running, "--node-labels=remove")
    wait_until("the labels are removed", lambda: not _labels(running), timeout_s=30)
    for name in _COMPONENTS:
        folder = MANIFESTS / "components" / name
        for file in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
            plane.kubectl("delete", f"--filename={folder / file}")
    install(plane)
    _restart(running)


def _restart(running: RunningRootport, *options: str) -> None:
    assert running.controller is not None
    running.controller.stop()
    running.start_controller(*options)
    running.wait_until_controller_is_ready()


def _labels(running: RunningRootport) -> dict[str, str]:
    (node,) = running.cluster.list(NODES)
    labels = node["metadata"]["labels"]
    return {name: labels[name] for name in NODE_LABELS if name in labels}


def _annotation(rootport: RunningRootport, name: str) -> Any:
    def text() -> str:
        pods = {item["metadata"]["name"]: item["metadata"] for item in rootport.cluster.list(PODS)}
        return str(pods[name].get("annotations", {}).get(DEVICE_ALLOCATED, ""))

    wait_until(f"the annotation of {name}", lambda: bool(text()), timeout_s=30)
    return json.loads(text())


def test_a_share_and_a_virtual_function_are_in_the_annotation_as_the_container_has_them(
    rootport: RunningRootport,
) -> None:
    cluster, gpu = rootport.cluster, rootport.host.gpus[_FIRST]
    nic = rootport.host.vf_nics[0]
    share = gpu_claim("share", gpu, core="50", memory="40Gi")
    vf = nic_claim("vf", parent=nic.address)
    body = pod("train", claim="share")
    body["spec"]["resourceClaims"].append({"name": "vf", "resourceClaimName": "vf"})
    body["spec"]["containers"][0]["resources"]["claims"].append({"name": "vf"})
    cluster.kubectl("apply", "--filename=-", input=manifest(share, vf, body))
    cluster.wait_for_pod("train", "Running")

    wait_until("the VF is named", lambda: "extension" in str(_annotation(rootport, "train")), timeout_s=30)
    found = _annotation(rootport, "train")

    (of_gpu,), (of_nic,) = found.pop("gpu"), found.pop("rdma")
    assert not found
    assert of_gpu["minor"] == _FIRST
    assert of_gpu["id"].startswith("GPU-")
    assert of_gpu["resources"]["koordinator.sh/gpu-core"] == "50"
    assert of_gpu["resources"]["koordinator.sh/gpu-memory"] == "40Gi"
    assert of_nic["id"] == nic.address
    (given,) = of_nic["extension"]["vfs"]
    assert nic.vfs.index(given["busID"]) == given.get("minor", 0)
    inside = cluster.kubectl("exec", "train", "--", "env")
    assert f"={given['busID']}" in inside


def test_a_pod_that_names_no_claim_has_the_annotation_too(rootport: RunningRootport) -> None:
    cluster = rootport.cluster
    body = pod("extended", claim="none")
    del body["spec"]["resourceClaims"]
    limits = {"deviceclass.resource.kubernetes.io/gpu.rootport.dev": "1"}
    body["spec"]["containers"][0]["resources"] = {"limits": limits}
    cluster.kubectl("apply", "--filename=-", input=manifest(body))
    cluster.wait_for_pod("extended", "Running")

    ((entry,),) = _annotation(rootport, "extended").values()

    nodes = cluster.kubectl("exec", "extended", "--", "ls", "/dev").split()
    assert f"nvidia{entry['minor']}" in nodes
    assert entry["resources"]["koordinator.sh/gpu-core"] == "100"


def test_a_pod_finds_the_node_by_the_labels_of_gpu_feature_discovery(rootport: RunningRootport) -> None:
    wait_until("the labels", lambda: "nvidia.com/gpu.product" in _labels(rootport), timeout_s=30)
    labels = _labels(rootport)
    assert labels["nvidia.com/gpu.count"] == str(len(rootport.host.gpus))
    chosen = {name: labels[name] for name in ("nvidia.com/gpu.product", "node.koordinator.sh/gpu-model")}
    claim = gpu_claim("picked", rootport.host.gpus[_FIRST])
    body = pod("picked", claim="picked")
    body["spec"]["nodeSelector"] = chosen
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(claim, body))
    rootport.cluster.wait_for_pod("picked", "Running")
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    found = rootport.cluster.kubectl("get", "nodes", f"--selector={selector}", "--output=name")
    assert found.strip() == f"node/{NODE_NAME}"
