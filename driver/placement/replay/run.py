"""One run: pods arrive one by one, none leaves, and one that fits nowhere is dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from driver.placement.engine import Engine
from driver.placement.fragmentation import Fragmentation
from driver.placement.mix import Mix
from driver.placement.replay.sequence import DEMAND, Arrivals

__all__ = ["DEMANDS", "Run", "replay"]

DEMANDS: Final = range(DEMAND + 1)
"""Arrived demand, in percent of all GPUs, for which a run has figures."""


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a run.

    A figure for a demand is, as in the published results, the mean over the pods with whose arrival the demand is that
    number of percent, rounded; where no pod's is, over those of the two neighbours.

    Attributes:
        allocation: Percent of all GPUs that are allocated, by :data:`DEMANDS`.
        fragmentation: Percent of all GPUs that are free where typical pods cannot use them, by :data:`DEMANDS`.
        placed: How many pods were placed.
        dropped: How many fitted nowhere.
    """

    allocation: tuple[float, ...]
    fragmentation: tuple[float, ...]
    placed: int
    dropped: int


def replay(arriving: Arrivals, engine: Engine, mix: Mix, step: Callable[[], None] = lambda: None) -> Run:
    """Place pods as they arrive.

    Args:
        arriving: Nodes and pods.
        engine: Without nodes.
        mix: The typical pods by which fragmentation is told.
        step: Called after each pod.

    Raises:
        ValueError: The engine gave a GPU that has no room: a mistake in the engine.
    """
    fragmentation = Fragmentation(mix)
    left = {node.name: node.shape for node in arriving.nodes}
    fragmented = {name: fragmentation.of(shape) for name, shape in left.items()}
    for name, shape in left.items():
        engine.put(name, shape)
    used = arrived = placed = 0
    lost = sum(fragmented.values())
    curves = _Curves(arriving.gpu_milli)
    for pod in arriving.pods:
        arrived += pod.gpu_milli
        best = next(engine.ranked(pod.shape), None)
        if best is not None:
            before = left[best.node]
            after = before.after(pod.shape, best.gpus)
            if not before.fits(pod.shape) or len(set(best.gpus)) != pod.shape.gpus or min(after.gpus, default=0) < 0:
                raise ValueError(f"{pod.name} does not fit GPUs {best.gpus} of {best.node}")
            left[best.node] = after
            engine.put(best.node, after)
            lost -= fragmented[best.node]
            fragmented[best.node] = fragmentation.of(after)
            lost += fragmented[best.node]
            used += pod.gpu_milli
            placed += 1
        curves.add(arrived, used, lost)
        step()
    return Run(*curves.means(), placed=placed, dropped=len(arriving.pods) - placed)


class _Curves:
    """Sums figures by the demand at which they were seen."""

    def __init__(self, gpu_milli: int) -> None:
        self._percent = gpu_milli / 100
        self._seen = [[0.0, 0.0, 0.0] for _ in range(DEMAND + 2)]

    def add(self, arrived: int, used: int, lost: float) -> None:
        sums = self._seen[min(round(arrived / self._percent), DEMAND + 1)]
        sums[0] += 1
        sums[1] += used / self._percent
        sums[2] += lost / self._percent

    def means(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        allocation: list[float] = []
        fragmentation: list[float] = []
        for demand in DEMANDS:
            sums = [self._seen[demand]]
            if not sums[0][0]:
                sums = self._seen[max(demand - 1, 0) : demand + 2]
            count = sum(each[0] for each in sums)
            if count:
                allocation.append(sum(each[1] for each in sums) / count)
                fragmentation.append(sum(each[2] for each in sums) / count)
            else:  # pods so large that their arrival passes several percent
                allocation.append(allocation[-1] if allocation else 0.0)
                fragmentation.append(fragmentation[-1] if fragmentation else 0.0)
        return tuple(allocation), tuple(fragmentation)
