"""The stranding of a node: how much of its free GPUs stays free for want of CPU or memory.

Fragmentation asks whether one more typical pod fits, and so does not see that eight free GPUs are left with the CPU of
one pod. Here the node is filled: with pods of one kind, as many as its CPU (or memory) is enough for, if need be a part
of one. What is left of the GPUs is stranded by this kind; a node's stranding is the mean over the typical pods that its
model is good for, weighted by their GPUs, of CPU or of memory, whichever strands more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from driver.memo import Memo
from driver.placement.mix import Mix
from driver.placement.shapes import NodeShape

__all__ = ["Stranding"]

_MOST_MODELS = 1000


class _Resource:
    """What typical pods want of CPU, or of memory, for each thousandth of a GPU.

    Args:
        wanted: That ratio, with the weight of those who want it.
        total: The sum of all weights.
    """

    __slots__ = ("_inverse", "_ratios", "_weights")

    def __init__(self, wanted: Iterable[tuple[float, int]], total: int) -> None:
        ascending = sorted((ratio, weight) for ratio, weight in wanted if ratio > 0)
        self._ratios = [ratio for ratio, _ in ascending]
        # Summed from the end: at an index stands what those from there on want together.
        weights = list(accumulate((weight for _, weight in reversed(ascending)), initial=0))[::-1]
        inverse = list(accumulate((weight / ratio for ratio, weight in reversed(ascending)), initial=0.0))[::-1]
        self._weights = [weight / max(total, 1) for weight in weights]
        self._inverse = [each / max(total, 1) for each in inverse]

    def stranded(self, gpus: int, left: int) -> float:
        """Return how much of so many free thousandths of GPUs is stranded with so much of the resource left."""
        # Of those who want more than left / gpus: free - left / ratio each.
        index = bisect_right(self._ratios, left / gpus)
        return gpus * self._weights[index] - left * self._inverse[index]


class Stranding:
    """Tells stranding for one mix of typical pods, in O(log of their number).

    Args:
        mix: The typical pods. Without any, nothing is stranded.
    """

    def __init__(self, mix: Mix) -> None:
        self._pods = [(pod, weight) for pod, weight in mix.weights.items() if pod.gpus * pod.gpu_milli > 0]
        self._models: Memo[str, tuple[_Resource, _Resource]] = Memo(_MOST_MODELS)

    def of(self, node: NodeShape) -> float:
        """Return the free thousandths of the node's GPUs for which CPU or memory lacks."""
        return self.stranded(sum(node.gpus), node.cpu_milli, node.memory, node.model)

    def stranded(self, free: int, cpu_milli: int, memory: int, model: str) -> float:
        """Return the thousandths, of so many that are free, for which CPU or memory lacks."""
        if free <= 0:
            return 0.0
        cpu, bytes_ = self._models.get(model) or self._models.put(model, self._make(model))
        return max(cpu.stranded(free, cpu_milli), bytes_.stranded(free, memory), 0.0)

    def _make(self, model: str) -> tuple[_Resource, _Resource]:
        # A pod counts by its GPUs.
        pods = [
            (pod, pod.gpus * pod.gpu_milli, weight * pod.gpus * pod.gpu_milli)
            for pod, weight in self._pods
            if not pod.models or model in pod.models
        ]
        total = sum(weight for _, _, weight in pods)
        return (
            _Resource(((pod.cpu_milli / gpus, weight) for pod, gpus, weight in pods), total),
            _Resource(((pod.memory / gpus, weight) for pod, gpus, weight in pods), total),
        )
