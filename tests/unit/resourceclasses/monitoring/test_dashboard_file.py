"""The Grafana dashboard: its queries are ones that Prometheus takes, on metrics that are exported."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.exported_metrics import EXPORTED, series_names
from tests.support.paths import REPO

MONITORING = REPO / "resourceclasses" / "monitoring"
BOARD = json.loads((MONITORING / "dashboard.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
RULES = [rule for group in yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"] for rule in group["rules"]]
RECORDS = {rule["record"] for rule in RULES if "record" in rule}
_NAME = re.compile(r"[a-z]*:?rootport[a-z0-9_:]*")


def queries() -> Iterator[tuple[str, str]]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(
    ("title", "query"), [pytest.param(*item, id=f"{item[0]}-{at}") for at, item in enumerate(queries())]
)
def test_a_panel_shows_what_is_exported(title: str, query: str) -> None:
    used = set(_NAME.findall(query))
    assert used
    assert used <= series_names() | RECORDS
    exported = {label for name in used for label in EXPORTED.get(name, ())}
    for parts in re.findall(r"by \(([^)]*)\)", query):
        if used <= EXPORTED.keys():
            assert set(parts.replace(" ", "").split(",")) <= exported


def test_every_panel_asks_the_data_source_that_the_user_chose() -> None:
    variables = {item["name"]: item for item in BOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    parts: list[dict[str, Any]] = [
        *PANELS,
        *(target for panel in PANELS for target in panel["targets"]),
        variables["node"],
    ]
    assert all(part["datasource"] == chosen for part in parts)
    assert set(_NAME.findall(variables["node"]["definition"])) <= series_names()


def test_panels_do_not_lie_over_each_other() -> None:
    cells = Counter(
        (x, y)
        for panel in BOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) < 24  # Grafana's columns
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_every_exported_metric_is_shown_or_is_a_fact_about_versions() -> None:
    used = {name for _, query in queries() for name in _NAME.findall(query)}
    used |= {name for rule in RULES for name in _NAME.findall(rule["expr"])}
    histograms = {name.removesuffix("_bucket") for name in used}
    # By OpenTelemetry's names there are second series of what the dashboard shows by Rootport's.
    unseen = {name for name in EXPORTED.keys() - used - histograms if not name.startswith("hw_")}
    assert unseen == {
        "rootport_plugin_info",
        "rootport_controller_info",
        # Figures by node that the page of the controller and `rootport status` show.
        "rootport_node_gpu_memory_largest_free_bytes",
        "rootport_node_gpu_core_allocated_ratio",
        # Of components that are not installed by default.
        "rootport_pod_conversions_total",
        "rootport_claim_conversions_total",
        "rootport_converted_templates_created_total",
        "rootport_converted_templates_collected_total",
    }
