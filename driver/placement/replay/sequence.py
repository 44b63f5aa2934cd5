"""The order in which pods arrive, and the nodes' names, for one seed: the same as in the published runs.

Source: SortClusterPods, TunePodsByNodeTotalResource, tuneUpPods, tuneDownPods and syncClusterResourceList in
pkg/simulator/simulator.go of the simulator, and Simulate in core.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from driver.errors import InputError
from driver.placement.replay.go_random import GoRandom
from driver.placement.replay.trace import TraceNode, TracePod
from driver.placement.shapes import WHOLE_GPU

__all__ = ["DEMAND", "MOST_PODS", "Arrivals", "arrivals"]

DEMAND: Final = 130
"""How much GPU the pods of a run ask for together, in percent of what the nodes have."""
MOST_PODS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a run begins with.

    Attributes:
        nodes: With new names. A policy takes the first by name of nodes that it finds equally good, so the names decide
            what a seed does to ties.
        pods: As they arrive.
        gpu_milli: How much GPU the nodes have, in thousandths of a GPU.
    """

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    gpu_milli: int


def arrivals(nodes: Sequence[TraceNode], pods: Sequence[TracePod], seed: int) -> Arrivals:
    """Return what a run with this seed begins with.

    The pods are shuffled. Then copies of pods are appended at random, or pods taken out, until together they ask for
    :data:`DEMAND` percent of the nodes' GPUs. A copy that would exceed that ends it; of a pod with several GPUs only
    one is counted there, as in the published runs.

    Args:
        nodes: In any order; some have GPUs.
        pods: In any order; some ask for GPUs.
        seed: Of Go's random generator.

    Raises:
        InputError: It would take more than :data:`MOST_PODS` pods.
    """
    random = GoRandom(seed)
    random.int63()  # the simulator logs one
    workload = sorted(pods, key=lambda pod: pod.name)
    arriving = list(workload)
    random.shuffle(arriving)
    total = WHOLE_GPU * sum(len(node.shape.gpus) for node in nodes)
    _tune(arriving, workload, DEMAND / 100 * total, random)
    in_order = sorted(nodes, key=lambda node: node.name)
    renamed = tuple(
        replace(node, name=f"{number:04d}-{node.name}")
        for node, number in zip(in_order, random.perm(len(in_order)), strict=True)
    )
    return Arrivals(renamed, tuple(arriving), total)


def _tune(arriving: list[TracePod], workload: Sequence[TracePod], target: float, random: GoRandom) -> None:
    demand = sum(pod.gpu_milli for pod in arriving)
    if not demand:
        raise InputError("the workload asks for no GPU")
    while demand > target:
        demand -= arriving.pop(random.intn(len(arriving))).gpu_milli
        if demand <= target:
            return
    while demand != target:
        pod = workload[random.intn(len(workload))]
        if demand + pod.shape.gpu_milli > target:
            return
        if len(arriving) >= MOST_PODS:
            raise InputError(
                f"the workload would have to be repeated until it has more than {MOST_PODS:,} pods",
                hint="its pods are too small for so many GPUs: take a smaller cluster",
            )
        demand += pod.gpu_milli
        arriving.append(pod)
