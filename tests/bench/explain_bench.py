"""`make bench`: explain on 5,000 nodes of 8 GPUs and 8 NICs, 60 % in use.

Everything is measured in a process of its own that holds the cluster and nothing else. What is explained are five
claims that wait for different reasons, and three for GPU-NIC pairs; each in the name of its pod, with proposals. Where
nodes are used alike, explain judges one of them; so the same is measured on nodes of which hardly two are used alike.

    python -m tests.bench.explain_bench [NODES]
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.bench.figure import Figure, report
from tests.support.explain_cluster import classes, node_objects, pending_claim, pending_pairs, pending_pod
from tests.support.paths import REPO

NODES = 5000
CHANGES = 5  # per claim
NEW_LIMIT_MS, AGAIN_LIMIT_MS, RSS_LIMIT_MB = 1000, 100, 1024
WAITING = (
    pending_claim("in-use", count=8),
    pending_claim("no-such-model", model="H200"),
    pending_claim("too-much-memory", memory="96Gi"),
    pending_claim("one-numa-node", count=8, same="resource.kubernetes.io/numaNode"),
    pending_claim("fits", count=4),
    pending_pairs("one-pair", 1),
    pending_pairs("four-pairs", 4),
    pending_pairs("eight-pairs", 8),
)


def figures(nodes: int) -> Iterator[Figure]:
    """What this module measures, in a fresh process."""
    yield from _figures(nodes, mixed=False)
    yield from _figures(nodes, mixed=True)


def _figures(nodes: int, *, mixed: bool) -> Iterator[Figure]:
    command = [sys.executable, "-m", "tests.bench.explain_bench", str(nodes), "measure-mixed" if mixed else "measure"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=REPO).stdout)
    size = f"{nodes:,} nodes x (8 GPUs + 8 NICs)" + (", each used in its own way" if mixed else "")
    print(
        f"{size}: read in {found['load_s']:.1f} s, {found['load_ms']:.2f} ms a node; {found['loaded_mb']:.0f} MiB then"
    )
    print(f"{size}: the first explanation, which builds what nodes see: {found['first_s']:.1f} s")
    for name, (reason, new, again) in found["claims"].items():
        print(f"  {name:<16} {reason:<24} new {new:7.1f} ms, again after a change {again:7.1f} ms")
    times = found["claims"].values()
    yield Figure(
        f"explain a new claim, {size}, the slowest of {len(times)}", max(new for _, new, _ in times), NEW_LIMIT_MS, "ms"
    )
    worst = max(again for _, _, again in times)
    yield Figure("  the same claim again after one other claim changed, median, slowest", worst, AGAIN_LIMIT_MS, "ms")
    yield Figure("  memory of the process, at its most", found["peak_mb"], RSS_LIMIT_MB, "MiB")


def measure(nodes: int, *, mixed: bool) -> dict[str, Any]:
    """Load the cluster and explain.

    Times are of one CPU: nothing here waits, so that on a machine with nothing else to do they are those of a clock.
    """
    state = ClusterState()
    for kind, wire in classes():
        state.put(kind, wire)
    load_s = sum(_load(state, number, mixed=mixed) for number in range(nodes))
    if state.notes:
        raise SystemExit(f"objects that cannot be read: {state.notes}")
    gc.collect()
    gc.freeze()  # as the command and the controller do
    loaded = _resident_mb()
    explainer = Explainer(state)
    _wait_for(state, pending_claim("warm", count=8, model="Hopper"))
    first_s = _timed(lambda: explainer.explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="warm")))
    gc.collect()
    gc.freeze()
    claims = {wire["metadata"]["name"]: _explained(state, explainer, wire, nodes, mixed=mixed) for wire in WAITING}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "load_s": load_s,
        "load_ms": load_s / nodes * 1000,
        "loaded_mb": loaded,
        "first_s": first_s,
        "claims": claims,
        "peak_mb": peak,
    }


def _explained(
    state: ClusterState, explainer: Explainer, wire: dict[str, Any], nodes: int, *, mixed: bool
) -> tuple[str, float, float]:
    """The reason, and how long it takes for a new claim and again after another claim changed, in milliseconds."""
    _wait_for(state, wire)
    subject = ObjectRef(kind="ResourceClaim", namespace="ml", name=wire["metadata"]["name"])
    new = _timed(lambda: explainer.explain(subject))
    again = []
    for change in range(CHANGES):
        # A claim of one GPU ends on some node, and is given its devices again afterwards.
        kind, other = node_objects((4 * change * 97 + 1) % nodes, mixed=mixed)[-1]
        key = f"{other['metadata']['namespace']}/{other['metadata']['name']}"
        if state.claim(key) is None:
            raise SystemExit(f"there is no claim {key} to end")
        state.remove(kind, key)
        again.append(_timed(lambda: explainer.explain(subject)))
        state.put(kind, other)
        again.append(_timed(lambda: explainer.explain(subject)))
    reason = explainer.explain(subject).reason
    return reason.value, new * 1000, statistics.median(again) * 1000


def _load(state: ClusterState, number: int, *, mixed: bool) -> float:
    """Put a node's objects, from the text that the API server sends; seconds."""
    texts = [(kind, json.dumps(wire)) for kind, wire in node_objects(number, mixed=mixed)]

    def load() -> None:
        for kind, text in texts:
            state.put(kind, json.loads(text))

    return _timed(load)


def _wait_for(state: ClusterState, wire: dict[str, Any]) -> None:
    state.put(Kind.CLAIM, wire)
    state.put(Kind.POD, pending_pod(wire["metadata"]["name"]))


def _timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    if sys.argv[2:] in (["measure"], ["measure-mixed"]):
        print(json.dumps(measure(wanted, mixed=sys.argv[2] == "measure-mixed")))
    else:
        sys.exit(report(figures(wanted)))
