"""The recording rules and alerts: promtool takes them, and each of them does what rules_test.yaml says."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.support.exported_metrics import EXPORTED, series_names
from tests.support.paths import REPO

RULES = REPO / "resourceclasses" / "monitoring" / "rules.yaml"
UNIT_TESTS = REPO / "tests" / "data" / "monitoring" / "rules_test.yaml"
GUIDE = REPO / "docs" / "operator" / "monitoring.md"
COMPONENT = REPO / "resourceclasses" / "components" / "monitoring"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALL = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in ALL if "alert" in rule]
RECORDS = {rule["record"] for rule in ALL if "record" in rule}


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule.get("record"))


@pytest.mark.parametrize("alert", ALERTS, ids=name_of)
def test_each_alert_is_tested_to_stay_silent_or_alone(alert: dict[str, Any]) -> None:
    cases = [
        case
        for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"]
        for case in test.get("alert_rule_test", ())
        if case["alertname"] == alert["alert"]
    ]
    assert any(case["exp_alerts"] for case in cases)
    # With a "for", the first minutes; without one, other devices in the same test that do not fire.
    assert (
        "for" not in alert or any(not case["exp_alerts"] for case in cases) or alert["alert"] == "RootportGpuThrottled"
    )


@pytest.mark.parametrize("rule", ALL, ids=name_of)
def test_a_rule_uses_metrics_and_labels_that_are_exported(rule: dict[str, Any]) -> None:
    used = set(re.findall(r"[a-z]*:?rootport[a-z0-9_:]*", rule["expr"]))
    assert used
    assert used <= series_names() | RECORDS
    labels = {"le", *(label for name in used & EXPORTED.keys() for label in EXPORTED[name])}
    for parts in re.findall(r"(?:by|on) \(([^)]*)\)", rule["expr"]):
        if used & EXPORTED.keys() == used:
            assert set(parts.replace(" ", "").split(",")) <= labels


@pytest.mark.parametrize("alert", ALERTS, ids=name_of)
def test_each_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"].keys() == {"summary", "description", "runbook"}
    assert alert["annotations"]["runbook"] == f"docs/operator/monitoring.md#{alert['alert'].lower()}"
    section = GUIDE.read_text().partition(f"\n### {alert['alert']}\n")[2].partition("\n#")[0]
    assert "**To do:**" in section


def test_every_recording_rule_is_in_the_guide() -> None:
    text = GUIDE.read_text()
    assert [name for name in RECORDS if f"`{name}`" not in text] == []


def test_the_operators_object_holds_the_same_rules() -> None:
    tool = REPO / "tools" / "generate_prometheus_rule.py"
    checked = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert yaml.safe_load((COMPONENT / "prometheus-rule.yaml").read_text())["spec"] == {"groups": GROUPS}
