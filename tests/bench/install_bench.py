"""`make bench`: a first install on 1,000 nodes of eight H100s and eight NICs, and a restart, on the real API server.

API server, etcd and controller share the processors, and the API server needs most of them, four milliseconds for each
write. So the time is measured first that a client takes that does nothing but make as many Devices.

    python -m tests.bench.install_bench [NODES]
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from controller.devices.changes import device_changes
from driver.adapters.host import HostRoot
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import DEVICES, NODE_INVENTORIES, RESOURCE_SLICES, JsonObject
from driver.adapters.machines.live import discover
from driver.model.inventory import Inventory
from driver.objects.devices import device_objects
from driver.objects.written_inventory import node_inventory
from tests.bench.figure import Figure, report
from tests.bench.start_bench import own_identities
from tests.support.cluster.binaries import build
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.cluster.hardware import make_host
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import Process, wait_until
from tests.support.stub_nvml import build as build_stub

NODES = 1000
DEVICES_PER_NODE = 16
PLAIN_NODES, PLAIN_AT_ONCE = 50, 8
HEALTH_PORT = 18082
OPTIONS = ("--fresh-for=3600", "--grace-period=7200", f"--health-port={HEALTH_PORT}")
CONTROLLERS_KINDS = (RESOURCE_SLICES, NODE_INVENTORIES, DEVICES)


def figures(nodes: int) -> Iterator[Figure]:
    """Everything this module measures."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        host = make_host(folder / "host", build_stub(folder))
        machine = discover(HostRoot(host.root), node="template")
        plane = ControlPlane(folder / "many", build(print))
        try:
            plane.start()
            install(plane)
            with KubernetesApi.connect(kubeconfig=plane.kubeconfig) as api:
                floor_s = _plain_writes_s(api, machine) * nodes / PLAIN_NODES
                _fill(plane, machine, nodes)
                yield from _install(plane, api, nodes, floor_s)
        finally:
            plane.stop()


def _plain_writes_s(api: KubernetesApi, machine: Inventory) -> float:
    """How long a client takes that applies the Devices of some nodes, and their statuses, and does nothing else."""
    bodies = [
        body
        for number in range(PLAIN_NODES)
        for body in device_changes(
            device_objects(own_identities(machine.renamed(f"plain-{number}"), number)), (), node_uid="0"
        ).apply
    ]
    statuses = [{"metadata": {"name": body["metadata"]["name"]}, "status": {"state": "Healthy"}} for body in bodies]
    began = time.monotonic()
    _at_once(bodies, lambda body: api.apply(DEVICES, body, field_manager="plain"))
    _at_once(statuses, lambda body: api.apply(DEVICES, body, field_manager="plain", subresource="status"))
    took_s = time.monotonic() - began
    _at_once(bodies, lambda body: api.delete(DEVICES, body["metadata"]["name"]))
    return took_s


def _at_once(items: Sequence[JsonObject], write: Callable[[JsonObject], object]) -> None:
    def some(first: int) -> None:
        for item in items[first::PLAIN_AT_ONCE]:
            write(item)

    threads = [threading.Thread(target=some, args=(first,)) for first in range(PLAIN_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fill(plane: ControlPlane, machine: Inventory, nodes: int) -> None:
    names = [f"sim-{number:04}" for number in range(nodes)]
    stored = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    inventories = [node_inventory(own_identities(machine.renamed(name), number)) for number, name in enumerate(names)]
    for objects in (stored, inventories):
        plane.kubectl("create", "--filename=-", input=manifest(*objects), timeout=900)


def _install(plane: ControlPlane, api: KubernetesApi, nodes: int, floor_s: float) -> Iterator[Figure]:
    print(f"{nodes} nodes x {DEVICES_PER_NODE} devices, on the real API server:")
    began = time.monotonic()
    controller = start_controller(plane, plane.processes, *OPTIONS, name="first")
    wait_until("the slices", lambda: _count("msg=published", controller) >= nodes, timeout_s=600, step_s=0.5)
    slices_s = time.monotonic() - began
    assert len(_published(api)) == nodes
    yield Figure(f"first install on {nodes} nodes, until all slices are published", slices_s, 45, "s")
    every = nodes * DEVICES_PER_NODE
    wait_until("the Devices", lambda: _writes("devices.rootport.dev/status") >= every, timeout_s=900, step_s=1)
    wait_until("the Devices' statuses", lambda: _with_status(api) == every, timeout_s=300, step_s=2)
    devices_s = time.monotonic() - began
    yield Figure(f"  and until all {every} Devices have their status", devices_s, 240, "s")
    yield Figure("  the latter, to the time that plain writes of these Devices take", devices_s / floor_s, 3, "")
    yield Figure("  processor time of the controller, a node", controller.cpu_s() / nodes * 1000, 75, "ms")
    yield Figure("  resident memory of the controller", controller.rss_mib(), 1024, "MiB")
    yield from _restart(plane, api, controller)


def _restart(plane: ControlPlane, api: KubernetesApi, controller: Process) -> Iterator[Figure]:
    before = _versions(api)
    controller.stop()
    again = start_controller(plane, plane.processes, *OPTIONS, name="second")
    wait_until("the second controller leads", lambda: _count("msg=elected", again) > 0, timeout_s=60)
    wait_until("all was looked at", lambda: _passes("devices") >= len(_inventories(before)), timeout_s=300, step_s=1)
    time.sleep(5)  # long enough to write, had it anything to
    after = _versions(api)
    written = sum(after.get(key) != version for key, version in before.items()) + len(after.keys() - before.keys())
    yield Figure("objects written by a restarted controller with nothing changed", written, 0.5, "")


def _count(text: str, process: Process) -> int:
    return process.log.read_text().count(text)


def _writes(kind: str) -> float:
    return sum(
        float(found) for found in re.findall(rf'rootport_api_writes_total{{[^}}]*"{kind}"[^}}]*}} (\S+)', _page())
    )


def _passes(name: str) -> float:
    found = re.search(rf'rootport_pass_duration_seconds_count{{pass="{name}"}} (\S+)', _page())
    return float(found[1]) if found else 0.0


def _page() -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{HEALTH_PORT}/metrics", timeout=30) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def _published(api: KubernetesApi) -> set[str]:
    found = api.list(RESOURCE_SLICES, transform=lambda item: {"metadata": item["metadata"], "node": _node(item)})
    return {str(item["node"]) for item in found.items}


def _node(item: JsonObject) -> Any:
    return item["spec"].get("nodeName")


def _with_status(api: KubernetesApi) -> int:
    found = api.list(
        DEVICES, transform=lambda item: {"metadata": {}, "done": "conditions" in (item.get("status") or {})}
    )
    return sum(bool(item["done"]) for item in found.items)


def _versions(api: KubernetesApi) -> dict[str, str]:
    return {
        f"{resource}/{item['metadata']['name']}": str(item["metadata"]["resourceVersion"])
        for resource in CONTROLLERS_KINDS
        for item in api.list(resource, metadata_only=True).items
    }


def _inventories(versions: dict[str, str]) -> list[str]:
    return [key for key in versions if key.startswith(f"{NODE_INVENTORIES}/")]


def main() -> int:
    return report(figures(int(sys.argv[1]) if len(sys.argv) > 1 else NODES))


if __name__ == "__main__":
    sys.exit(main())
