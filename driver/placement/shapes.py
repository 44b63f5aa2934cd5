"""What a score depends on: the room left on a node, and what a pod asks for.

GPUs are counted in thousandths, as the trace of the FGD paper does: a share of a GPU is a part of one, and a whole GPU
is 1000. What share of a GPU a claim for memory or cores is, the reader of claims decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["WHOLE_GPU", "NodeShape", "PodShape"]

WHOLE_GPU: Final = 1000


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What is left of a node, as far as scores depend on it. Nodes of equal shape have equal scores.

    Attributes:
        cpu_milli: CPU left, in thousandths of a core.
        memory: Memory left, in bytes.
        pods: How many pods more the node takes.
        model: Of its GPUs, as :attr:`PodShape.models` names it.
        gpus: Free thousandths of each GPU, by index; 1000 is a GPU that nobody uses.
    """

    cpu_milli: int
    memory: int
    pods: int
    model: str
    gpus: tuple[int, ...]

    def fits(self, pod: PodShape) -> bool:
        """Whether the node has room for the pod."""
        return (
            pod.cpu_milli <= self.cpu_milli
            and pod.memory <= self.memory
            and self.pods > 0
            and (not pod.models or self.model in pod.models)
            and (not pod.gpus or sum(free >= pod.gpu_milli for free in self.gpus) >= pod.gpus)
        )

    def after(self, pod: PodShape, gpus: tuple[int, ...]) -> NodeShape:
        """Return what is left once the pod is on these GPUs (by index)."""
        left = list(self.gpus)
        for index in gpus:
            left[index] -= pod.gpu_milli
        return NodeShape(
            self.cpu_milli - pod.cpu_milli, self.memory - pod.memory, self.pods - 1, self.model, tuple(left)
        )


@dataclass(frozen=True, slots=True)
class PodShape:
    """What a pod asks for, as far as scores depend on it.

    Attributes:
        cpu_milli: CPU, in thousandths of a core.
        memory: In bytes.
        gpus: How many GPUs; 0 for a pod without.
        gpu_milli: Thousandths of each of these GPUs; 1000 is a whole one.
        models: Of GPUs, any of which will do; empty if all do.
    """

    cpu_milli: int
    memory: int
    gpus: int
    gpu_milli: int
    models: frozenset[str] = frozenset()
