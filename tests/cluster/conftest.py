"""Fixtures of a real API server, and of the tools that a cluster is looked at with."""

from __future__ import annotations

from tests.support.cluster.fixtures import cluster_binaries, control_plane, helm, kustomized, lint_metrics, promtool

__all__ = ["cluster_binaries", "control_plane", "helm", "kustomized", "lint_metrics", "promtool"]
