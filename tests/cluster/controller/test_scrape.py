"""The controller's page for Prometheus: of a real process at a real API server."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driver.adapters.kubernetes.resources import NODE_INVENTORIES
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.pods import claim, manifest, pod
from tests.support.machines import gpu, nic, node
from tests.support.ports import free_port
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

Samples = dict[str, list[tuple[dict[str, str], float]]]


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.clear()
    yield made
    made.clear()


@pytest.fixture
def port() -> int:
    return free_port()


def scraped(port: int) -> Samples:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except urllib.error.URLError:
        return {}  # not started yet
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return next((found for own, found in samples.get(name, ()) if labels.items() <= own.items()), 0)


def refuse(nodes: Nodes, node: str) -> None:
    """The node's plugin says that the kubelet refuses it."""
    condition = {
        "type": "Registered",
        "status": "False",
        "reason": "Refused",
        "message": "refused",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = {"metadata": {"name": node}, "status": {"conditions": [condition]}}
    nodes.api.apply(NODE_INVENTORIES, body, field_manager="rootport-kubelet-plugin", subresource="status")


def test_a_scrape_has_nodes_writes_and_durations(
    installed: ControlPlane, nodes: Nodes, port: int, tmp_path: Path
) -> None:
    nodes.add(node(gpu("10"), gpu("11"), nic("20"), name="node-a"))
    kubeconfig = installed.service_account_kubeconfig(NAMESPACE, "rootport-controller")
    controller = Controller(kubeconfig, tmp_path / "log", f"--health-port={port}")
    try:
        with nodes.beating("node-a"):
            eventually("three devices", lambda: len(nodes.devices("node-a")) == 3)
            eventually(
                "the node's figures", lambda: value(scraped(port), "rootport_node_gpus_free", node="node-a") == 2
            )
            waits = pod("waits", claim="waits")
            waits["spec"]["serviceAccountName"] = "waits"
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "waits", "namespace": "default"},
            }
            waiting = manifest(account, claim("waits", gpu=9), waits)
            installed.kubectl("apply", "--filename=-", input=waiting)
            eventually(
                "an explanation",
                lambda: value(scraped(port), "rootport_pass_duration_seconds_count", **{"pass": "explain"}) >= 1,
            )
            found = scraped(port)
            refuse(nodes, "node-a")
            eventually(
                "nothing is free where no claim can be prepared",
                lambda: [free for _, free in scraped(port).get("rootport_node_gpus_free", ())] == [0],
            )
    finally:
        controller.kill()
        installed.kubectl(
            "delete", "pod/waits", "resourceclaim/waits", "--ignore-not-found", "--grace-period=0", "--force"
        )
    assert value(found, "rootport_leader") == 1
    assert value(found, "rootport_api_writes_total", resource="devices.rootport.dev", verb="patch") == 3
    assert value(found, "rootport_api_writes_total", resource="resourceslices.resource.k8s.io", verb="create") >= 1
    assert value(found, "rootport_api_writes_total", resource="leases.coordination.k8s.io") >= 1
    for name in ("slices", "devices"):
        assert value(found, "rootport_pass_duration_seconds_count", **{"pass": name}) >= 1
    kinds = {(labels["type"], labels["state"]): number for labels, number in found["rootport_node_devices"]}
    assert {kind: number for (kind, _), number in kinds.items()} == {"gpu": 2, "rdma": 1}
