"""`make bench`: Device objects on the real API server: how long until a claim's change is shown, and how many writes.

It has as many nodes as it is filled with in a minute or two.

    python -m tests.bench.devices_bench
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import (
    DEVICES,
    NODE_INVENTORIES,
    RESOURCE_CLAIMS,
    JsonObject,
)
from driver.adapters.machines.topology import read_topology
from driver.model.inventory import Inventory, InventorySource
from driver.objects.written_inventory import node_inventory
from tests.bench.figure import Figure, report
from tests.support.cluster.binaries import build
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import wait_until
from tests.support.explain_cluster import TOPOLOGY

REAL_NODES = 200
DEVICES_PER_NODE = 16
CHANGES, BURST, FAULTS = 20, 200, 20
QUIET = ("--fresh-for=3600", "--grace-period=7200")


def figures() -> Iterator[Figure]:
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


def _on_the_real_api_server(plane: ControlPlane) -> Iterator[Figure]:
    template = machine("template")
    names = [f"sim-{number:04}" for number in range(REAL_NODES)]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    inventories = [node_inventory(template.renamed(name)) for name in names]
    for objects in (nodes, inventories):
        plane.kubectl("create", "--filename=-", input=manifest(*objects), timeout=900)
    controller = start_controller(plane, plane.processes, *QUIET)
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


def machine(name: str) -> Inventory:
    """Return a machine of eight H100s and eight NICs, with what its plugin reports beside the topology."""
    found = read_topology(TOPOLOGY, node=name, hardware=HardwareFacts(gpu_model="H100"))
    gpus = (
        replace(gpu, minor=place, driver_version="580.95.05", cuda_driver_version="13.0")
        for place, gpu in enumerate(found.gpus)
    )
    nics = (
        replace(nic, verbs_minor=place, rdma_device=f"mlx5_{place}", if_names=(f"ib{place}",))
        for place, nic in enumerate(found.nics)
    )
    return replace(found, source=InventorySource.LIVE, gpus=tuple(gpus), nics=tuple(nics))


def _gpus() -> list[str]:
    return [gpu.name for gpu in machine("template").gpus]


def main() -> int:
    return report(figures())


if __name__ == "__main__":
    sys.exit(main())
