"""The fragmentation of a node: how much of its free GPUs typical pods cannot use.

As in Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
(USENIX ATC 2023), section 3.2. For a node and a typical pod: all that is free, if the pod does not fit there at all
(too little CPU or memory, another model, too few GPUs with enough free) or needs no GPU; else what is free on GPUs that
are too small for it. A node's fragmentation is the mean over the typical pods.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from driver.memo import Memo
from driver.placement.mix import Mix
from driver.placement.shapes import NodeShape

__all__ = ["Fragmentation", "Table"]

_MOST_TABLES: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Several:
    """Typical pods that want ``milli`` of each of several GPUs: how many GPUs, ascending, and cumulated weights."""

    milli: int
    counts: list[int]
    weights: list[int]


class _Singles(dict[int, int]):
    """What typical pods with one GPU can use of one that has so much free, times their weights; filled as asked.

    Args:
        wanted: What they want of it, ascending.
        weights: Their weights, cumulated: the first is 0, so that the index is how many of ``wanted`` fit.
    """

    __slots__ = ("_wanted", "_weights")

    def __init__(self, wanted: list[int], weights: list[int]) -> None:
        super().__init__()
        self._wanted = wanted
        self._weights = weights

    def __missing__(self, free: int) -> int:
        self[free] = usable = free * self._weights[bisect_right(self._wanted, free)]
        return usable


class Table:
    """The typical pods for which a node has the CPU, the memory and the model.

    Args:
        singles: What those with one GPU can use of it.
        several: Those with more GPUs.
    """

    __slots__ = ("_least", "_several", "_singles")

    def __init__(self, singles: _Singles, several: tuple[_Several, ...]) -> None:
        self._singles = singles
        self._several = several
        self._least = min((kind.milli for kind in several), default=None)

    def usable(self, gpus: Sequence[int]) -> int:
        """Return the free thousandths that typical pods can use, times their weights."""
        usable = sum(map(self._singles.__getitem__, gpus))
        for kind in self._several:
            enough = [free for free in gpus if free >= kind.milli]
            usable += sum(enough) * kind.weights[bisect_right(kind.counts, len(enough))]
        return usable

    def usable_with(self, gpus: tuple[int, ...], usable: int, free: int, milli: int) -> int:
        """Return :meth:`usable` once ``milli`` are taken of a GPU with ``free``, given what it is before."""
        if self._least is None or free < self._least:
            return usable - self._singles[free] + self._singles[free - milli]
        left = list(gpus)
        left[left.index(free)] = free - milli
        return self.usable(left)


class Fragmentation:
    """Tells fragmentation for one mix of typical pods.

    It costs O(GPUs of the node): which typical pods fit a node depends, but for its GPUs, on how many of the mix's
    different amounts of CPU and of memory it has left, and on its model. For each such case there is one table.

    Args:
        mix: The typical pods. Without any, nothing is fragmented.
    """

    def __init__(self, mix: Mix) -> None:
        self._total = mix.total
        self._pods = sorted(
            ((pod, weight) for pod, weight in mix.weights.items() if pod.gpus > 0),
            key=lambda item: (item[0].gpus, item[0].gpu_milli),
        )
        self._weight = sum(weight for _, weight in self._pods)
        self._cpus = sorted({pod.cpu_milli for pod, _ in self._pods})
        self._memories = sorted({pod.memory for pod, _ in self._pods})
        self._tables: Memo[tuple[int, int, str], Table] = Memo(_MOST_TABLES)
        self._nothing = Table(_Singles([], [0]), ())

    def of(self, node: NodeShape) -> float:
        """Return the free thousandths of the node's GPUs that typical pods cannot use: the paper's F."""
        if not self._total:
            return 0.0
        table = self.table(node.cpu_milli, node.memory, node.pods, node.model)
        return sum(node.gpus) - table.usable(node.gpus) / self._total

    @property
    def weight(self) -> int:
        """The weight of all typical pods with GPUs, by which what is usable is divided; at least 1."""
        return max(self._weight, 1)

    def table(self, cpu_milli: int, memory: int, pods: int, model: str) -> Table:
        """Return the typical pods for which so much is enough."""
        if pods <= 0:
            return self._nothing
        key = (bisect_right(self._cpus, cpu_milli), bisect_right(self._memories, memory), model)
        found = self._tables.get(key)
        return self._tables.put(key, self._make(cpu_milli, memory, model)) if found is None else found

    def _make(self, cpu_milli: int, memory: int, model: str) -> Table:
        singles: dict[int, int] = {}
        several: dict[int, dict[int, int]] = {}
        for pod, weight in self._pods:
            if pod.cpu_milli > cpu_milli or pod.memory > memory or (pod.models and model not in pod.models):
                continue
            if pod.gpus == 1:
                singles[pod.gpu_milli] = singles.get(pod.gpu_milli, 0) + weight
            else:
                counts = several.setdefault(pod.gpu_milli, {})
                counts[pod.gpus] = counts.get(pod.gpus, 0) + weight
        return Table(
            _Singles(list(singles), list(accumulate(singles.values(), initial=0))),
            tuple(
                _Several(milli, list(counts), list(accumulate(counts.values(), initial=0)))
                for milli, counts in several.items()
            ),
        )
