"""Nodes that are simulated at a real API server, and the controller as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, NotFoundError
from driver.adapters.kubernetes.resources import (
    DEVICES,
    LEASES,
    NODE_INVENTORIES,
    NODES,
    RESOURCE_SLICES,
    JsonObject,
    Resource,
)
from driver.layout.taints import MODE_CHANGE_TAINT
from driver.model.inventory import Inventory
from driver.objects.written_inventory import node_inventory
from tests.support.paths import REPO

__all__ = ["NAMESPACE", "Controller", "Nodes"]

NAMESPACE = "rootport-system"


class Nodes:
    """Nodes, their inventories and heartbeats, written as kubelet and the plugin write them."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.api = KubernetesApi.connect(kubeconfig=kubeconfig)

    def add(self, inventory: Inventory, *, with_node: bool = True) -> None:
        if with_node:
            self.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": inventory.node}})
        self.report(inventory)
        self.beat(inventory.node)

    def report(self, inventory: Inventory) -> None:
        body = node_inventory(inventory)
        self.api.apply(NODE_INVENTORIES, body, field_manager="rootport-kubelet-plugin")

    def beat(self, node: str) -> None:
        body = {
            "metadata": {"name": node, "namespace": NAMESPACE},
            "spec": {
                "holderIdentity": "test",
                "leaseDurationSeconds": 40,
                "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
        self.api.apply(LEASES, body, field_manager="rootport-kubelet-plugin", namespace=NAMESPACE)

    @contextmanager
    def beating(self, *nodes: str, every_s: float = 0.5) -> Iterator[threading.Event]:
        """Renew the Leases of these nodes, also while the API server comes and goes."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(every_s):
                for node in nodes:
                    try:
                        self.beat(node)
                    except ApiServerError:
                        break

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield stop
        finally:
            stop.set()
            thread.join()

    def slices(self, node: str) -> list[JsonObject]:
        return list(self.api.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={node}").items)

    def visible(self, node: str) -> list[str]:
        """The devices in the node's slices, in order."""
        return [item["name"] for one in self.slices(node) for item in one["spec"].get("devices", ())]

    def devices(self, node: str) -> list[JsonObject]:
        return list(self.api.list(DEVICES, label_selector=f"rootport.dev/node={node}").items)

    def exists(self, resource: Resource, name: str, *, namespace: str | None = None) -> bool:
        try:
            self.api.get(resource, name, namespace=namespace)
        except NotFoundError:
            return False
        return True

    def closed(self, node: str) -> list[str]:
        """Those of them that wait to leave."""
        devices = [item for one in self.slices(node) for item in one["spec"].get("devices", ())]
        return [
            item["name"]
            for item in devices
            if any(taint["key"] == MODE_CHANGE_TAINT for taint in item.get("taints", ()))
        ]

    def published(self, node: str, type_: str = "Published") -> JsonObject:
        """The condition Published, or another one."""
        conditions = self.api.get(NODE_INVENTORIES, node).get("status", {}).get("conditions", ())
        return next((item for item in conditions if item["type"] == type_), {})

    def versions(self) -> dict[str, str]:
        """The resource versions of everything that the controller may write, its Lease excepted."""
        return {
            f"{resource.plural}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for resource in (RESOURCE_SLICES, DEVICES, NODE_INVENTORIES)
            for item in self.api.list(resource, metadata_only=True).items
        }

    def clear(self) -> None:
        for resource in (NODE_INVENTORIES, DEVICES, RESOURCE_SLICES, NODES):
            self._delete_all(resource, None)
        self._delete_all(LEASES, NAMESPACE)

    def _delete_all(self, resource: Resource, namespace: str | None) -> None:
        for item in self.api.list(resource, namespace=namespace, metadata_only=True).items:
            try:
                self.api.delete(resource, item["metadata"]["name"], namespace=namespace)
            except NotFoundError:
                continue


class Controller:
    """A ``rootport-controller`` process, of this tree or of a former one's code."""

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *options: str,
        identity: str = "test",
        module: str = "controller",
        tree: Path = REPO,
    ) -> None:
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    module,
                    f"--kubeconfig={kubeconfig}",
                    f"--identity={identity}",
                    "--health-port=0",
                    "--https-port=0",
                    *options,
                ],
                cwd=tree,
                env={**os.environ, "PYTHONPATH": str(tree)},
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def logged(self, text: str) -> bool:
        """Return whether its log has a match of this pattern."""
        return re.search(text, self.log.read_text()) is not None

    def leads(self) -> bool:
        return self.logged("msg=elected")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(15)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(15)

    def rss_mb(self) -> float:
        """Resident memory in MB, without pages of files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024
