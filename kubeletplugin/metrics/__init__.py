"""The metrics of a node's plugin, listed in docs/operator/metrics.md: facts in, families of samples out."""

from kubeletplugin.metrics.families import node_families
from kubeletplugin.metrics.shares import Share, shares_of
from kubeletplugin.metrics.snapshot import NodeSnapshot
from kubeletplugin.metrics.source import HealthFacts, NodeMetrics

__all__ = ["HealthFacts", "NodeMetrics", "NodeSnapshot", "Share", "node_families", "shares_of"]
