"""What NodePrepareResources and NodeUnprepareResources cost the plugin alone, without a kubelet beside it.

A plugin's process with the stub NVML reads claims from a small API server in another process, and is called over its
own socket. For finding out where time goes; what a pod waits for is measured by :mod:`tests.bench.cluster_bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import grpc
import yaml

from kubeletplugin.protocol import dra_v1_pb2 as v1
from kubeletplugin.protocol import dra_v1_pb2_grpc as v1_grpc
from tests.support.cluster.hardware import FakeHost, make_host
from tests.support.cluster.processes import wait_until
from tests.support.stub_nvml import build as build_stub

NODE: Final = "bench"
_WARM_UP: Final = 3


def claim(number: int, gpu: str, *, shared: bool = False) -> dict[str, Any]:
    """A claim as a 1.36 API server returns it: of a template, allocated and reserved."""
    name, uid = f"pod-{number}-gpus-abcde", str(UUID(int=number + (4 << 76) + (8 << 60)))
    request: dict[str, Any] = {"deviceClassName": "gpu.rootport.dev", "allocationMode": "ExactCount", "count": 1}
    result: dict[str, Any] = {
        "request": "gpu",
        "driver": "rootport.dev",
        "pool": NODE,
        "device": f"gpu-{gpu.replace(':', '-').replace('.', '-')}",
    }
    if shared:
        request["capacity"] = {"requests": {"core": "1", "memory": "256Mi"}}
        result["consumedCapacity"] = {"core": "1", "memory": "256Mi"}
        result["shareID"] = uid
    written = {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "resource.k8s.io/v1"}
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, "f:resource.kubernetes.io/pod-claim-name": {}}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "generateName": f"pod-{number}-gpus-",
            "namespace": "default",
            "uid": uid,
            "resourceVersion": "4711",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpus"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": f"pod-{number}", "uid": uid}],
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "managedFields": [written | {"fieldsV1": fields}] * 2,
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
                    ]
                },
            },
            "reservedFor": [{"resource": "pods", "name": f"pod-{number}", "uid": uid}],
        },
    }


def _serve(claims: dict[str, bytes], certificate: Path, key: Path, port_file: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                lengths = [
                    int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
                ]
                sent = await reader.readexactly(lengths[0]) if lengths else b""
                name = path.partition("?")[0].removesuffix("/status").rpartition("/")[2]
                body = claims.get(name) or (sent if method != "GET" else b"")
                status = "200 OK" if body else "404 Not Found"
                body = body or b'{"kind":"Status","message":"not found","code":404}'
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        port_file.write_text(str(server.sockets[0].getsockname()[1]))
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def api_server(folder: Path, claims: Sequence[dict[str, Any]]) -> Iterator[Path]:
    """Serve claims over TLS by another process; gives the kubeconfig."""
    key, certificate, port_file = folder / "key", folder / "certificate", folder / "port"
    names = ("-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *names)
    subprocess.run(command, check=True, capture_output=True)
    wire = {item["metadata"]["name"]: json.dumps(item).encode() for item in claims}
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(wire, certificate, key, port_file), daemon=True
    )
    process.start()
    wait_until("the API server", lambda: port_file.exists() and bool(port_file.read_text()), timeout_s=20)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": f"https://127.0.0.1:{port_file.read_text()}",
                    "certificate-authority": str(certificate),
                },
            }
        ],
        "users": [{"name": "u", "user": {"token": "secret" * 150}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    try:
        yield kubeconfig
    finally:
        process.terminate()
        process.join()


@contextmanager
def plugin(
    folder: Path, host: FakeHost, kubeconfig: Path, *, module: Sequence[str] = ("-m", "kubeletplugin")
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a plugin; gives its process and its socket."""
    (folder / "registry").mkdir()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-OO", *module),
                f"--kubeconfig={kubeconfig}",
                f"--node-name={NODE}",
                "--instance=bench",
                f"--host-root={host.root}",
                f"--device-root={host.root}",
                f"--plugin-dir={folder / 'plugin'}",
                f"--registry-dir={folder / 'registry'}",
                f"--cdi-dir={folder / 'cdi'}",
                "--health-port=0",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(host.environment),
        )
        try:
            shown = folder / "registry" / "rootport.dev-bench-reg.sock"
            wait_until(f"the plugin (log: {folder / 'log'})", shown.exists, timeout_s=30)
            yield process, folder / "plugin" / "dra-bench.sock"
        finally:
            process.terminate()
            process.wait(15)


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one call, in milliseconds: what the caller waited, and the plugin's CPU.

    The CPU is the lower quartile of the rounds' means: what else the machine does makes it more, and never less.
    """

    mean: float
    median: float
    cpu: float

    def __str__(self) -> str:
        return f"mean {self.mean:6.2f} ms, median {self.median:6.2f} ms, plugin's CPU {self.cpu:5.2f} ms"


def prepare(stub: v1_grpc.DRAPluginStub, item: v1.Claim) -> None:
    """Prepare one claim, as the kubelet does."""
    answer = stub.NodePrepareResources(v1.NodePrepareResourcesRequest(claims=[item]))
    assert answer.claims[item.uid].devices, answer


def unprepare(stub: v1_grpc.DRAPluginStub, item: v1.Claim) -> None:
    """Unprepare it."""
    answer = stub.NodeUnprepareResources(v1.NodeUnprepareResourcesRequest(claims=[item]))
    assert not answer.claims[item.uid].error, answer


def measure(
    stub: v1_grpc.DRAPluginStub, pid: int, claims: Sequence[v1.Claim], *, at_once: int, rounds: int, pause_s: float
) -> list[Measured]:
    """Prepare and unprepare claims, ``at_once`` of them at the same time, each in a call of its own."""
    calls = (prepare, unprepare)
    waited: tuple[list[float], ...] = ([], [])
    used: tuple[list[float], ...] = ([], [])

    def timed(call: Callable[[v1_grpc.DRAPluginStub, v1.Claim], None], item: v1.Claim) -> float:
        began = time.perf_counter()
        call(stub, item)
        return time.perf_counter() - began

    with ThreadPoolExecutor(at_once) as pool:
        for number in range(_WARM_UP + rounds):
            asked = [claims[(number * at_once + index) % len(claims)] for index in range(at_once)]
            for kind, call in enumerate(calls):
                before = _cpu_s(pid)
                seconds = list(pool.map(timed, [call] * at_once, asked))
                if number >= _WARM_UP:
                    waited[kind].extend(seconds)
                    used[kind].append((_cpu_s(pid) - before) / at_once)
                time.sleep(pause_s)
    return [
        Measured(statistics.fmean(seconds) * 1e3, statistics.median(seconds) * 1e3, statistics.quantiles(cpu)[0] * 1e3)
        for seconds, cpu in zip(waited, used, strict=True)
    ]


def _reference(item: dict[str, Any]) -> v1.Claim:
    return v1.Claim(namespace="default", name=item["metadata"]["name"], uid=item["metadata"]["uid"])


def _cpu_s(pid: int) -> float:
    """CPU time of a process, in seconds: clock_getcpuclockid(3), which Python has for this process's own alone."""
    return time.clock_gettime(~pid << 3 | 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--held", type=int, default=0, help="claims for shares that are prepared before, and stay so")
    parser.add_argument("--module", nargs="*", default=["-m", "kubeletplugin"], help="what to run: for a profiler")
    parser.add_argument("--pause", type=float, default=0.03, help="seconds between two rounds")
    parser.add_argument("--at-once", type=int, nargs="*", default=[4, 1])
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rootport-bench-"))
    try:
        host = make_host(folder / "host", build_stub(folder), device_nodes=os.geteuid() == 0)
        held = [claim(1000 + number, host.gpus[-1], shared=True) for number in range(options.held)]
        free = host.gpus[:-1] if held else host.gpus
        offered = [claim(number, free[number % len(free)]) for number in range(len(free) * 4)]
        with (
            api_server(folder, [*held, *offered]) as kubeconfig,
            plugin(folder, host, kubeconfig, module=options.module) as (process, socket),
            grpc.insecure_channel(f"unix:{socket}") as channel,
        ):
            stub = v1_grpc.DRAPluginStub(channel)
            for item in held:
                prepare(stub, _reference(item))
            time.sleep(3)  # the loops have done what a start takes
            asked = [_reference(item) for item in offered]
            for at_once in options.at_once:
                found = measure(stub, process.pid, asked, at_once=at_once, rounds=options.rounds, pause_s=options.pause)
                for name, part in zip(("prepare", "unprepare"), found, strict=True):
                    print(f"{name:<9} {at_once} at once: {part}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
