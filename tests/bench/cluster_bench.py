"""`make bench`, its second part: the driver on a real node beside a Go peer (:mod:`tests.bench.node_bench`)."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figure import Figure, report
from tests.bench.node_bench import node_figures
from tests.support.cluster.binaries import build, build_peer, cache_folder
from tests.support.cluster.hardware import make_host
from tests.support.cluster.images import build_busybox, build_pause
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import RealCluster
from tests.support.stub_nvml import build as build_stub


def figures() -> Iterator[Figure]:
    """Everything this module measures, as it becomes known."""
    binaries = build(print)
    peer = build_peer(print)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        stub = build_stub(folder)
        host = make_host(folder / "host", stub)
        images = [build_pause(cache_folder()), build_busybox(cache_folder())]
        yield from node_figures(RealCluster(folder / "real", binaries, images), host, peer)


def main() -> int:
    if (reason := missing_for_machines()) is not None:
        print(f"not measured: {reason}")
        return 0
    return report(figures())


if __name__ == "__main__":
    sys.exit(main())
