"""`make bench`, its second part: the driver on a real node beside a Go peer, and a controller with 1,000 nodes.

The first is in :mod:`tests.bench.node_bench`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from driver.adapters.host import HostRoot
from driver.adapters.machines.live import discover
from driver.objects import node_inventory
from tests.bench.figure import Figure, report
from tests.bench.node_bench import node_figures
from tests.support.cluster.binaries import build, build_peer, cache_folder
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.cluster.hardware import FakeHost, make_host
from tests.support.cluster.images import build_busybox, build_pause
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import RealCluster
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import wait_until
from tests.support.stub_nvml import build as build_stub

NODES = 1000


def figures() -> Iterator[Figure]:
    """Everything this module measures, as it becomes known."""
    binaries = build(print)
    peer = build_peer(print)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        stub = build_stub(folder)
        host = make_host(folder / "host", stub)
        images = [build_pause(cache_folder()), build_busybox(cache_folder())]
        yield from node_figures(RealCluster(folder / "real", binaries, images), host, peer)
        yield from _thousand_nodes(ControlPlane(folder / "many", binaries), host)


def _thousand_nodes(plane: ControlPlane, host: FakeHost) -> Iterator[Figure]:
    try:
        plane.start()
        install(plane)
        yield from _publish(plane, host)
    finally:
        plane.stop()


def _publish(plane: ControlPlane, host: FakeHost) -> Iterator[Figure]:
    inventory = discover(HostRoot(host.root), node="template")
    names = [f"sim-{number:04}" for number in range(NODES)]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    inventories = [node_inventory(inventory.renamed(name)).to_wire() for name in names]
    for objects in (nodes, inventories):
        plane.kubectl("create", "--filename=-", input=manifest(*objects), timeout=900)
    began = time.monotonic()
    controller = start_controller(plane, plane.processes, "--fresh-for=3600", "--grace-period=7200", name="first")
    wait_until(f"slices of {NODES} nodes", lambda: _published(plane) == NODES, timeout_s=600, step_s=1)
    yield Figure(f"{NODES} simulated nodes published by one controller", time.monotonic() - began, 60, "s")
    wait_until(
        "the Device objects", lambda: _count(plane, "devices.rootport.dev") == 16 * NODES, timeout_s=900, step_s=5
    )
    yield Figure(f"  and their {16 * NODES} Device objects", time.monotonic() - began, 450, "s")
    yield Figure(f"controller, resident memory at {NODES} nodes", controller.rss_mib(), 1024, "MiB")
    before = _versions(plane)
    controller.stop()
    again = start_controller(plane, plane.processes, "--fresh-for=3600", "--grace-period=7200", name="second")
    wait_until("the second controller leads", lambda: "msg=elected" in again.log.read_text(), timeout_s=60)
    time.sleep(20)  # long enough to write, had it anything to
    after = _versions(plane)
    written = sum(after.get(key) != version for key, version in before.items()) + len(after.keys() - before.keys())
    yield Figure("objects written by a restarted controller with nothing changed", written, 0.5, "")


def _published(plane: ControlPlane) -> int:
    path = '--output=jsonpath={range .items[*]}{.spec.nodeName}{"\\n"}{end}'
    return len(set(plane.kubectl("get", "resourceslices", path).split()))


def _count(plane: ControlPlane, kind: str) -> int:
    return len(plane.kubectl("get", kind, "--output=name").split())


def _versions(plane: ControlPlane) -> dict[str, str]:
    found = {}
    for kind in ("resourceslices", "nodeinventories", "devices.rootport.dev"):
        path = '--output=jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{"\\n"}{end}'
        for line in plane.kubectl("get", kind, path).splitlines():
            name, version = line.split()
            found[f"{kind}/{name}"] = version
    return found


def main() -> int:
    if (reason := missing_for_machines()) is not None:
        print(f"not measured: {reason}")
        return 0
    return report(figures())


if __name__ == "__main__":
    sys.exit(main())
