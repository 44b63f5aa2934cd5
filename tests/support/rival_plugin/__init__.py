"""A real device plugin of a real node's GPUs, beside Rootport: what NVIDIA's or HAMi's is elsewhere."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from grpc_tools import protoc

from tests.support.cluster.node import RealCluster
from tests.support.cluster.processes import Process, wait_until

__all__ = ["RESOURCE", "RivalPlugin", "rival_pod"]

RESOURCE: Final = "nvidia.com/gpu"
_FOLDER: Final = Path(__file__).parent
_PROTO: Final = "device_plugin_v1beta1.proto"
_DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"


class RivalPlugin:
    """The plugin's process on a real node.

    Args:
        cluster: Where.
        folder: New; its stubs, list and log are there.
        devices: Ids to the device nodes on the host.
        resource: The extended resource.
    """

    def __init__(
        self, cluster: RealCluster, folder: Path, devices: Mapping[str, Path], *, resource: str = RESOURCE
    ) -> None:
        folder.mkdir(parents=True)
        # Generated here and nowhere else: only a test's plugin speaks this protocol.
        code = protoc.main(
            ["protoc", f"-I{_FOLDER}", f"--python_out={folder}", f"--grpc_python_out={folder}", str(_FOLDER / _PROTO)]
        )
        assert code == 0
        self._cluster = cluster
        self._folder = folder
        self._devices = {name: str(path) for name, path in devices.items()}
        self._resource = resource
        self._list = folder / "devices.json"
        self._log = folder / "allocated.jsonl"
        self._process: Process | None = None

    def start(self) -> None:
        """Start it and wait until the kubelet offers its devices on the Node."""
        self.offer(self._devices)
        self._process = self._cluster.processes.start(
            "rival-plugin",
            sys.executable,
            _FOLDER / "program.py",
            _DEVICE_PLUGINS,
            self._resource,
            self._list,
            self._log,
            env={"PYTHONPATH": os.pathsep.join([str(self._folder), os.environ.get("PYTHONPATH", "")])},
        )
        wait_until(
            f"the Node has the plugin's devices (log: {self._process.log})",
            lambda: self.allocatable() == len(self._devices),
            timeout_s=40,
        )

    def offer(self, devices: Mapping[str, str]) -> None:
        """Give out these devices from now on; none withdraws all, as no real plugin does, and spares five minutes."""
        new = self._list.with_suffix(".new")
        new.write_text(json.dumps(dict(devices)))
        new.replace(self._list)

    def withdraw(self) -> None:
        """Withdraw all devices, wait until the Node has none any more, and end."""
        self.offer({})
        wait_until("the Node has none of the plugin's devices", lambda: self.capacity() == 0, timeout_s=40)
        self.kill()

    def stop(self) -> None:
        """Withdraw and end where it runs; else come back for that, if the kubelet still waits for it."""
        if self._process is None and self.capacity():
            self.start()
        if self._process is not None:
            self.withdraw()

    def kill(self) -> None:
        """End at once, as a plugin's pod that is deleted."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def capacity(self) -> int:
        """How many the Node has."""
        return self._amount("capacity")

    def allocatable(self) -> int:
        """How many of these the kubelet gives out: none while the plugin is away."""
        return self._amount("allocatable")

    def allocations(self) -> list[dict[str, Any]]:
        """What it was asked for, in order."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    def _amount(self, field: str) -> int:
        status = self._cluster.get("node", "node-1")["status"]
        return int(status.get(field, {}).get(self._resource, "0"))


def rival_pod(name: str, *, count: int = 1, resource: str = RESOURCE) -> dict[str, Any]:
    """A busybox pod that asks for devices by the extended resource, as pods did before DRA."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "rival"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1.37",
                    "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"],
                    "resources": {"limits": {resource: str(count)}},
                }
            ],
        },
    }
