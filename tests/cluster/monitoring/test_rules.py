"""The recording rules and alerts: promtool takes them, and each of them does what rules_test.yaml says."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.cluster.binaries import Binaries
from tests.support.paths import REPO
from tests.unit.resourceclasses.monitoring.test_rules import ALL, GROUPS, GUIDE, RULES, UNIT_TESTS, name_of

Promtool = Callable[..., subprocess.CompletedProcess[str]]


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
