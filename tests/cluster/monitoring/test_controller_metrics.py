"""What Prometheus scrapes of a controller: figures of nodes, pending claims, writes, passes."""

from __future__ import annotations

from collections.abc import Callable

from controller.metrics import controller_families
from tests.unit.controller.metrics.test_controller_metrics import NIC, Scrape, gpu, node, snapshot


def test_prometheus_own_linter_has_nothing_to_say(scrape: Scrape, lint_metrics: Callable[[str], str]) -> None:
    assert lint_metrics(scrape(controller_families(snapshot(node(gpu(0), NIC)))).text) == ""
