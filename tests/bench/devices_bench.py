"""`make bench`: Device objects, beside the real API server and in a cluster of 5,000 nodes with 16 devices each.

On the real API server, with as many nodes as it is filled with in a minute or two: how long until a claim's change is
in its Device, and how many writes changes cost. The large cluster stands in an API server in memory
(memory_api_server.py), with slices and Device objects as the controller leaves them: how much memory the controller
takes, that it writes nothing, and how soon the HTTP API answers.

    python -m tests.bench.devices_bench [NODES]
"""

from __future__ import annotations

import copy
import gzip
import json
import ssl
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.devices.changes import device_changes, timed
from controller.devices.offers import device_offers
from controller.slices.changes import slice_changes
from driver.adapters.catalogue import HardwareFacts
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import (
    DEVICES,
    NODE_INVENTORIES,
    RESOURCE_CLAIMS,
    JsonObject,
)
from driver.adapters.machines.topology import read_topology
from driver.api.gpu_policies import DEFAULT_POLICIES
from driver.api.rootport_v1alpha1 import DevicePod
from driver.explain.known.cluster import Kind
from driver.layout import left_out, resource_slices
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.objects import (
    claim_allocations,
    device_object_name,
    device_objects,
    device_statuses,
    node_inventory,
    pod_consumers,
)
from tests.bench.figure import Figure, report
from tests.bench.memory_api_server import MemoryApiServer
from tests.support.cluster.binaries import build
from tests.support.cluster.control_plane import ADMIN_TOKEN, ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import Process, Processes, wait_until
from tests.support.explain_cluster import TOPOLOGY, classes, node_objects

NODES = 5000
REAL_NODES = 200
DEVICES_PER_NODE = 16
CHANGES, BURST, FAULTS = 20, 200, 20
HTTPS_PORT = 18443
QUIET = ("--fresh-for=3600", "--grace-period=7200", "--health-port=0")


def figures(nodes: int) -> Iterator[Figure]:
    """Everything this module measures."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        plane = ControlPlane(folder / "real", build(print))
        try:
            plane.start()
            install(plane)
            yield from _on_the_real_api_server(plane)
        finally:
            plane.stop()
        yield from _in_memory(folder, nodes)


# ---- the real API server ----


def _on_the_real_api_server(plane: ControlPlane) -> Iterator[Figure]:
    template = _machine("template")
    names = [f"sim-{number:04}" for number in range(REAL_NODES)]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    inventories = [node_inventory(template.renamed(name)).to_wire() for name in names]
    for objects in (nodes, inventories):
        plane.kubectl("create", "--filename=-", input=manifest(*objects), timeout=900)
    controller = start_controller(plane, plane.processes, *QUIET, "--https-port=0")
    with KubernetesApi.connect(kubeconfig=plane.kubeconfig) as api:
        wait_until(
            "the Device objects",
            lambda: _with_status(api) == DEVICES_PER_NODE * REAL_NODES,
            timeout_s=900,
            step_s=2,
        )
        _settle(api)
        yield from _claims_come_and_go(api, names)
        yield from _faults(api, names)
        time.sleep(20)
        yield Figure("  writes in 20 s in which nothing changes", _written(api, lambda: time.sleep(20)), 0.5, "")
    controller.stop()


def _claims_come_and_go(api: KubernetesApi, names: list[str]) -> Iterator[Figure]:
    gpus = [(name, gpu) for name in names for gpu in _gpus()]
    times = []
    for number in range(CHANGES):
        node, gpu = gpus[number * 7]
        _create(api, f"one-{number}")
        began = time.monotonic()
        _allocate(api, f"one-{number}", node, gpu)
        wait_until("the Device shows it", lambda: _shown(api, node, gpu) == 1, timeout_s=30, step_s=0.01)  # noqa: B023
        times.append(time.monotonic() - began)
        time.sleep(0.3)
    yield Figure(f"a claim's change shown in its Device, median of {CHANGES}", statistics.median(times), 1, "s")
    yield Figure("  and the longest", max(times), 1, "s")
    for number in range(BURST):
        _create(api, f"burst-{number}")

    def burst() -> None:
        for number in range(BURST):
            _allocate(api, f"burst-{number}", *gpus[-1 - number])
        last = gpus[-BURST:]
        wait_until(
            "all Devices show it", lambda: all(_shown(api, *each) == 1 for each in last), timeout_s=120, step_s=1
        )

    yield Figure(f"writes to Devices for {BURST} claims that are allocated", _written(api, burst), BURST, "")


def _faults(api: KubernetesApi, names: list[str]) -> Iterator[Figure]:
    fault = {"device": _gpus()[0], "reason": "Xid94", "effect": "NoSchedule", "message": "measured"}
    fault["since"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def fail() -> None:
        for name in names[:FAULTS]:
            status = {"watched": [_gpus()[0]], "faults": [fault]}
            api.merge_patch(NODE_INVENTORIES, name, {"status": status}, subresource="status")
        wait_until(
            "all Devices say it",
            lambda: sum(_state(api, name, _gpus()[0]) == "Unhealthy" for name in names[:FAULTS]) == FAULTS,
            timeout_s=60,
            step_s=0.5,
        )
        _settle(api)

    yield Figure(f"writes to Devices for {FAULTS} GPUs that fail", _written(api, fail), FAULTS, "")


def _written(api: KubernetesApi, act: Callable[[], None]) -> int:
    """How many Device objects' versions were made meanwhile: etcd counts every write."""
    seen: set[str] = set()
    listing = api.list(DEVICES, metadata_only=True)
    with api.watch(DEVICES, resource_version=listing.resource_version, metadata_only=True, duration_s=120) as stream:

        def follow() -> None:
            for event in stream:
                if event.type != "BOOKMARK":
                    seen.add(event.object["metadata"]["resourceVersion"])

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        act()
        time.sleep(2)
    thread.join(5)
    return len(seen)


def _versions(api: KubernetesApi) -> dict[str, str]:
    listing = api.list(DEVICES, metadata_only=True)
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listing.items}


def _settle(api: KubernetesApi) -> None:
    former: dict[str, str] = {}
    while (now := _versions(api)) != former:
        former = now
        time.sleep(3)


def _with_status(api: KubernetesApi) -> int:
    return sum("conditions" in (item.get("status") or {}) for item in api.list(DEVICES).items)


def _shown(api: KubernetesApi, node: str, device: str) -> int:
    status = api.get(DEVICES, f"{node}.{device}").get("status") or {}
    return len(status.get("allocations", ()))


def _state(api: KubernetesApi, node: str, device: str) -> str:
    return str((api.get(DEVICES, f"{node}.{device}").get("status") or {}).get("state"))


def _create(api: KubernetesApi, name: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    body: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    api.create(RESOURCE_CLAIMS, body)


def _allocate(api: KubernetesApi, name: str, node: str, device: str) -> None:
    result = {"request": "gpu", "driver": "rootport.dev", "pool": node, "device": device}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": datetime.now(UTC).isoformat()}
    api.merge_patch(
        RESOURCE_CLAIMS, name, {"status": {"allocation": allocation}}, namespace="default", subresource="status"
    )


# ---- 5,000 nodes ----


def _in_memory(folder: Path, nodes: int) -> Iterator[Figure]:
    server = MemoryApiServer(folder)
    claims = _fill(server, nodes)
    processes = Processes(folder / "logs")
    try:
        controller = processes.start(
            "controller",
            sys.executable,
            "-m",
            "controller",
            f"--kubeconfig={server.kubeconfig}",
            f"--https-port={HTTPS_PORT}",
            *QUIET,
        )
        yield from _steady(server, controller, nodes)
        yield from _change(server, claims)
        yield from _http(nodes)
        yield Figure("controller, resident memory after that", controller.rss_mib(), 1024, "MiB")
    finally:
        processes.stop()
        server.stop()


def _steady(server: MemoryApiServer, controller: Process, nodes: int) -> Iterator[Figure]:
    print(f"{nodes} nodes x {DEVICES_PER_NODE} devices, in an API server in memory:")
    began = time.monotonic()
    wait_until(
        "the nodes are shown",
        lambda: len(_overview().get("nodes", ())) == nodes,
        timeout_s=1200,
        step_s=5,
    )
    yield Figure(
        f"{nodes} nodes x {DEVICES_PER_NODE} devices: from the start until all are shown",
        time.monotonic() - began,
        600,
        "s",
    )
    former = -1
    while (now := _besides_leases(server)) != former:
        former = now
        time.sleep(10)
    devices = sum(count for kind, count in server.writes.items() if kind.startswith("devices"))
    yield Figure("  writes to Devices that are as they should be", devices, 0.5, "")
    yield Figure("controller, resident memory then", controller.rss_mib(), 1024, "MiB")


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
    template, given = _machine("template"), []
    for number in range(nodes):
        found = node_objects(number)
        (node,) = [item for kind, item in found if kind is Kind.NODE]
        claims = [item for kind, item in found if kind is Kind.CLAIM]
        name = node["metadata"]["name"]
        inventory = own_identities(template.renamed(name), number)
        node["metadata"]["uid"] = uid = f"uid-{name}"
        server.put("nodes", [node])
        wire = node_inventory(inventory).to_wire()
        wire["metadata"] |= {"generation": 1}
        wire["status"] = {"watched": sorted(device.name for device in inventory.devices())}
        server.put("nodeinventories", [wire])
        renewed = {"renewTime": datetime.now(UTC).isoformat(), "holderIdentity": name}
        server.put("leases", [{"metadata": {"name": name, "namespace": "rootport-system"}, "spec": renewed}])
        server.put("resourceclaims", claims)
        slices = slice_changes(resource_slices(inventory), (), node_uid=uid).create
        server.put("resourceslices", (write.body for write in slices))
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
    reasons = left_out(inventory, policies=DEFAULT_POLICIES, has_counters=True)
    bodies = device_changes(device_objects(inventory, left_out=reasons), (), node_uid=uid).apply
    offers = device_offers(inventory, reasons, policies=DEFAULT_POLICIES, has_counters=True)
    names = [device.name for device in inventory.devices()]
    pods = {
        claim["metadata"]["uid"]: tuple(DevicePod(name=pod.name, uid=pod.uid, containers=("main",)) for pod in pod_consumers(claim))
        for claim in claims
    }
    statuses = device_statuses(
        inventory,
        [item for claim in claims for item in claim_allocations(claim)],
        health=NodeHealth(watched=frozenset(names)),
        offers=dict(zip(names, offers, strict=True)),
        pods=lambda item: (pods[item.uid], 0),
    )
    by_object = {device_object_name(inventory.node, name): status for name, status in statuses.items()}
    for body in bodies:
        status = timed(by_object[body["metadata"]["name"]], {}, datetime.now(UTC))
        yield body | {"status": status.to_wire()}


def _machine(name: str) -> Inventory:
    return read_topology(TOPOLOGY, node=name, hardware=HardwareFacts(gpu_model="H100"))


def _gpus() -> list[str]:
    return [gpu.name for gpu in _machine("template").gpus]


def main() -> int:
    return report(figures(int(sys.argv[1]) if len(sys.argv) > 1 else NODES))


if __name__ == "__main__":
    sys.exit(main())
