"""Keeps free GPUs usable for the pods that are typical here: what this pod spoils least, first.

It began as fragmentation gradient descent: Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), section 4.2.
docs/design/placement.md tells what was added, and why.
"""

from __future__ import annotations

from typing import Final

from driver.placement.outlook import Outlook
from driver.placement.policies.gpus import best_fit, used_fraction
from driver.placement.policies.policy import Choice
from driver.placement.score import Term
from driver.placement.shapes import WHOLE_GPU, NodeShape, PodShape

__all__ = ["Pack"]

_STEP: Final = 30
"""Thousandths of a GPU. What costs are less apart than that is a guess about pods to come; what is in use is a fact."""


class Pack:
    """The least room lost to typical pods first; then the node with the most used GPUs; then the fullest GPU.

    Room is what is neither fragmented nor stranded. A GPU of a model that is sought after more than others costs more.
    """

    name = "pack"
    orders_gpus = True
    prefers_full = True

    def choose(self, node: NodeShape, pod: PodShape, outlook: Outlook) -> Choice | None:
        """Return the best place on the node, or None if the pod does not fit there."""
        if not node.fits(pod):
            return None
        gpus, milli = node.gpus, pod.gpu_milli
        taken = pod.gpus * milli
        free = sum(gpus)
        cpu, memory = node.cpu_milli - pod.cpu_milli, node.memory - pod.memory
        fragmentation = outlook.fragmentation
        table = fragmentation.table(cpu, memory, node.pods - 1, node.model)
        cost = (
            outlook.room(node)
            + outlook.stranding.stranded(free - taken, cpu, memory, node.model)
            + (outlook.price(node.model) - 1.0) * taken
        )
        weight = fragmentation.weight
        use = -used_fraction(node)
        if pod.gpus == 1:
            usable = table.usable(gpus)
            best: tuple[int, int] | None = None
            for room in sorted({room for room in gpus if room >= milli}):
                steps = round((cost - table.usable_with(gpus, usable, room, milli) / weight) / _STEP)
                if best is None or steps < best[0]:
                    best = (steps, room)
            assert best is not None  # noqa: S101 - it fits
            return Choice((best[0], use, best[1]), (gpus.index(best[1]),))
        chosen = best_fit(node, pod)
        left = list(gpus)
        for index in chosen:
            left[index] -= milli
        return Choice((round((cost - table.usable(left) / weight) / _STEP), use, 0), chosen)

    def terms(self, node: NodeShape, pod: PodShape, choice: Choice, outlook: Outlook) -> tuple[Term, ...]:
        """Tell what is compared, and then what the room that is lost consists of: the last four are the first."""
        after = node.after(pod, choice.gpus)
        lost = outlook.room(node) - outlook.room(after)
        taken = pod.gpus * pod.gpu_milli
        stranded = outlook.stranding.of(after) - outlook.stranding.of(node)
        surcharge = (outlook.price(node.model) - 1.0) * taken
        return (
            Term("room that typical pods lose", (lost + surcharge) / WHOLE_GPU, _UNIT),
            Term("free part of the node's GPUs", 100 * (1 - used_fraction(node)), "%"),
            Term("free on the GPU that it takes", choice.key[2] / WHOLE_GPU, _UNIT),
            Term("lost: what it takes", taken / WHOLE_GPU, _UNIT),
            Term("lost: of no use any more", (lost - stranded - taken) / WHOLE_GPU, _UNIT),
            Term("lost: no CPU or memory for it", stranded / WHOLE_GPU, _UNIT),
            Term("lost: others need its model", surcharge / WHOLE_GPU, _UNIT),
        )


_UNIT: Final = "GPUs"
