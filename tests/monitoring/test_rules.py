"""The recording rules and alerts: promtool takes them, and each of them does what rules_test.yaml says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.binaries import Binaries
from monitoring.exported import EXPORTED, series_names

REPO = Path(__file__).resolve().parents[2]
RULES = REPO / "resourceclasses" / "monitoring" / "rules.yaml"
UNIT_TESTS = Path(__file__).with_name("rules_test.yaml")
GUIDE = REPO / "docs" / "operator" / "monitoring.md"
COMPONENT = REPO / "resourceclasses" / "components" / "monitoring"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALL = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in ALL if "alert" in rule]
RECORDS = {rule["record"] for rule in ALL if "record" in rule}
Promtool = Callable[..., subprocess.CompletedProcess[str]]


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule.get("record"))


def run_unit_tests(promtool: Promtool, folder: Path, rules: str) -> subprocess.CompletedProcess[str]:
    (folder / "rules.yaml").write_text(rules)
    shutil.copy(UNIT_TESTS, folder)
    return promtool("test", "rules", folder / UNIT_TESTS.name)


def test_prometheus_takes_the_rules(promtool: Promtool) -> None:
    checked = promtool("check", "rules", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(ALL)} rules found" in checked.stdout


def test_the_rules_do_what_their_tests_say(promtool: Promtool, tmp_path: Path) -> None:
    tested = run_unit_tests(promtool, tmp_path, RULES.read_text())
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_no_rule_could_be_without_effect_unnoticed(promtool: Promtool, tmp_path: Path) -> None:
    rules = [rule | {"expr": "vector(0) > 1"} for rule in ALL]
    tested = run_unit_tests(promtool, tmp_path, yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    assert tested.returncode == 1
    missed = set(re.findall(r"alertname: (\w+),|expr: \"([a-z0-9_:]+)\",", tested.stdout + tested.stderr))
    assert {"".join(names) for names in missed} == {name_of(rule) for rule in ALL}


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


@pytest.mark.needs_go
def test_the_kustomization_in_the_guide_adds_the_monitors_and_the_rules(
    cluster_binaries: Binaries, tmp_path: Path
) -> None:
    kustomization = GUIDE.read_text().partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "rootport").symlink_to(REPO)
    (tmp_path / "kustomization.yaml").write_text(kustomization)
    command = [cluster_binaries["kubectl"], "kustomize", "--load-restrictor=LoadRestrictionsNone", tmp_path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = [item for item in yaml.safe_load_all(text) if item]
    workloads = [item["spec"]["template"] for item in made if item["kind"] in {"DaemonSet", "Deployment"}]
    monitors = [item for item in made if item["kind"] == "PodMonitor"]
    assert len(monitors) == len(workloads) == 2
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (pod,) = (each for each in workloads if wanted <= each["metadata"]["labels"].items())
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert endpoint["honorLabels"]
        assert monitor["metadata"]["namespace"] == "rootport-system"
    assert [item["spec"]["groups"] for item in made if item["kind"] == "PrometheusRule"] == [GROUPS]
