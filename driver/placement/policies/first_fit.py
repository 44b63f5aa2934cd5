"""Takes the first node by name that fits, and its first GPUs, to compare other policies with.

It fills nodes in order of their names. kube-scheduler does something else: it spreads pods by CPU and memory.
"""

from __future__ import annotations

from driver.placement.outlook import Outlook
from driver.placement.policies.gpus import first
from driver.placement.policies.policy import Choice
from driver.placement.score import Term
from driver.placement.shapes import NodeShape, PodShape

__all__ = ["FirstFit"]


class FirstFit:
    """All nodes are equal, so that their names decide."""

    name = "first-fit"
    orders_gpus = False
    prefers_full = False

    def choose(self, node: NodeShape, pod: PodShape, outlook: Outlook) -> Choice | None:
        """Return the best place on the node, or None if the pod does not fit there."""
        return Choice((), first(node, pod)) if node.fits(pod) else None

    def terms(self, node: NodeShape, pod: PodShape, choice: Choice, outlook: Outlook) -> tuple[Term, ...]:
        """There is nothing to tell."""
        return ()
