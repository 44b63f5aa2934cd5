"""What Prometheus scrapes of a plugin: devices idle and busy, shares and their containers, readings, operations."""

from __future__ import annotations

from collections.abc import Callable

from kubeletplugin.metrics import node_families
from tests.unit.kubeletplugin.metrics.test_plugin_metrics import GPU, Scrape, device, entry, full, gpu_use


def test_prometheus_own_linter_has_nothing_to_say(scrape: Scrape, lint_metrics: Callable[[str], str]) -> None:
    page = scrape(node_families(full(entry("c", device(GPU.name, use=gpu_use())))))
    assert lint_metrics(page.text) == ""
