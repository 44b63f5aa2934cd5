"""What Prometheus scrapes of the controller: facts in, families of samples out. docs/operator/metrics.md lists them."""

from controller.metrics.families import ControllerSnapshot, controller_families
from controller.metrics.nodes import node_families
from controller.metrics.source import PASSES, ControllerCounts, ControllerMetrics, pending_by_reason

__all__ = [
    "PASSES",
    "ControllerCounts",
    "ControllerMetrics",
    "ControllerSnapshot",
    "controller_families",
    "node_families",
    "pending_by_reason",
]
