"""What it costs the API server that each node's plugin watches its NodeInventory, for claims to prepare before binding.

By hand: ``python -m tests.bench.inventory_watch_bench``. 1,000 NodeInventories of 8 GPUs and 8 NICs at a real API
server; the list of claims of one after the other is written as the controller writes it, first with nobody watching and
then with a watch of each object by its name, as the plugins have it. CPU is that of the API server's process
(proc_pid_stat(5)).
"""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final
from uuid import uuid4

from controller.binding.announcer import FIELD_MANAGER
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.reflector import Reflector
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, JsonObject
from tests.bench.figure import Figure, report
from tests.support.cluster.binaries import build
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.cluster.processes import Process, wait_until
from tests.support.machines import nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.simulated_nodes import Nodes

NODES: Final = 1000
WRITES: Final = 2000
IDLE_S: Final = 30.0


def figures() -> Iterator[Figure]:
    """Everything this module measures."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder) / "plane", build(print)) as plane:
        install(plane)
        nodes = Nodes(plane.kubeconfig)
        devices = [mig_gpu(f"1{index}") for index in range(8)] + [nic(f"2{index}", index) for index in range(8)]
        for number in range(NODES):
            nodes.report(node(*devices, name=node_name(number)))
        server = plane.api_server
        write(nodes.api, server, WRITES // 4)  # warm
        before = write(nodes.api, server, WRITES)
        write(nodes.api, server, WRITES)
        memory = server.rss_mib()
        stop = threading.Event()
        watches = [watch(plane.kubeconfig, node_name(number), stop) for number in range(NODES)]
        wait_until("each is watched", lambda: all(one.synced.is_set() for one in watches), timeout_s=300)
        start = server.cpu_s()
        time.sleep(IDLE_S)
        idle = (server.cpu_s() - start) / IDLE_S
        after = write(nodes.api, server, WRITES)
        grown = server.rss_mib() - memory
        yield Figure("API server's CPU for a write, nobody watches", before, inf, "ms")
        yield Figure(f"the same with {NODES} watches, each of one object", after, inf, "ms")
        yield Figure("API server's CPU with these watches while nothing changes, of one core", idle * 100, inf, "%")
        yield Figure(
            "API server's resident memory for each watch, once these writes were sent to them",
            grown * 1024 / NODES,
            inf,
            "KiB",
        )
        stop.set()
        logging.disable()  # each watch would tell that its API server has ended


def node_name(number: int) -> str:
    """The name of one of the nodes, counted from 0."""
    return f"node-{number:04d}"


def write(api: KubernetesApi, server: Process, times: int) -> float:
    """Write the lists of so many nodes; the API server's CPU for each, in milliseconds."""
    start = server.cpu_s()
    for number in range(times):
        entries: list[JsonObject] = [{"namespace": "ml", "name": f"claim-{number}", "uid": str(uuid4())}]
        body: JsonObject = {
            "metadata": {"name": node_name(number % NODES)},
            "status": {"claimsToPrepare": entries},
        }
        api.apply(NODE_INVENTORIES, body, field_manager=FIELD_MANAGER, subresource="status")
    return (server.cpu_s() - start) * 1000 / times


def watch(kubeconfig: Path, node: str, stop: threading.Event) -> Reflector[None]:
    """Watch one NodeInventory, with a connection of its own."""
    made = Reflector[None](
        KubernetesApi.connect(kubeconfig=kubeconfig),
        NODE_INVENTORIES,
        field_selector=f"metadata.name={node}",
        on_change=lambda _key, _event: None,
        transform=lambda item: ({"metadata": item["metadata"]}, None),
    )
    threading.Thread(target=made.run, args=(stop,), daemon=True).start()
    return made


if __name__ == "__main__":
    sys.exit(report(figures()))
