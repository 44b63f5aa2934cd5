"""A control plane with a trace's nodes, which exist in the API only, and the scheduler of one of the ways."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import (
    NODE_INVENTORIES,
    NODES,
    RESOURCE_SLICES,
    Resource,
)
from driver.objects.written_inventory import node_inventory
from driver.placement.replay.trace import TraceNode
from tests.bench.trace_cluster.machines import inventory, slices
from tests.bench.trace_cluster.objects import NAMESPACE, Way, node
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE as SYSTEM
from tests.support.cluster.driver import install, start_controller
from tests.support.cluster.processes import Process, wait_until
from tests.support.paths import REPO
from tests.support.ports import free_port

__all__ = ["PACKING", "TraceCluster"]

PACKING = REPO / "examples" / "kube-scheduler" / "packing.yaml"
"""The configuration of the stock way."""

_SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
_QUICK = ("--kube-api-qps=1000", "--kube-api-burst=1000")  # or the clients' own limit, 50 calls a second, is measured
_NO_PORT = "--secure-port=0"
_SETTLED_S = 35  # so long the controller leaves a node alone whose devices have become managed
_COMPONENTS = {Way.STOCK: (), Way.STOCK_WAY: ("extended-resources",), Way.MANAGED: ("placement",)}


class TraceCluster:
    """The cluster, ready for pods once :meth:`start` has returned.

    Args:
        plane: Its control plane, started, without scheduler.
        nodes: The trace's.
        way: Who chooses.
        configuration: kube-scheduler's, in the stock way; None for its default.

    Attributes:
        api: As administrator.
        nodes: The trace's.
        processes: Those whose CPU time is told, by name.
    """

    def __init__(
        self, plane: ControlPlane, nodes: Sequence[TraceNode], way: Way, *, configuration: Path | None = PACKING
    ) -> None:
        self.plane = plane
        self.api = KubernetesApi.connect(kubeconfig=plane.kubeconfig, timeout_s=60)
        self.processes: dict[str, Process] = {"kube-apiserver": plane.api_server}
        self.nodes = nodes
        self._way = way
        self._controllers = 0
        self._health_port = free_port()
        self._configuration = configuration if way is Way.STOCK_WAY else None

    def start(self) -> None:
        """Make the nodes, publish their devices, and start who chooses."""
        install(self.plane, *_COMPONENTS[self._way])
        self.api.create(_SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=NAMESPACE)
        with ThreadPoolExecutor(4) as pool:
            self._each(pool, self._make_node, self.nodes)
            if self._way is Way.MANAGED:
                self._each(pool, self._make_inventory, self.nodes)
            else:
                self._publish_all(pool)
        self.processes["kube-controller-manager"] = self.plane.start_controller_manager(
            "--controllers=resourceclaim-controller", _NO_PORT, *_QUICK
        )
        if self._way is Way.MANAGED:
            self.plane.kubectl("label", "namespace", NAMESPACE, "rootport.dev/placement=all-pods")
            self.start_controller()
            wait_until("all nodes' slices", self._all_published, timeout_s=900, step_s=2)
            time.sleep(_SETTLED_S)
        options = _QUICK if self._configuration is None else (f"--config={self._completed(self._configuration)}",)
        self.processes["kube-scheduler"] = self.plane.start_scheduler(_NO_PORT, *options)
        self.rest()

    def cpu_s(self) -> Mapping[str, float]:
        """The CPU time of each process until now, in seconds."""
        return {name: process.cpu_s() for name, process in self.processes.items() if process.alive()}

    def nowhere(self) -> float:
        """How often the controller has found no managed node for a pod, by its metric."""
        try:
            text = self.metrics()
        except OSError:  # it is being replaced
            return 0.0
        found = re.search(r'^rootport_placement_decisions_total\{outcome="nowhere"\} (\S+)', text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def metrics(self) -> str:
        """The controller's metrics."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self._health_port}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def rest(self, calm_s: float = 1.0, timeout_s: float = 900) -> None:
        """Wait until the processes have nothing to do: each takes less than a tenth of a core."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            before = self.cpu_s()
            time.sleep(calm_s)
            if all(now - before[name] <= 0.1 * calm_s for name, now in self.cpu_s().items() if name in before):
                return
        raise TimeoutError(f"no rest within {timeout_s:.0f} s")

    def close(self) -> None:
        """Close the connections."""
        self.api.close()

    def _completed(self, configuration: Path) -> Path:
        """The configuration with what only this cluster needs."""
        path = self.plane.folder / "scheduler.yaml"
        wire = yaml.safe_load(configuration.read_text())
        wire["clientConnection"] = {"kubeconfig": str(self.plane.kubeconfig), "qps": 1000, "burst": 1000}
        wire["leaderElection"] = {"leaderElect": False}
        path.write_text(yaml.safe_dump(wire))
        return path

    def start_controller(self) -> None:
        """Start Rootport's controller, also after one that was killed."""
        self._controllers += 1
        self.processes["controller"] = start_controller(
            self.plane,
            self.plane.processes,
            "--fresh-for=86400",
            "--grace-period=172800",
            f"--health-port={self._health_port}",
            "--gpu-layout=one",
            "--placement=pack",
            name=f"controller-{self._controllers}",
        )

    def _all_published(self) -> bool:
        pools = {item["spec"]["pool"]["name"] for item in self.api.list(RESOURCE_SLICES).items}
        return pools == {node.name for node in self.nodes}

    def _make_node(self, item: TraceNode) -> None:
        self.api.create(NODES, node(item, managed=self._way is Way.MANAGED))
        self.api.merge_patch(NODES, item.name, {"spec": {"taints": None}})

    def _make_inventory(self, item: TraceNode) -> None:
        self.api.create(NODE_INVENTORIES, node_inventory(inventory(item)))

    def _publish_all(self, pool: ThreadPoolExecutor) -> None:
        """Write the slices by the controller's account: nobody else may."""
        kubeconfig = self.plane.service_account_kubeconfig(SYSTEM, "rootport-controller")
        with KubernetesApi.connect(kubeconfig=kubeconfig, timeout_s=60) as api:
            self._each(
                pool,
                lambda each: api.create(RESOURCE_SLICES, each),
                [part for item in self.nodes for part in slices(item)],
            )

    @staticmethod
    def _each(pool: ThreadPoolExecutor, call: Callable[[Any], object], items: Sequence[Any]) -> None:
        for _ in pool.map(call, items):
            pass
