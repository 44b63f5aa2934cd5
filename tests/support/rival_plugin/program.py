"""A small device plugin: gives out device nodes as an extended resource, on the kubelet's socket. Run by its path.

``program.py FOLDER RESOURCE LIST LOG``: FOLDER is the kubelet's folder of device plugins. LIST is a JSON file, an
object of ids to device nodes on the host, and is read again every tenth of a second: an empty one withdraws all
devices. LOG gets a JSON line for each Allocate.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import device_plugin_v1beta1_pb2 as messages
import device_plugin_v1beta1_pb2_grpc as services
import grpc


class Plugin(services.DevicePluginServicer):  # type: ignore[misc,name-defined]
    def __init__(self, devices: Path, log: Path) -> None:
        self._devices = devices
        self._log = log

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return messages.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802 - as above
        former: dict[str, str] | None = None
        while context.is_active():
            found = self._read()
            if found != former:
                former = found
                listed = [messages.Device(ID=name, health="Healthy") for name in found]
                yield messages.ListAndWatchResponse(devices=listed)
            time.sleep(0.1)

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802 - as above
        nodes = self._read()
        answers = []
        for wanted in request.container_requests:
            ids = list(wanted.devicesIDs)
            with self._log.open("a") as log:
                log.write(json.dumps({"time": time.time(), "ids": ids}) + "\n")
            specs = [
                messages.DeviceSpec(
                    container_path=f"/dev/{Path(nodes[name]).name}", host_path=nodes[name], permissions="rw"
                )
                for name in ids
            ]
            envs = {"RIVAL_DEVICES": ",".join(ids)}
            answers.append(messages.ContainerAllocateResponse(devices=specs, envs=envs))
        return messages.AllocateResponse(container_responses=answers)

    def _read(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self._devices.read_text())
        return found


def main(folder: Path, resource: str, devices: Path, log: Path) -> None:
    endpoint = "rival.sock"
    (folder / endpoint).unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    services.add_DevicePluginServicer_to_server(Plugin(devices, log), server)
    server.add_insecure_port(f"unix:{folder / endpoint}")
    server.start()
    options = (("grpc.default_authority", "localhost"),)  # the kubelet's gRPC refuses one that is a path
    with grpc.insecure_channel(f"unix:{folder / 'kubelet.sock'}", options=options) as channel:
        request = messages.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
        services.RegistrationStub(channel).Register(request, timeout=10)
    server.wait_for_termination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
