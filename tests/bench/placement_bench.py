"""`make bench`, of placement: how long a decision takes at 1,213 nodes, and what a placer keeps of them in memory.

1,213 managed nodes of 8 H100s and 8 NICs, published as in the layout of larger clusters and fed object by object, are
filled with pods (shares, one, two, four and eight GPUs, some with NICs, of three sizes of CPU) until 300 of them have
fitted nowhere. What counts is the CPU time of each call of ``place``, without collections of Python's garbage, whose
length depends on all that the process holds; by whether the cluster was half empty, nearly
full, or the pod fitted nowhere; the first pod of each kind is in it, but for the very first one, which compiles the
classes' selectors.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from math import inf
from typing import Final

from driver.modes.rule import Layout
from driver.placement.placer import Placer
from tests.bench.figure import Figure, report
from tests.support.placement_world import Json, PlacementWorld, gpus, nics, share

NODES: Final = 1213
NOWHERE: Final = 300
LIMIT_MS: Final = 50


def _claim(draw: random.Random) -> list[Json]:
    kinds = (
        *(lambda: [share(draw.choice((10, 25, 30, 50, 75)))],) * 6,
        *(lambda: [gpus()],) * 4,
        lambda: [gpus(2)],
        lambda: [gpus(4)],
        lambda: [gpus(8), nics(8)],
        lambda: [gpus(2), nics(2)],
    )
    return draw.choice(kinds)()


def _times(policy: str) -> tuple[dict[str, list[float]], int]:
    """CPU milliseconds of decisions, by the state of the cluster; and how many pods were placed."""
    draw = random.Random(19)
    world = PlacementWorld(NODES, layout=Layout.ONE, policy=policy)
    world.pod("first", [gpus()])
    world.place("first")
    world.end("first")
    gc.collect()
    gc.freeze()  # as the controller does once it has read the cluster
    times: dict[str, list[float]] = {"half empty": [], "nearly full": [], "fits nowhere": []}
    placed = number = 0
    while len(times["fits nowhere"]) < NOWHERE:
        name = f"p{number}"
        number += 1
        world.pod(name, _claim(draw), cpu=draw.choice(("1", "4", "8")), memory="16Gi")
        gc.disable()
        began = time.thread_time()
        decision = world.place(name)
        took = 1000 * (time.thread_time() - began)
        gc.enable()
        if decision.chosen is None:
            times["fits nowhere"].append(took)
            continue
        times["nearly full" if times["fits nowhere"] else "half empty"].append(took)
        placed += 1
        world.placer.assume(decision)
        world.write(decision)
        world.bind(name, decision.chosen.node)
    gc.unfreeze()
    return times, placed


def _memory() -> float:
    """MiB that a placer keeps of the nodes, beside the cluster's state."""
    world = PlacementWorld(NODES, layout=Layout.ONE)
    world.pod("p", [gpus()])
    pod = world.state.pod("ml/p")
    assert pod is not None
    world.placer.place(pod)
    gc.collect()
    tracemalloc.start()
    placer = Placer(world.state)
    placer.place(pod)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / 1024**2


def figures() -> Iterator[Figure]:
    """What this module measures."""
    for policy in ("pack", "spread"):
        times, placed = _times(policy)
        yield Figure(f"{policy}: pods placed until {NOWHERE} fitted nowhere, {NODES} nodes", placed, inf, "")
        for when, taken in times.items():
            taken.sort()
            what = f"{policy}: CPU of a decision, {when}"
            yield Figure(f"{what}, p50 of {len(taken)}", taken[len(taken) // 2], LIMIT_MS, "ms")
            yield Figure(f"{what}, p99", taken[int(len(taken) * 0.99)], LIMIT_MS, "ms")
            yield Figure(f"{what}, max", taken[-1], inf, "ms")
    yield Figure(f"memory of a placer beside the state, {NODES} nodes", _memory(), 64, "MiB")


def main() -> int:
    """Print all figures; 1 where one is over its limit."""
    return report(figures())


if __name__ == "__main__":
    sys.exit(main())
