"""What is to be expected of a cluster: its typical pods, and how sought after each model of GPUs is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver.memo import Memo
from driver.placement.fragmentation import Fragmentation
from driver.placement.mix import Mix
from driver.placement.shapes import NodeShape
from driver.placement.stranding import Stranding

__all__ = ["Outlook"]

_MOST_NODES: Final = 20_000


class Outlook:
    """What policies score by: the same until another mix is taken or GPUs come or go.

    Args:
        mix: The typical pods.
        supply: Thousandths of GPUs that the cluster has, by model.
    """

    def __init__(self, mix: Mix, supply: Mapping[str, int]) -> None:
        self.fragmentation = Fragmentation(mix)
        self.stranding = Stranding(mix)
        self._prices = _prices(mix, supply)
        self._rooms: Memo[NodeShape, float] = Memo(_MOST_NODES)

    def price(self, model: str) -> float:
        """Return how sought after a model is: typical demand for it by what there is of it; 1 is the mean.

        Pods that ask for one of several models count for each by its supply.
        """
        return self._prices.get(model, 1.0)

    def room(self, node: NodeShape) -> float:
        """Return the free thousandths of a node that typical pods with GPUs can use, less those that are stranded.

        Not by :meth:`Fragmentation.of`: pods without GPUs can use none, and would only shrink all differences.
        """
        found = self._rooms.get(node)
        if found is None:
            table = self.fragmentation.table(node.cpu_milli, node.memory, node.pods, node.model)
            usable = table.usable(node.gpus) / self.fragmentation.weight
            found = self._rooms.put(node, usable - self.stranding.of(node))
        return found


def _prices(mix: Mix, supply: Mapping[str, int]) -> dict[str, float]:
    demand: dict[frozenset[str], int] = {}
    for pod, weight in mix.weights.items():
        if pod.gpus:
            demand[pod.models] = demand.get(pod.models, 0) + weight * pod.gpus * pod.gpu_milli
    total = sum(demand.values())
    everything = sum(supply.values())
    prices = dict.fromkeys(supply, 0.0 if total else 1.0)
    for models, wanted in sorted(demand.items(), key=lambda item: sorted(item[0])):
        fitting = [model for model in supply if not models or model in models]
        offered = sum(supply[model] for model in fitting)
        for model in fitting:
            if offered and total:
                prices[model] += wanted / total * everything / offered
    return prices
