"""`make bench`: what a node's plugin keeps in memory, phase by phase, without a kubelet.

The plugin runs as in its image (no docstrings, compiled files, CNI and metrics on) on a stub of eight GPUs and eight
NICs, against an API server by HTTPS that keeps its objects in memory; this process takes the kubelet's part.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import grpc
import yaml

from kubeletplugin.protocol import dra_v1_pb2, dra_v1_pb2_grpc
from tests.bench.figure import Figure, report
from tests.bench.memory_api_server import MemoryApiServer
from tests.support.cluster.cni_program import build_cni_program
from tests.support.cluster.hardware import FakeHost, make_host
from tests.support.cluster.processes import wait_until
from tests.support.paths import REPO
from tests.support.ports import free_port
from tests.support.stub_nvml import build as build_stub

NODE: Final = "node-1"
PODS: Final = 80
AT_ONCE: Final = 4
LIMIT_MIB: Final = 58.7
"""1.45 times the Go peer's 40.5 MiB; ``cluster_bench`` has both in one run."""
PARAMETERS: Final[Mapping[str, Any]] = {
    "apiVersion": "rootport.dev/v1alpha1",
    "kind": "GpuConfig",
    "sharing": {"strategy": "timeSlicing"},
}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Memory:
    """A process's memory in MiB.

    Attributes:
        rss: All of it that is resident.
        anonymous: Without the pages of files: libraries' code, above all.
    """

    rss: float
    anonymous: float

    @staticmethod
    def of(pid: int) -> Memory:
        """As the kernel has it now."""
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        found = {name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in lines)}
        return Memory(found["Rss"], found["Anonymous"])


class Node:
    """A plugin's process, and the kubelet's part.

    Args:
        folder: Where all of it is; empty, with a short path.
        python: What Python runs, before the plugin's own options.
    """

    def __init__(self, folder: Path, *python: str) -> None:
        self.folder = folder
        self.api = MemoryApiServer(folder, tls=True)
        self.api.put("nodes", [{"metadata": {"name": NODE}, "status": {"nodeInfo": {}}}])
        self.host = make_host(folder / "host", build_stub(folder), device_nodes=os.geteuid() == 0)
        self._free: SimpleQueue[str] = SimpleQueue()
        for address in self.host.gpus:
            self._free.put(address)
        self._metrics_port = free_port()
        self._process = self._start(python)

    @property
    def pid(self) -> int:
        """The plugin's."""
        return self._process.pid

    def _start(self, python: Sequence[str]) -> subprocess.Popen[bytes]:
        folder, host = self.folder, self.host
        for name in ("registry", "net.d", "cni-bin"):
            (folder / name).mkdir()
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}]}
        (folder / "net.d/10-pods.conflist").write_text(json.dumps(network))
        program = build_cni_program(folder / "rootport-cni", state=host.root / "run/rootport/cni")
        options = [
            f"--kubeconfig={self.api.kubeconfig}",
            f"--node-name={NODE}",
            f"--host-root={host.root}",
            f"--device-root={host.root}",
            f"--plugin-dir={folder / 'plugins'}",
            f"--registry-dir={folder / 'registry'}",
            f"--cdi-dir={folder / 'cdi'}",
            f"--cni-conf-dir={folder / 'net.d'}",
            f"--cni-bin-dir={folder / 'cni-bin'}",
            f"--cni-program={program}",
            f"--gpu-policies={installed_policies(folder)}",
            f"--health-port={self._metrics_port}",
        ]
        with (folder / "plugin.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *python, *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=REPO,
                env=_environment(host, folder),
            )

    def wait_serving(self) -> None:
        """Wait until the kubelet could call, and the inventory is published."""
        log = self.folder / "plugin.log"

        def serves() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"the plugin ended:\n{log.read_text()[-4000:]}")
            sockets = (self.folder / "registry").glob("*.sock")
            return any(sockets) and self.api.writes["nodeinventories/status"] > 0

        wait_until(f"the plugin serves (log: {log})", serves, timeout_s=60)

    def claims_come_and_go(self, count: int, parameters: Mapping[str, Any] | None) -> None:
        """Prepare and unprepare so many claims for one GPU each, four at a time."""
        socket = next((self.folder / "plugins").glob("dra*.sock"))
        with grpc.insecure_channel(f"unix:{socket}") as channel, ThreadPoolExecutor(AT_ONCE) as pool:
            stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
            list(pool.map(partial(self._comes_and_goes, stub, parameters), range(count)))

    def _comes_and_goes(self, stub: Any, parameters: Mapping[str, Any] | None, number: int) -> None:
        kind = "parameters" if parameters else "plain"
        uid = f"00000000-0000-4000-8000-{len(kind):04d}{number:08d}"
        address = self._free.get()
        stored = _claim(f"{kind}-{number}", uid, f"gpu-{address.replace(':', '-').replace('.', '-')}", parameters)
        self.api.put("resourceclaims", [stored])
        claim = dra_v1_pb2.Claim(namespace="default", uid=uid, name=stored["metadata"]["name"])
        answer = stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim])).claims[uid]
        if answer.error:
            raise RuntimeError(answer.error)
        gone = stub.NodeUnprepareResources(dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[claim])).claims[uid]
        if gone.error:
            raise RuntimeError(gone.error)
        self._free.put(address)

    def memory(self) -> Memory:
        """As it is now."""
        return Memory.of(self.pid)

    def cpu_s(self) -> float:
        """The CPU time that the plugin has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def scrape(self) -> None:
        """Read the plugin's metrics, as Prometheus does."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=10) as answer:
            answer.read()

    def stop(self) -> None:
        """End the plugin and the API server."""
        self._process.terminate()
        self._process.wait(15)
        self.api.stop()


def installed_policies(folder: Path) -> Path:
    """The file of GpuPolicies that an installation has, in this folder."""
    manifests = yaml.safe_load_all((REPO / "resourceclasses" / "workloads" / "controller.yaml").read_text())
    (text,) = (item["data"]["gpu-policies.yaml"] for item in manifests if "gpu-policies.yaml" in item.get("data", ()))
    path = folder / "gpu-policies.yaml"
    path.write_text(text)
    return path


def _environment(host: FakeHost, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Beside the folder: the second node of a bench finds what the first one has compiled, as in an image.
    return (
        kept
        | dict(host.environment)
        | {
            "PYTHONPATH": str(REPO),
            "PYTHONPYCACHEPREFIX": str(folder.parent / "compiled"),
        }
    )


def _claim(name: str, uid: str, device: str, parameters: Mapping[str, Any] | None) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    opaque = {"opaque": {"driver": "rootport.dev", "parameters": parameters}}
    config = [{"source": "FromClaim", "requests": [], **opaque}] if parameters else []
    shares = {"consumedCapacity": {"core": "100", "memory": "81559Mi"}, "shareID": uid} if parameters else {}
    result = {"request": "gpu", "driver": "rootport.dev", "pool": NODE, "device": device, **shares}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "managedFields": [{"manager": "kube-scheduler", "fieldsV1": {"f:status": {"f:allocation": {}}}}],
        },
        "spec": {"devices": {"requests": [request], "config": [opaque] if parameters else []}},
        "status": {
            "allocation": {"devices": {"results": [result], "config": config}},
            "reservedFor": [{"resource": "pods", "name": f"pod-{name}", "uid": f"{uid[:-1]}f"}],
        },
    }


def phases(node: Node) -> Iterator[tuple[str, Memory]]:
    """The memory in each phase of a plugin's life."""
    node.wait_serving()
    yield "started", node.memory()
    node.scrape()
    yield "after the first scrape", node.memory()
    node.claims_come_and_go(1, None)
    yield "after the first claim", node.memory()
    for _ in range(4):
        node.claims_come_and_go(PODS // 4, None)
        node.scrape()
    yield f"after {PODS} claims without parameters", node.memory()
    for _ in range(4):
        node.claims_come_and_go(PODS // 4, PARAMETERS)
        node.scrape()
    yield f"after {PODS} more with parameters", node.memory()


def figures(python: Sequence[str]) -> Iterator[Figure]:
    """The resident memory of each phase; a first process of the plugin compiles what it imports."""
    with tempfile.TemporaryDirectory(prefix="rootport-") as text:
        for name in ("compiling", "measured"):
            folder = Path(text, name)
            folder.mkdir()
            node = Node(folder, *python)
            try:
                for phase, memory in phases(node):
                    if name == "measured":
                        what = f"plugin, {phase} (of it anonymous {memory.anonymous:.1f})"
                        yield Figure(what, memory.rss, LIMIT_MIB, "MiB")
            finally:
                node.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="with docstrings, as the plugin does not run in its image")
    given = parser.parse_args()
    sys.exit(report(figures((*(() if given.plain else ("-OO",)), "-m", "kubeletplugin"))))
