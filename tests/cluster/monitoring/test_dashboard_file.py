"""The Grafana dashboard: its queries are ones that Prometheus takes, on metrics that are exported."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.unit.resourceclasses.monitoring.test_dashboard_file import queries


def test_prometheus_takes_every_query(
    promtool: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    # promtool checks expressions where they stand in rules.
    rules = [{"record": f"query:{at}", "expr": query.replace("$node", "n1")} for at, (_, query) in enumerate(queries())]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    checked = promtool("check", "rules", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
