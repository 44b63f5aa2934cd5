"""What a claim costs on a real node: the driver beside a Go peer, and pods with claims beside pods without.

The peer is Kubernetes' own DRA test driver, on the Go library that the GPU makers' drivers use; it keeps no checkpoint.
Both drivers run on one node at the same time and get the same pods in turn, so the ratio is of one machine and moment.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.figure import Figure, report
from tests.support.cluster.binaries import build, build_peer, cache_folder
from tests.support.cluster.hardware import FakeHost, make_host
from tests.support.cluster.images import build_busybox, build_pause
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import NODE_NAME, RealCluster
from tests.support.cluster.pods import manifest, pod, template
from tests.support.cluster.processes import Process, wait_until
from tests.support.cluster.rootport import PLUGIN_HEALTH_PORT, RunningRootport
from tests.support.stub_nvml import build as build_stub

__all__ = ["node_figures"]

PEER: Final = "test-driver.cdi.k8s.io"
OURS: Final = "rootport.dev"
PLAIN: Final = "no driver"
_NAMES: Final = {OURS: "ours", PEER: "peer", PLAIN: "plain"}
ROUNDS, AT_ONCE = 15, 4
ALONE: Final = 20
"""Pods of each driver that come and go one at a time; with those of the rounds these are 80."""

_CALLS: Final = {"NodePrepareResources": (2.0, 1.5), "NodeUnprepareResources": (2.5, 2.0)}
"""The limits of the ratio: four at a time, one at a time."""


def node_figures(cluster: RealCluster, host: FakeHost, peer: Path) -> Iterator[Figure]:
    """Measure all of it on a cluster that is not started yet.

    Args:
        cluster: Started here, and stopped at the end.
        host: The node's hardware.
        peer: The Go peer's program.
    """
    rootport = RunningRootport(cluster, host, lends_interfaces=True)
    try:
        cluster.start()
        rootport.start()
        theirs = _start_peer(cluster, peer)
        for driver in _NAMES:  # the first of each kind loads what the others find loaded
            _pods_come_and_go(cluster, driver, AT_ONCE)
        seconds: dict[str, float] = dict.fromkeys(_NAMES, 0.0)
        before = _Calls.so_far(cluster)
        for _ in range(ROUNDS):
            for driver in _NAMES:
                seconds[driver] += _pods_come_and_go(cluster, driver, AT_ONCE)
        between = _Calls.so_far(cluster)
        for _ in range(ALONE):
            for driver in (OURS, PEER):
                _pods_come_and_go(cluster, driver, 1)
        after = _Calls.so_far(cluster)
        for call, (together, alone) in _CALLS.items():
            yield _ratio(call, f"{AT_ONCE} at a time", between.since(before), together)
            yield _ratio(call, "one at a time", after.since(between), alone)
        claims, plain = seconds[OURS] / ROUNDS, seconds[PLAIN] / ROUNDS
        yield Figure(
            f"{AT_ONCE} pods created, running, gone, {ROUNDS} times: claims ÷ plain ({claims:.2f} ÷ {plain:.2f} s)",
            claims / plain,
            1.05,
            "",
        )
        with_peer = seconds[PEER] / ROUNDS
        yield Figure(
            f"the same ÷ pods with claims of the Go peer ({claims:.2f} ÷ {with_peer:.2f} s)",
            claims / with_peer,
            1.05,
            "",
        )
        scrape(cluster)
        assert rootport.plugin is not None
        assert rootport.controller is not None
        ours, peers = rootport.plugin.rss_mib(), theirs.rss_mib()
        yield Figure(
            f"plugin's resident memory ÷ Go peer's, CNI and metrics on ({ours:.1f} ÷ {peers:.1f} MiB)",
            ours / peers,
            1.45,
            "",
        )
        yield Figure("controller, resident memory at one node", rootport.controller.rss_mib(), 120, "MiB")
    finally:
        cluster.stop()


@dataclass(frozen=True, slots=True)
class _Calls:
    """The kubelet's calls of the drivers: how many there were and how many seconds they took, by driver and method."""

    counts: Mapping[tuple[str, str], float]
    seconds: Mapping[tuple[str, str], float]

    @staticmethod
    def so_far(cluster: RealCluster) -> _Calls:
        metrics = cluster.kubelet_metrics()

        def values(kind: str) -> dict[tuple[str, str], float]:
            found = {}
            for line in metrics.splitlines():
                labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
                if line.startswith(f"dra_grpc_operations_duration_seconds_{kind}{{") and (
                    labels["grpc_status_code"] == "OK"
                ):
                    key = (labels["driver_name"], labels["method_name"].rpartition("/")[2])
                    found[key] = float(line.rsplit(" ", 1)[1])
            return found

        return _Calls(values("count"), values("sum"))

    def since(self, before: _Calls) -> _Calls:
        return _Calls(
            {key: value - before.counts.get(key, 0) for key, value in self.counts.items()},
            {key: value - before.seconds.get(key, 0) for key, value in self.seconds.items()},
        )

    def mean_ms(self, driver: str, call: str) -> float:
        return self.seconds[driver, call] / self.counts[driver, call] * 1000


def _ratio(call: str, how: str, calls: _Calls, limit: float) -> Figure:
    ours, peers = calls.mean_ms(OURS, call), calls.mean_ms(PEER, call)
    count = calls.counts[OURS, call]
    name = f"{call} ÷ Go peer's, {how}, mean of {count:.0f} ({ours:.1f} ÷ {peers:.1f} ms)"
    return Figure(name, ours / peers, limit, "")


def _start_peer(cluster: RealCluster, peer: Path) -> Process:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": PEER},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{PEER}"'}}]},
    }
    of_peer = template("peer")
    of_peer["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = PEER
    cluster.kubectl("apply", "--filename=-", input=manifest(device_class, of_peer, template("ours")))
    cluster.machine.run("mkdir", "-p", f"/var/lib/kubelet/plugins/{PEER}")
    process = cluster.processes.start(
        "go-peer",
        peer,
        "kubelet-plugin",
        f"--kubeconfig={cluster.control_plane.kubeconfig}",
        f"--drivername={PEER}",
        f"--node-name={NODE_NAME}",
        "--num-devices=8",
    )
    wait_until(
        "the peer's slices",
        lambda: bool(cluster.get("resourceslices", f"--field-selector=spec.driver={PEER}")["items"]),
        timeout_s=60,
    )
    time.sleep(2)  # its registration with the kubelet leaves no trace in the API
    return process


def _pods_come_and_go(cluster: RealCluster, driver: str, count: int) -> float:
    """Create pods, wait until they run, delete them, and wait until they are gone; how many seconds that takes."""
    name = _NAMES[driver]
    names = [f"{name}-{number}" for number in range(count)]
    pods = manifest(*(_pod(each, driver) for each in names))
    began = time.monotonic()
    cluster.kubectl("apply", "--filename=-", input=pods)
    for each in names:
        cluster.wait_for_pod(each, "Running")
    cluster.kubectl("delete", "pods", *names, "--wait=true")
    return time.monotonic() - began


def _pod(name: str, driver: str) -> dict[str, Any]:
    made = pod(name, template=_NAMES[driver])
    if driver == PLAIN:
        del made["spec"]["resourceClaims"]
        del made["spec"]["containers"][0]["resources"]
    return made


def scrape(cluster: RealCluster) -> str:
    """The plugin's metrics page, as Prometheus reads it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{cluster.machine.address}:{PLUGIN_HEALTH_PORT}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def main(_: Sequence[str] = ()) -> int:
    if (reason := missing_for_machines()) is not None:
        print(f"not measured: {reason}")
        return 0
    binaries = build(print)
    peer = build_peer(print)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        host = make_host(folder / "host", build_stub(folder))
        images = [build_pause(cache_folder()), build_busybox(cache_folder())]
        return report(node_figures(RealCluster(folder / "real", binaries, images), host, peer))


if __name__ == "__main__":
    sys.exit(main())
