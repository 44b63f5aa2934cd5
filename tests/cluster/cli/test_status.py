"""``rootport status`` on a real API server, and what it prints of the objects there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import DEVICES, NODE_INVENTORIES
from driver.adapters.kubernetes.status_objects import CLUSTER_ROLE
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.observed_cluster import small_cluster
from tests.unit.driver.cli.test_status import CRDS, ROLE, Run


@pytest.fixture(scope="module")
def empty(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server of these tests' own: what status shows is all that there is."""
    with ControlPlane(tmp_path_factory.mktemp("status"), cluster_binaries) as plane:
        yield plane


@pytest.fixture(scope="module")
def plane(empty: ControlPlane) -> ControlPlane:
    """With the four nodes of small_cluster."""
    empty.kubectl("apply", "--server-side", f"--filename={CRDS}", f"--filename={ROLE}")
    empty.wait_for_crds()
    devices, inventories = small_cluster()
    with KubernetesApi.connect(kubeconfig=empty.kubeconfig) as api, ThreadPoolExecutor(4) as pool:
        written = [pool.submit(_write, api, NODE_INVENTORIES, item) for item in inventories]
        written += [pool.submit(_write, api, DEVICES, json.loads(json.dumps(item.to_wire()))) for item in devices]
        for each in written:
            each.result()
    return empty


def _write(api: KubernetesApi, resource: Any, item: dict[str, Any]) -> None:
    name = item["metadata"]["name"]
    body = {"metadata": {"name": name, "labels": item["metadata"].get("labels", {})}, "spec": item["spec"]}
    api.apply(resource, body, field_manager="test")
    api.apply(
        resource, {"metadata": {"name": name}, "status": item["status"]}, field_manager="test", subresource="status"
    )


@pytest.mark.needs_go
def test_a_cluster_without_rootport_is_told_so(rootport: Run, empty: ControlPlane) -> None:
    # This test comes first: the fixture of the others installs the CRDs.
    ran = rootport("status", "--kubeconfig", empty.kubeconfig)
    assert (ran.code, ran.out) == (2, "")
    assert "Rootport is not installed there" in ran.err


@pytest.mark.needs_go
def test_each_node_has_a_line_and_what_is_wrong_is_told_below(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("status", "--kubeconfig", plane.kubeconfig)
    assert (ran.code, ran.err) == (0, "")
    lines = [re.split(r"\s{2,}", line) for line in ran.out.splitlines()]
    assert lines[0] == ["NODE", "STATE", "FREE GPUS", "FREE MEMORY", "LARGEST", "FREE NICS", "UNHEALTHY"]
    assert lines[1:6] == [
        ["gpu-node-1", "Ready", "8/8", "637.1/637.1Gi", "79.6Gi", "8/8", "-"],
        ["gpu-node-2", "Ready", "4/8", "428.1/637.1Gi", "79.6Gi", "6/8", "2"],
        ["gpu-node-3", "NotReady", "0/8", "0/637.1Gi", "0", "0/8", "-"],
        ["gpu-node-10", "Silent", "0/8", "0/637.1Gi", "0", "0/8", "-"],
        ["4 nodes", "12/32", "1065.3/2548.7Gi", "79.6Gi", "14/32", "2"],
    ]
    assert ran.out.splitlines()[7:] == [
        "gpu-node-2: gpu-0008-00-00-0 is unhealthy (Xid79)",
        "gpu-node-2: rdma-0102-00-00-0 is unhealthy (LinkDown)",
        "gpu-node-3: NotReady (Refused)",
        "gpu-node-10: Silent (NodeSilent)",
        "`rootport status gpu-node-2` tells more",
    ]


@pytest.mark.needs_go
def test_unhealthy_leaves_out_what_is_well(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("status", "--unhealthy", "-o", "json", "--kubeconfig", plane.kubeconfig)
    assert [node["name"] for node in json.loads(ran.out)["nodes"]] == ["gpu-node-2", "gpu-node-3", "gpu-node-10"]


@pytest.mark.needs_go
def test_a_selector_chooses_devices_and_their_nodes(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport(
        "status", "-l", "rootport.dev/type=gpu,rootport.dev/node in (gpu-node-1)", "-o", "json",
        "--kubeconfig", plane.kubeconfig,
    )  # fmt: skip
    (node,) = json.loads(ran.out)["nodes"]
    assert (node["name"], {device["type"] for device in node["devices"]}) == ("gpu-node-1", {"gpu"})
    none = rootport("status", "-l", "rootport.dev/model=none", "--kubeconfig", plane.kubeconfig)
    assert (none.code, none.out) == (0, "No device has these labels.\n")
    wrong = rootport("status", "-l", "a=(b", "--kubeconfig", plane.kubeconfig)
    assert (wrong.code, wrong.out) == (2, "")


@pytest.mark.needs_go
def test_a_node_is_told_with_its_device_objects(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("status", "gpu-node-2", "-o", "json", "--kubeconfig", plane.kubeconfig)
    answer = json.loads(ran.out)
    assert (answer["name"], answer["state"], len(answer["devices"])) == ("gpu-node-2", "Ready", 16)
    assert {device["spec"]["nodeName"] for device in answer["devices"]} == {"gpu-node-2"}
    text = rootport("status", "gpu-node-2", "--kubeconfig", plane.kubeconfig).out
    assert "gpu-node-2: 8 GPUs (NVIDIA H100 80GB HBM3), 8 RDMA NICs" in text
    assert "◀ ml/train-0 (main)" in text


@pytest.mark.needs_go
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gpu-node-99"], "Rootport knows no node gpu-node-99"),
        (["../etc"], "no node has such a name"),
        (["gpu-node-1", "--unhealthy"], "for the whole cluster"),
    ],
    ids=["unknown", "no name", "contradiction"],
)
def test_a_wrong_node_is_told(rootport: Run, plane: ControlPlane, arguments: list[str], says: str) -> None:
    ran = rootport("status", *arguments, "--kubeconfig", plane.kubeconfig)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.needs_go
def test_the_role_of_viewers_is_enough_and_is_named_to_those_who_lack_it(rootport: Run, plane: ControlPlane) -> None:
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
        for name in ("viewer", "nobody")
    ]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "status-viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CLUSTER_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
    }
    plane.kubectl("apply", "--filename=-", input=yaml.safe_dump_all([*accounts, binding]))
    ran = rootport("status", "--kubeconfig", plane.service_account_kubeconfig("default", "viewer"))
    assert (ran.code, ran.err) == (0, "")
    assert "gpu-node-10" in ran.out
    ran = rootport("status", "--kubeconfig", plane.service_account_kubeconfig("default", "nobody"))
    assert (ran.code, ran.out) == (2, "")
    assert f"ClusterRole {CLUSTER_ROLE}" in ran.err
