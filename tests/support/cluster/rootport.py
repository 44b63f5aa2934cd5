"""Rootport's processes on a real cluster, and what a test wants to know of them."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from driver.adapters.kubernetes.resources import NODE_INVENTORIES, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.support.cluster.cni_program import build_cni_program
from tests.support.cluster.driver import install, start_controller, start_plugin
from tests.support.cluster.hardware import FakeHost
from tests.support.cluster.node import NODE_NAME, RealCluster
from tests.support.cluster.processes import Process, wait_until

__all__ = [
    "CDI_DIRECTORY",
    "CONTROLLER_HEALTH_PORT",
    "HTTPS_PORT",
    "PLUGIN_DIRECTORY",
    "PLUGIN_HEALTH_PORT",
    "RunningRootport",
]

PLUGIN_DIRECTORY: Final = "/var/lib/kubelet/plugins/rootport.dev"
CDI_DIRECTORY: Final = "/run/cdi"
"""Not /var/run/cdi: /var/run is an absolute link, which from outside the machine would lead to the host's /run."""

# All processes share the machine's network.
CONTROLLER_HEALTH_PORT: Final = 8081
PLUGIN_HEALTH_PORT: Final = 8082
HTTPS_PORT: Final = 8443

# Faults of devices are seen, and over, sooner than on a real node.
_SOON: Final = ("--health-interval=2", "--health-hold=4", "--rival-hold=4")


class RunningRootport:
    """A controller process, and a plugin process on the real node.

    Args:
        cluster: Where.
        host: The node's hardware.
        lends_interfaces: Whether Rootport's CNI plugin is made part of the node's network.

    Attributes:
        plugin: The plugin's process; None while it is stopped.
        controller: The controller's.
    """

    def __init__(self, cluster: RealCluster, host: FakeHost, *, lends_interfaces: bool = False) -> None:
        self.cluster = cluster
        self.host = host
        self._network: tuple[str, ...] = ()
        if lends_interfaces:
            program = build_cni_program(cluster.folder / "rootport-cni", state=host.root / "run/rootport/cni")
            self._network = (
                f"--cni-conf-dir={cluster.cni_conf_folder}",
                f"--cni-bin-dir={cluster.cni_bin_folder}",
                f"--cni-program={program}",
            )
        self.plugin: Process | None = None
        self.controller: Process | None = None

    def start(self, *controller_options: str, controller_module: str = "controller") -> None:
        """Install the manifests, start both processes, and wait until the node's devices are published."""
        install(self.cluster.control_plane)
        self.start_controller(*controller_options, module=controller_module)
        self.start_plugin()

    def start_controller(self, *options: str, module: str = "controller") -> Process:
        """Start the controller."""
        self.controller = start_controller(
            self.cluster.control_plane,
            self.cluster.processes,
            f"--https-port={HTTPS_PORT}",
            f"--health-port={CONTROLLER_HEALTH_PORT}",
            *options,
            module=module,
        )
        return self.controller

    def wait_until_controller_is_ready(self) -> None:
        """Wait until the controller leads, has read everything and serves all that it serves."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = f"http://{self.cluster.machine.address}:{CONTROLLER_HEALTH_PORT}/readyz"
        assert self.controller is not None
        controller = self.controller

        def is_ready() -> bool:
            if not controller.alive():
                raise RuntimeError(f"the controller ended:\n{controller.log.read_text()[-4000:]}")
            try:
                with opener.open(url, timeout=5) as answer:
                    return bool(answer.status == HTTPStatus.OK)
            except OSError:  # it does not listen yet, or answers 503
                return False

        wait_until("the controller is ready", is_ready, timeout_s=60)

    def start_plugin(
        self, *, options: Iterable[str] = (), instance: str = "local", module: tuple[str, ...] = ("-m", "kubeletplugin")
    ) -> Process:
        """Start the plugin and wait until the kubelet knows it and the slices are there."""
        is_second = self.plugin is not None and self.plugin.alive()
        self.plugin = start_plugin(
            self.cluster.control_plane,
            self.cluster.processes,
            self.host,
            node=NODE_NAME,
            options=(
                *self._network,
                *_SOON,
                *(() if is_second else (f"--health-port={PLUGIN_HEALTH_PORT}",)),
                *options,
            ),
            instance=instance,
            module=module,
        )
        self.wait_until_usable()
        return self.plugin

    def wait_until_usable(self) -> None:
        """Wait until the kubelet has registered the plugin and the node's slices are published."""
        assert self.plugin is not None
        log = self.plugin.log

        def usable() -> bool:
            assert self.plugin is not None
            if not self.plugin.alive():
                raise RuntimeError(f"the plugin ended:\n{log.read_text()[-4000:]}")
            return self.condition("Registered") == "True" and _are_complete(self.slices())

        wait_until(f"the plugin is registered and its slices are published (log: {log})", usable, timeout_s=60)

    def condition(self, kind: str) -> str | None:
        """The status of a condition of the node's NodeInventory; None where it has none."""
        inventories = {item["metadata"]["name"]: item for item in self.cluster.list(NODE_INVENTORIES)}
        conditions = inventories.get(NODE_NAME, {}).get("status", {}).get("conditions", [])
        found: list[str] = [item["status"] for item in conditions if item["type"] == kind]
        return found[0] if found else None

    def slices(self) -> list[dict[str, Any]]:
        """The driver's ResourceSlices."""
        return self.cluster.list(RESOURCE_SLICES, field_selector="spec.driver=rootport.dev")

    def all_have_taint(self, key: str) -> bool:
        """Whether devices are published, and each has a taint with this key."""
        devices = [device for part in self.slices() for device in part["spec"].get("devices", ())]
        return bool(devices) and all(any(one["key"] == key for one in item.get("taints", ())) for item in devices)

    def cdi_files(self) -> list[str]:
        """The names of the files in the CDI folder, temporary ones too."""
        return _names(self.cluster.machine.path(CDI_DIRECTORY))

    def checkpoint(self) -> dict[str, Any]:
        """The checkpoint's claims by UID."""
        path = self.cluster.machine.path(PLUGIN_DIRECTORY) / "checkpoint.json"
        if not path.exists():
            return {}
        return {item["uid"]: item for item in json.loads(path.read_text())["data"]["claims"]}

    def leftovers(self) -> list[str]:
        """Everything that a prepared claim leaves on the node; empty where none is prepared."""
        plugin = self.cluster.machine.path(PLUGIN_DIRECTORY)
        return [
            *self.cdi_files(),
            *self.checkpoint(),
            *_names(plugin / "device-metadata"),
            *_names(plugin / "effects"),
            *_names(self.host.root / "run/rootport/cni/pods"),
            *_names(self.host.root / "run/rootport/cni/vfs"),
            *self.host.gpu_changes(),
        ]

    def mps_daemons(self) -> list[int]:
        """The processes of the node's MPS control daemons."""
        found = self.host.programs.processes()
        return [process for process, name in found.items() if name == "nvidia-cuda-mps-control"]

    def require_clean(self) -> None:
        """Fail where an earlier test has left something."""
        assert not (left := self.leftovers()), left
        assert self.plugin is not None
        assert self.plugin.alive()
        assert self.controller is not None
        assert self.controller.alive()

    def delete_all(self) -> None:
        """Delete every pod and claim of the default namespace, and wait until they are gone."""
        kinds = "pods,resourceclaims,resourceclaimtemplates"
        self.cluster.kubectl("delete", kinds, "--all", "--timeout=90s")
        # Those of templates go after their pods, and hold devices until then.
        wait_until("no claim is left", lambda: not self.cluster.list(RESOURCE_CLAIMS), timeout_s=45)

    def wait_until_clean(self) -> None:
        """Wait until nothing is prepared; a test that leaves something fails here."""
        try:
            wait_until("nothing is prepared any more", lambda: not self.leftovers(), timeout_s=45)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self.leftovers()}") from None

    def apply(self, *files: Path) -> None:
        """``kubectl apply`` files."""
        self.cluster.kubectl("apply", *(f"--filename={file}" for file in files))

    def delete(self, *files: Path) -> None:
        """``kubectl delete`` files, and wait until their objects are gone."""
        self.cluster.kubectl("delete", "--wait=true", *(f"--filename={file}" for file in files))

    def stop(self) -> None:
        """Ask both processes to end."""
        for process in (self.plugin, self.controller):
            if process is not None and process.alive():
                process.stop()


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _are_complete(slices: list[dict[str, Any]]) -> bool:
    """Whether there are slices, and all of each pool: they are written one by one."""
    pools = [part["spec"]["pool"] for part in slices]
    found = Counter(pool["name"] for pool in pools)
    return bool(pools) and all(found[pool["name"]] == pool["resourceSliceCount"] for pool in pools)
