"""`make bench`, its last part: what it costs that the modes of GPUs follow pending claims, and how long it takes.

The cost is the CPU time of the controller's thread for one round: 1,000 nodes of 8 H100, each with UUIDs of its own,
and 100 pods that wait. How long it takes is measured with a real API server and kube-scheduler on simulated nodes, with
the controller's own waits: from the creation of a pod whose claim needs another mode to its placement.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from controller.demand.turns import DemandPace
from driver.modes.transition import CLOSED_S
from tests.bench.figure import Figure, report
from tests.support.cluster.binaries import build
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.cluster.mode_changes import Leader, ModesCluster
from tests.support.demand_world import Json, gpu_request, mig_request
from tests.support.followed_world import FollowedWorld

NODES, GPUS, PODS = 1000, 8, 100
ROUNDS = 6


def _rounds(request: Callable[[int], Json]) -> tuple[list[float], int]:
    """CPU milliseconds of each round, and in how many rounds all pods had their wishes, or as many as can have one."""
    world = FollowedWorld(nodes=NODES, gpus=GPUS)
    for number in range(PODS):
        world.world.wait(f"pod-{number:03}", request(number), namespace=f"team-{number % 5}")
    world.look()
    gc.collect()
    gc.freeze()  # as the controller does once it has read the cluster
    took, wishes = [], []
    for _ in range(ROUNDS):
        began = time.thread_time()
        world.look(after_s=6)
        took.append(1000 * (time.thread_time() - began))
        wishes.append(sum(item.wish is not None for item in world.tracked()))
    gc.unfreeze()
    return took, wishes.index(wishes[-1]) + 1


def _cost() -> Iterator[Figure]:
    most = 1000 * DemandPace().round_s
    where = f"{NODES} nodes of {GPUS} H100, {PODS} pods wait"
    took, rounds = _rounds(lambda _: mig_request("1g.10gb"))
    yield Figure(f"CPU of a round that finds partitions, {where}", max(took), 1.5 * most, "ms")
    yield Figure("rounds until all have a wish", rounds, 3, "")
    yield Figure("CPU of a round afterwards", statistics.median(took[rounds:]), 20, "ms")
    took, _ = _rounds(lambda number: mig_request(f"{number}g.1000gb"))
    yield Figure(f"CPU of a round, no two claims alike, none can be served, {where}", max(took), 2.5 * most, "ms")
    took, _ = _rounds(lambda _: gpu_request())
    yield Figure("CPU of a round, all fit with what is published", statistics.median(took[1:]), 100, "ms")


def _latency() -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(Path(folder), build(print)) as plane,
    ):
        install(plane)
        plane.start_scheduler()
        cluster = ModesCluster(plane, nodes=4, gpus=4)
        with Leader(plane, closed_s=CLOSED_S, list_claims_every_s=10.0, pace=DemandPace()):
            cluster.wait_for_slices()
            small = [f"small-{number}" for number in range(14)]
            for name in small:
                cluster.run(name, mig_request("1g.10gb"))
            took = cluster.placed(small, timeout_s=120)
            yield Figure(
                "pods with MIG claims, whole GPUs published: created to placed, last", max(took.values()), 75, "s"
            )
            cluster.end(*small)
            whole = [f"whole-{number}" for number in range(16)]
            for name in whole:
                cluster.run(name, gpu_request())
            took = cluster.placed(whole, timeout_s=120)
            yield Figure(
                "16 whole GPUs, 2 of them published as MIG: created to placed, last", max(took.values()), 75, "s"
            )
        cluster.close()


def figures() -> Iterator[Figure]:
    """What this module measures."""
    yield from _cost()
    yield from _latency()


def main() -> int:
    """Print all figures; 1 where one is over its limit."""
    return report(figures())


if __name__ == "__main__":
    sys.exit(main())
