"""A plugin's process, the node that it runs on, and what a test asks the API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeletplugin.node.discovery import DiscoveredNode, discover
from kubeletplugin.node.roots import Roots
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE
from tests.support.cluster.processes import wait_until

GPUS = ("0000:13:00.0", "0000:23:00.0")
NICS = ("0000:14:00.0", "0000:24:00.0")


def discover_before_and_after_a_driver_update(roots: Roots) -> tuple[DiscoveredNode, DiscoveredNode]:
    """In one process: what is loaded stays so. To be run in one of its own."""
    version = roots.hardware.path / "sys/module/nvidia/version"
    version.parent.mkdir(parents=True, exist_ok=True)
    version.write_text("580.95.05\n")
    before = discover(roots, node="n")
    version.write_text("590.10.01\n")
    return before, discover(roots, node="n")


@dataclass(slots=True, kw_only=True)
class PluginProcess:
    """A plugin's process and the folders that it works in."""

    popen: subprocess.Popen[bytes]
    log: Path
    registration: Path

    def wait_serving(self) -> None:
        wait_until(f"the registration socket; log: {self.log}", self.registration.exists, timeout_s=30, step_s=0.02)

    def wait_log(self, text: str, *, times: int = 1) -> None:
        wait_until(f"{text!r} in {self.log}", lambda: self.text().count(text) >= times, timeout_s=30, step_s=0.02)

    def text(self) -> str:
        return self.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.popen.pid, number)

    def terminate(self) -> int:
        self.popen.terminate()
        return self.popen.wait(12)

    def rss_mib(self) -> float:
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@dataclass(slots=True, kw_only=True)
class PluginNode:
    """A node without a kubelet: its hardware, its folders, and the plugin's processes."""

    name: str
    host: Path
    folder: Path
    environment: Mapping[str, str]
    processes: list[PluginProcess] = field(default_factory=list)

    @property
    def cdi(self) -> Path:
        return self.folder / "cdi"

    @property
    def plugins(self) -> Path:
        return self.folder / "plugins"

    def start(self, kubeconfig: Path, *options: str, instance: str = "local") -> PluginProcess:
        log = self.folder / f"{len(self.processes)}.log"
        with log.open("wb") as file:
            popen = subprocess.Popen(
                [
                    *(sys.executable, "-W", "error", "-m", "kubeletplugin"),
                    f"--kubeconfig={kubeconfig}",
                    f"--node-name={self.name}",
                    f"--instance={instance}",
                    f"--host-root={self.host}",
                    f"--device-root={self.host}",
                    f"--plugin-dir={self.plugins}",
                    f"--registry-dir={self.folder / 'registry'}",
                    f"--cdi-dir={self.cdi}",
                    f"--namespace={NAMESPACE}",
                    *options,
                ],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(self.environment),
            )
        registration = self.folder / "registry" / f"rootport.dev-{instance}-reg.sock"
        process = PluginProcess(popen=popen, log=log, registration=registration)
        self.processes.append(process)
        return process


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a test asks the API server."""

    plane: ControlPlane

    def add_node(self, name: str, *, status: Mapping[str, Any] | None = None) -> Path:
        """Makes the Node; gives the kubeconfig of its plugin."""
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        self.plane.kubectl("create", "--filename=-", input=json.dumps(body))
        self.set_node_status(name, status or {"nodeInfo": node_info()})
        return self.plane.service_account_kubeconfig(NAMESPACE, "rootport-kubelet-plugin", node=name)

    def set_node_status(self, name: str, status: Mapping[str, Any]) -> None:
        patch = json.dumps({"status": status})
        self.plane.kubectl("patch", "node", name, "--subresource=status", "--type=merge", f"--patch={patch}")

    def inventory(self, name: str) -> dict[str, Any] | None:
        text = self.plane.kubectl("get", "nodeinventories", name, "--ignore-not-found", "--output=json")
        return json.loads(text) if text else None

    def conditions(self, name: str) -> dict[str, dict[str, Any]]:
        found = self.inventory(name) or {}
        return {item["type"]: item for item in found.get("status", {}).get("conditions", [])}

    def wait_condition(self, name: str, kind: str, status: str, reason: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def holds() -> bool:
            nonlocal found
            found = self.conditions(name).get(kind, {})
            return (found.get("status"), found.get("reason")) == (status, reason)

        wait_until(f"condition {kind}={status} ({reason}) of {name}", holds, timeout_s=40)
        return found

    def lease(self, name: str) -> dict[str, Any]:
        text = self.plane.kubectl("get", "lease", name, f"--namespace={NAMESPACE}", "--output=json")
        found: dict[str, Any] = json.loads(text)
        return found


def node_info(runtime: str = "containerd://2.2.3", kubelet: str = "v1.36.3") -> dict[str, str]:
    names = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "operatingSystem", "architecture")
    info = dict.fromkeys((*names, "kubeProxyVersion"), "")
    return {**info, "containerRuntimeVersion": runtime, "kubeletVersion": kubelet}
