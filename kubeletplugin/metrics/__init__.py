"""The metrics that Prometheus scrapes from a node's plugin: a snapshot of facts in, families of samples out.

A new metric is a family in ``families``, ``readings`` or ``share_families``, and a line in docs/operator/metrics.md.
"""

from kubeletplugin.metrics.families import node_families
from kubeletplugin.metrics.shares import Share, shares_of
from kubeletplugin.metrics.snapshot import NodeSnapshot
from kubeletplugin.metrics.source import NodeMetrics

__all__ = ["NodeMetrics", "NodeSnapshot", "Share", "node_families", "shares_of"]
