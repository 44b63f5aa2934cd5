"""A trace's pods on a real control plane: how many GPUs kube-scheduler gives by itself, and with Rootport's placement.

Nodes exist in the API only, without kubelets. All else is real: etcd, API server, kube-scheduler, Kubernetes' own
controller of claims, pods and claims, and for ``--way managed`` Rootport's controller. Pods come one after the other in
the trace's order, none leaves, and one that fits nowhere is dropped. It takes many minutes, so it is run by hand:

    python -m tests.bench.trace_cluster_bench --trace FOLDER --workload default --way stock --out stock.json

With ``--chaos`` pods come in crowds of a hundred, and with each something else goes wrong; choose ``--percent`` so low
that all fit. With ``--every N`` the cluster has every N-th node of the trace, and demand grows to the same percentage
of its GPUs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from driver.adapters.kubernetes.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.placement.shapes import WHOLE_GPU
from tests.bench.trace_cluster.chaos import Chaos
from tests.bench.trace_cluster.checks import given_too_often, left_unbound
from tests.bench.trace_cluster.cluster import TraceCluster
from tests.bench.trace_cluster.objects import Way
from tests.bench.trace_cluster.run import Point, Run
from tests.bench.trace_cluster.trace import experiment
from tests.support.cluster.binaries import KUBERNETES_VERSION, build
from tests.support.cluster.control_plane import ControlPlane

_LONG = ("points", "each wait in ms", "metrics")


def measured(chosen: argparse.Namespace, folder: Path) -> Mapping[str, Any]:
    """Run once, print how it goes, and return all figures; ``--out`` has them meanwhile."""
    tried = experiment(chosen.trace, chosen.workload, chosen.seed, every=chosen.every)
    nodes, capacity = tried.arriving.nodes, tried.capacity
    pods = tried.until(chosen.percent)[: chosen.pods]
    figures: dict[str, Any] = {
        "kubernetes": KUBERNETES_VERSION,
        "way": chosen.way,
        "workload": chosen.workload,
        "seed": chosen.seed,
        "nodes": len(nodes),
        "gpus": capacity // WHOLE_GPU,
        "window": chosen.window,
        "replayed": {name: tried.replayed(name)[chosen.percent] for name in ("pack", "first-fit")},
        "points": [],
    }
    print(f"{chosen.way}, {chosen.workload}, seed {chosen.seed}: {len(nodes)} nodes, {len(pods)} pods", flush=True)
    with ControlPlane(folder, build(print)) as plane:
        cluster = TraceCluster(plane, nodes, chosen.way)
        cluster.start()
        print("the cluster is ready", flush=True)
        if chosen.chaos:
            chaos = Chaos(cluster, chosen.way)
            for text in chaos.through(pods):
                print(text, flush=True)
            figures |= {"told": chaos.told, "wrong": [*_wrong(cluster), *chaos.told]}
            cluster.close()
            return figures
        run, former = Run(cluster, chosen.way, chosen.window), None
        for point in run.through(pods, capacity // 100 * chosen.step):
            print(_line(point, former, capacity), flush=True)
            former = point
            figures["points"].append(asdict(point) | {"allocation": 100 * point.given_milli / capacity})
            figures |= {"waits": _waits(run.waits), "reasons": dict(run.reasons.most_common(10))}
            if chosen.out:
                chosen.out.write_text(json.dumps(figures))
        figures["wrong"] = _wrong(cluster)
        if chosen.way is Way.MANAGED:
            figures["metrics"] = [
                line for line in cluster.metrics().splitlines() if line.startswith("rootport_placement")
            ]
        cluster.close()
    figures["each wait in ms"] = [round(1000 * wait) for wait in run.waits]
    if chosen.out:
        chosen.out.write_text(json.dumps(figures))
    return figures


def _wrong(cluster: TraceCluster) -> list[str]:
    claims = list(cluster.api.list(RESOURCE_CLAIMS).items)
    slices = cluster.api.list(RESOURCE_SLICES).items
    return [*given_too_often(claims, slices), *left_unbound(claims, cluster.api.list(PODS).items)]


def _line(point: Point, former: Point | None, capacity: int) -> str:
    pods = point.pods - (former.pods if former else 0)
    seconds = point.seconds - (former.seconds if former else 0.0)
    cpu = {name: used - (former.cpu_s.get(name, 0.0) if former else 0.0) for name, used in point.cpu_s.items()}
    costs = ", ".join(f"{name} {1000 * used / max(pods, 1):.1f}" for name, used in cpu.items())
    return (
        f"  demand {100 * point.arrived_milli / capacity:5.1f} %: {100 * point.given_milli / capacity:6.2f} % given, "
        f"{point.pods} pods, {point.dropped} dropped, {1000 * seconds / max(pods, 1):.0f} ms a pod; ms of CPU a pod: "
        f"{costs}"
    )


def _waits(waits: list[float]) -> dict[str, float]:
    if len(waits) < 2:
        return {}
    parts = statistics.quantiles(waits, n=100, method="inclusive")
    return {"pods": len(waits), "median_s": parts[49], "p90_s": parts[89], "p99_s": parts[98], "max_s": max(waits)}


def main() -> int:
    """Print what was measured; 1 where a device was given too often, or something is allocated and not bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True, help="a folder with nodes.csv.gz and pods/WORKLOAD.csv.gz")
    parser.add_argument("--workload", default="default")
    parser.add_argument("--way", type=Way, choices=list(Way), default=Way.STOCK)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--percent", type=int, default=100, help="how far demand grows, in percent of the GPUs")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th node of the trace")
    parser.add_argument("--pods", type=int, help="stop after so many pods")
    parser.add_argument("--window", type=int, default=1, help="how many pods wait at one time, at most")
    parser.add_argument("--step", type=int, default=1, help="percent of demand from one line of output to the next")
    parser.add_argument("--chaos", action="store_true", help="create pods in crowds, and disturb them")
    parser.add_argument("--folder", type=Path, help="a new folder for logs and data, to keep them")
    parser.add_argument("--out", type=Path, help="a JSON file for all figures")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        figures = measured(chosen, chosen.folder or Path(text))
    print(json.dumps({key: value for key, value in figures.items() if key not in _LONG}, indent=1))
    return 1 if figures["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
