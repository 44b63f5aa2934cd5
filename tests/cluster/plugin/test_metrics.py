"""The plugin's page for Prometheus: of a real process, without a kubelet."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster.processes import wait_until
from tests.support.plugin_process import GPUS, NICS, Cluster, PluginNode, PluginProcess
from tests.support.ports import free_port

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

MOST_MIB = 8.0
"""What the first scrape may cost: Prometheus' client, gRPC's of the kubelet, and the page."""


def scraped(port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def settled_mib(process: PluginProcess) -> float:
    """The process's resident memory, once it has given back what starting took."""
    seen = [process.rss_mib()]

    def is_settled() -> bool:
        seen.append(process.rss_mib())
        return abs(seen[-1] - seen[-2]) < 0.3

    wait_until("memory that stays the same", is_settled, timeout_s=30, step_s=1.5)
    return seen[-1]


def test_a_scrape_shows_the_nodes_devices_and_costs_little_memory(
    cluster: Cluster, make_node: Callable[[str], PluginNode], record_property: Callable[[str, object], None]
) -> None:
    node, port = make_node("scraped"), free_port()
    process = node.start(
        cluster.add_node(node.name),
        f"--health-port={port}",
        "--health-interval=1",
        f"--pod-resources-socket={node.folder / 'nowhere.sock'}",
    )
    process.wait_log("inventory published")
    before = settled_mib(process)
    found = scraped(port)
    after = process.rss_mib()
    record_property("rss_mib", (before, after))
    told = {labels["pci_bus_id"]: labels["type"] for labels, _ in found["rootport_device_info"]}
    assert told == dict.fromkeys(GPUS, "gpu") | dict.fromkeys(NICS, "rdma")
    assert [value for _, value in found["rootport_device_shares"]] == [0, 0, 0, 0]
    wait_until(
        "readings of the GPUs", lambda: len(scraped(port).get("rootport_gpu_utilization_ratio", [])) == 2, timeout_s=20
    )
    assert {value for _, value in scraped(port)["rootport_device_healthy"]} == {1}
    assert process.text().count("the kubelet does not tell") == 0, "nobody has a claim: there is nothing to ask"
    assert after - before < MOST_MIB
