"""A trace: nodes, workloads of pods, and what others published about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from driver.placement.shapes import WHOLE_GPU, NodeShape, PodShape

__all__ = ["Published", "Trace", "TraceNode", "TracePod"]


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A node, without pods."""

    name: str
    shape: NodeShape


@dataclass(frozen=True, slots=True)
class TracePod:
    """A pod, and what it asks for."""

    name: str
    shape: PodShape

    @property
    def gpu_milli(self) -> int:
        """Return what it asks of all its GPUs together, in thousandths of a GPU."""
        return self.shape.gpus * self.shape.gpu_milli


@dataclass(frozen=True, slots=True)
class Published:
    """A run that others published.

    Attributes:
        workload: Its name, as in :attr:`Trace.workloads`.
        policy: How its authors call it.
        seed: Of the random generator.
        allocation: Percent of all GPUs that are allocated, by arrived demand (0, 1, ... percent of all GPUs); None
            where nothing is published.
    """

    workload: str
    policy: str
    seed: int
    allocation: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A cluster and the workloads that it can be tried with.

    Attributes:
        nodes: In the order of the file; at least one of them has a GPU.
        workloads: By name; in each there is a pod that asks for GPUs.
        published: May be empty.
    """

    nodes: tuple[TraceNode, ...]
    workloads: Mapping[str, tuple[TracePod, ...]]
    published: tuple[Published, ...] = ()

    @property
    def gpu_milli(self) -> int:
        """Return how much GPU all nodes have, in thousandths of a GPU."""
        return WHOLE_GPU * self.gpus

    @property
    def gpus(self) -> int:
        """Return how many GPUs all nodes have."""
        return sum(len(node.shape.gpus) for node in self.nodes)
