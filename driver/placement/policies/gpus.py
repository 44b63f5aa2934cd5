"""Which GPUs of a node a pod takes."""

from __future__ import annotations

from driver.placement.shapes import WHOLE_GPU, NodeShape, PodShape

__all__ = ["best_fit", "first", "used_fraction", "worst_fit"]


def best_fit(node: NodeShape, pod: PodShape) -> tuple[int, ...]:
    """Return the GPUs with the least room that is enough, of equal ones those with the lowest index. The pod fits."""
    enough = [(free, index) for index, free in enumerate(node.gpus) if free >= pod.gpu_milli]
    return tuple(sorted(index for _, index in sorted(enough)[: pod.gpus]))


def worst_fit(node: NodeShape, pod: PodShape) -> tuple[int, ...]:
    """Return the GPUs with the most room, of equal ones those with the lowest index. The pod fits."""
    enough = [(-free, index) for index, free in enumerate(node.gpus) if free >= pod.gpu_milli]
    return tuple(sorted(index for _, index in sorted(enough)[: pod.gpus]))


def first(node: NodeShape, pod: PodShape) -> tuple[int, ...]:
    """Return the GPUs of the lowest index that have enough room. The pod fits."""
    return tuple([index for index, free in enumerate(node.gpus) if free >= pod.gpu_milli][: pod.gpus])


def used_fraction(node: NodeShape) -> float:
    """Return how much of the node's GPUs is in use, from 0 to 1; 1 for a node without GPUs."""
    return 1.0 - sum(node.gpus) / (WHOLE_GPU * len(node.gpus)) if node.gpus else 1.0
