"""Gives every pod as much room as there is: the node whose GPUs are least in use first, and the emptiest GPU of it.

The counterpart of kube-scheduler's LeastAllocated (pkg/scheduler/framework/plugins/noderesources/least_allocated.go,
v1.37.2), which counts CPU and memory; here GPUs count, then CPU.
"""

from __future__ import annotations

from driver.placement.outlook import Outlook
from driver.placement.policies.gpus import used_fraction, worst_fit
from driver.placement.policies.policy import Choice
from driver.placement.score import Term
from driver.placement.shapes import NodeShape, PodShape

__all__ = ["Spread"]


class Spread:
    """Least used GPUs first; of equal ones, the most CPU left."""

    name = "spread"
    orders_gpus = True
    prefers_full = False

    def choose(self, node: NodeShape, pod: PodShape, outlook: Outlook) -> Choice | None:
        """Return the best place on the node, or None if the pod does not fit there."""
        if not node.fits(pod):
            return None
        return Choice((used_fraction(node), -node.cpu_milli), worst_fit(node, pod))

    def terms(self, node: NodeShape, pod: PodShape, choice: Choice, outlook: Outlook) -> tuple[Term, ...]:
        """Tell use of GPUs."""
        return (Term("GPUs in use", 100 * used_fraction(node), "%"),)
