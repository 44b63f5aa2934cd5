"""`make bench`, its last part: what it costs a pod that a network interface is moved into it.

Pods with a virtual function's device nodes alone, and pods with its interface as well (a veth stands for it), start in
turn on one real node: the ratio is of one machine and moment.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figure import Figure, report
from tests.support.cluster.binaries import build, cache_folder
from tests.support.cluster.hardware import make_host
from tests.support.cluster.images import build_busybox, build_pause
from tests.support.cluster.interfaces import add_interfaces
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import RealCluster
from tests.support.cluster.pods import manifest, nic_claim, pod
from tests.support.cluster.rootport import RunningRootport
from tests.support.stub_nvml import build as build_stub

ROUNDS, AT_ONCE = 10, 4
PARAMETERS = {"nodes": None, "interface": {"interface": {"name": "rdma0", "mtu": 1400}}}


def figures() -> Iterator[Figure]:
    """Everything this module measures."""
    binaries = build(print)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        host = make_host(folder / "host", build_stub(folder), more_cards=True)
        images = [build_pause(cache_folder()), build_busybox(cache_folder())]
        cluster = RealCluster(folder / "real", binaries, images)
        rootport = RunningRootport(cluster, host, lends_interfaces=True)
        try:
            cluster.start()
            rootport.start()
            add_interfaces(cluster.machine, [name for nic in host.vf_nics for name in nic.interfaces])
            taken: dict[str, list[float]] = {kind: [] for kind in PARAMETERS}
            for _ in range(ROUNDS):
                for kind, seconds in taken.items():
                    seconds.append(_pods_come_and_go(cluster, kind))
            nodes, interface = (statistics.median(seconds) for seconds in taken.values())
            print(f"  {AT_ONCE} pods with device nodes alone {nodes:.2f} s, with their interfaces {interface:.2f} s")
            yield Figure(
                f"{AT_ONCE} pods created, running and gone: with interfaces / with device nodes alone, "
                f"medians of {ROUNDS}",
                interface / nodes,
                1.5,
                "",
            )
            assert rootport.plugin is not None
            yield Figure("kubelet plugin that lends interfaces, resident memory", rootport.plugin.rss_mib(), 75, "MiB")
        finally:
            cluster.stop()


def _pods_come_and_go(cluster: RealCluster, kind: str) -> float:
    names = [f"{kind}-{number}" for number in range(AT_ONCE)]
    began = time.monotonic()
    for name in names:
        objects = (nic_claim(name, parameters=PARAMETERS[kind]), pod(name, claim=name))
        cluster.kubectl("apply", "--filename=-", input=manifest(*objects))
    for name in names:
        cluster.wait_for_pod(name, "Running")
    cluster.kubectl("delete", "pods", *names, "--wait=true")
    seconds = time.monotonic() - began
    cluster.kubectl("delete", "resourceclaims", *names, "--wait=true")
    return seconds


def main() -> int:
    if (reason := missing_for_machines()) is not None:
        print(f"not measured: {reason}")
        return 0
    return report(figures())


if __name__ == "__main__":
    sys.exit(main())
