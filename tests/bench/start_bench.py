"""`make bench`: a controller's start in a cluster of 5,000 nodes with 16 devices each.

The cluster stands in an API server in memory (memory_api_server.py), with Device objects as the controller leaves them,
and slices that a first controller has published: how long a second one's start takes, and how much memory, that it
writes nothing, and how soon the HTTP API answers. And what a node's first reconciliation costs.

    python -m tests.bench.start_bench [NODES]
"""

from __future__ import annotations

import copy
import gzip
import json
import re
import ssl
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from controller.devices.changes import device_changes, timed
from controller.devices.offers import device_offers
from controller.overview.store import Overview
from controller.publisher import Publisher, PublisherOptions
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import (
    JsonObject,
)
from driver.api.gpu_policies import DEFAULT_POLICIES
from driver.api.rootport_v1alpha1 import DevicePod
from driver.explain.known.cluster import Kind
from driver.layout.left_out import left_out
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.objects.claims import claim_allocations
from driver.objects.consumers import consumers
from driver.objects.device_statuses import AllocationUsers, device_statuses
from driver.objects.devices import device_objects
from driver.objects.names import device_object_name
from driver.objects.written_inventory import node_inventory
from tests.bench.devices_bench import DEVICES_PER_NODE, QUIET, machine
from tests.bench.figure import Figure, report
from tests.bench.memory_api_server import MemoryApiServer
from tests.support.cluster.control_plane import ADMIN_TOKEN
from tests.support.cluster.processes import Process, Processes, wait_until
from tests.support.explain_cluster import classes, node_objects

NODES, FEW_NODES = 5000, 100
CHANGES = 20
HTTPS_PORT, HEALTH_PORT = 18443, 18444


def figures(nodes: int) -> Iterator[Figure]:
    """Everything this module measures."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        yield from _first_reconcile(folder)
        yield from _in_memory(folder, nodes)


def _in_memory(folder: Path, nodes: int) -> Iterator[Figure]:
    server = MemoryApiServer(folder)
    claims = _fill(server, nodes)
    processes = Processes(folder / "logs")
    try:
        first = _start(server, processes, "first")
        wait_until("all slices are published", lambda: _passes("slices") >= nodes, timeout_s=1200, step_s=1)
        _settled(server)
        first.stop()
        server.writes.clear()
        print(f"{nodes} nodes x {DEVICES_PER_NODE} devices, in an API server in memory:")
        began = time.monotonic()
        controller = _start(server, processes, "second")
        yield from _steady(server, controller, nodes, began)
        yield from _change(server, claims)
        yield from _http(nodes)
        yield Figure("controller, resident memory after that", controller.rss_mib(), 1024, "MiB")
    finally:
        processes.stop()
        server.stop()


def _start(server: MemoryApiServer, processes: Processes, name: str) -> Process:
    ports = (f"--https-port={HTTPS_PORT}", f"--health-port={HEALTH_PORT}")
    kubeconfig = f"--kubeconfig={server.kubeconfig}"
    return processes.start(name, sys.executable, "-m", "controller", kubeconfig, *ports, *QUIET)


def _steady(server: MemoryApiServer, controller: Process, nodes: int, began: float) -> Iterator[Figure]:
    wait_until("all slices are compared", lambda: _passes("slices") >= nodes, timeout_s=1200, step_s=0.5)
    slices_s = time.monotonic() - began
    yield Figure(
        f"{nodes} nodes x {DEVICES_PER_NODE} devices: from the start until slices are right", slices_s, 60, "s"
    )
    wait_until(
        "the nodes are shown",
        lambda: len(_overview().get("nodes", ())) == nodes,
        timeout_s=1200,
        step_s=3,
    )
    yield Figure("  and until all Devices are shown", time.monotonic() - began, 180, "s")
    yield Figure("  processor time of all that, a node", controller.cpu_s() / nodes * 1000, 40, "ms")
    _settled(server)
    written = ", ".join(f"{kind}: {count}" for kind, count in server.writes.items() if kind != "leases")
    print(f"  writes to what is as it should be: {written or 'none'}")
    yield Figure("  writes to objects that are as they should be", _besides_leases(server), 0.5, "")
    yield Figure("controller, resident memory then", controller.rss_mib(), 1024, "MiB")


def _settled(server: MemoryApiServer) -> None:
    former = -1
    while (now := _besides_leases(server)) != former:
        former = now
        time.sleep(10)


def _passes(name: str) -> float:
    """How many passes over a node's slices, or Devices, there were, by the controller's metrics."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{HEALTH_PORT}/metrics", timeout=30) as answer:
            page = answer.read().decode()
    except OSError:
        return 0.0
    found = re.search(rf'rootport_pass_duration_seconds_count{{pass="{name}"}} (\S+)', page)
    return float(found[1]) if found else 0.0


def _besides_leases(server: MemoryApiServer) -> int:
    return sum(count for kind, count in server.writes.items() if kind != "leases")


def _change(server: MemoryApiServer, claims: list[JsonObject]) -> Iterator[Figure]:
    times = []
    for number in range(CHANGES):
        claim = copy.deepcopy(claims[number * len(claims) // CHANGES])
        devices = len({(item["pool"], item["device"]) for item in claim["status"]["allocation"]["devices"]["results"]})
        before = server.writes["devices/status"]
        del claim["status"]
        began = time.monotonic()
        server.put("resourceclaims", [claim])
        wait_until(
            "the Devices are written",
            lambda: server.writes["devices/status"] >= before + devices,  # noqa: B023
            timeout_s=60,
            step_s=0.01,
        )
        times.append(time.monotonic() - began)
        time.sleep(1)
    yield Figure(f"a claim's end shown in its Devices, median of {CHANGES}", statistics.median(times), 1, "s")
    yield Figure("  and the longest (up to 16 Devices)", max(times), 1, "s")


def _http(nodes: int) -> Iterator[Figure]:
    times = []
    for _ in range(5):
        began = time.monotonic()
        _overview()
        times.append(time.monotonic() - began)
    yield Figure(f"GET /api/v1/nodes with {nodes} nodes, median of 5", statistics.median(times), 1, "s")


def _first_reconcile(folder: Path) -> Iterator[Figure]:
    """What a node costs a controller that just started, where all is as it should be: both passes, without reading."""
    server = MemoryApiServer(folder)
    _fill(server, FEW_NODES)
    for is_measured in (False, True):
        spent: Counter[str] = Counter()
        overview = Overview()
        with KubernetesApi.connect(kubeconfig=server.kubeconfig) as api:
            options = PublisherOptions(fresh_for_s=3600, grace_s=7200)
            publisher = Publisher(api, options, overview=overview, timed=partial(_processor_time, spent))
            publisher.start()
            wait_until("all nodes are shown", lambda: len(overview.nodes()) == FEW_NODES, timeout_s=120)  # noqa: B023
            publisher.stop(30)
        if is_measured:
            for name, seconds in sorted(spent.items()):
                print(f"  of {name}: {seconds / FEW_NODES * 1000:.1f} ms")
            cost_ms = spent.total() / FEW_NODES * 1000
            yield Figure("a node's first reconciliation, processor time", cost_ms, 15, "ms")
    server.stop()


@contextmanager
def _processor_time(spent: Counter[str], name: str) -> Iterator[None]:
    began = time.thread_time()
    try:
        yield
    finally:
        spent[name] += time.thread_time() - began  # type: ignore[assignment]  # a Counter of seconds


def _overview() -> Any:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(
        f"https://127.0.0.1:{HTTPS_PORT}/api/v1/nodes",
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Accept-Encoding": "gzip"},
    )
    try:
        with opener.open(request, timeout=60) as answer:
            body = answer.read()
    except OSError:
        return {}
    return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)


def _fill(server: MemoryApiServer, nodes: int) -> list[JsonObject]:
    """Store the cluster; the claims that are allocated."""
    server.put("deviceclasses", [item for _, item in classes()])
    template, given = machine("template"), []
    for number in range(nodes):
        found = node_objects(number)
        (node,) = [item for kind, item in found if kind is Kind.NODE]
        claims = [item for kind, item in found if kind is Kind.CLAIM]
        name = node["metadata"]["name"]
        inventory = own_identities(template.renamed(name), number)
        node["metadata"]["uid"] = uid = f"uid-{name}"
        server.put("nodes", [node])
        wire = node_inventory(inventory)
        wire["metadata"] |= {"generation": 1}
        wire["status"] = {"watched": sorted(device.name for device in inventory.devices())}
        server.put("nodeinventories", [wire])
        renewed = {"renewTime": datetime.now(UTC).isoformat(), "holderIdentity": name}
        server.put("leases", [{"metadata": {"name": name, "namespace": "rootport-system"}, "spec": renewed}])
        server.put("resourceclaims", claims)
        server.put("devices", _devices(inventory, claims, uid))
        given += claims
    return given


def own_identities(inventory: Inventory, number: int) -> Inventory:
    """Return the inventory with UUIDs and GUIDs as no other node has them: equal machines differ in these."""

    def guid(place: int) -> str:
        text = f"{(number << 8) + place + 1:016x}"
        return ":".join(text[at : at + 4] for at in range(0, 16, 4))

    gpus = (
        replace(gpu, uuid=f"GPU-{number:08x}-0000-4000-8000-{place:012x}") for place, gpu in enumerate(inventory.gpus)
    )
    nics = (
        replace(nic, ports=tuple(replace(port, guid=guid(place)) for port in nic.ports))
        for place, nic in enumerate(inventory.nics)
    )
    return replace(inventory, gpus=tuple(gpus), nics=tuple(nics))


def _devices(inventory: Inventory, claims: list[JsonObject], uid: str) -> Iterator[JsonObject]:
    """The node's Device objects as the controller writes them."""
    reasons = left_out(inventory, policies=DEFAULT_POLICIES)
    bodies = device_changes(device_objects(inventory, left_out=reasons), (), node_uid=uid).apply
    offers = device_offers(inventory, reasons, policies=DEFAULT_POLICIES, follow_demand=True)
    names = [device.name for device in inventory.devices()]
    pods = {
        claim["metadata"]["uid"]: tuple(
            DevicePod(name=pod.name, uid=pod.uid, containers=("main",)) for pod in consumers(claim)
        )
        for claim in claims
    }
    statuses = device_statuses(
        inventory,
        [item for claim in claims for item in claim_allocations(claim)],
        health=NodeHealth(watched=frozenset(names)),
        offers=dict(zip(names, offers, strict=True)),
        users=lambda item: AllocationUsers(pods=pods[item.uid]),
    )
    by_object = {device_object_name(inventory.node, name): status for name, status in statuses.items()}
    for body in bodies:
        status = timed(by_object[body["metadata"]["name"]], {}, datetime.now(UTC))
        yield body | {"status": status.to_wire()}


def main() -> int:
    return report(figures(int(sys.argv[1]) if len(sys.argv) > 1 else NODES))


if __name__ == "__main__":
    sys.exit(main())
