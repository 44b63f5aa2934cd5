"""The recording rules and alerts: promtool takes them, and each of them does what rules_test.yaml says."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def kustomized(binaries: Binaries, folder: Path, kustomization: str) -> list[dict[str, Any]]:
    """The objects of a kustomization of the guide."""
    (folder / "rootport").symlink_to(REPO)
    (folder / "kustomization.yaml").write_text(kustomization)
    command = [binaries["kubectl"], "kustomize", "--load-restrictor=LoadRestrictionsNone", folder]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [item for item in yaml.safe_load_all(text) if item]


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
    made = kustomized(cluster_binaries, tmp_path, GUIDE.read_text().partition("```yaml\n")[2].partition("```")[0])
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


@pytest.mark.needs_go
def test_the_label_in_the_guide_is_added_to_the_operators_objects_and_to_no_pod(
    cluster_binaries: Binaries, tmp_path: Path
) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    labels = next(block for block in blocks if block.startswith("labels:\n"))
    made = kustomized(cluster_binaries, tmp_path, blocks[0] + labels)
    wanted = {"release": "kube-prometheus-stack"}
    operators = [item["metadata"] for item in made if item["apiVersion"].startswith("monitoring.coreos.com/")]
    assert [metadata["labels"] for metadata in operators] == [wanted] * 3
    workloads = [item for item in made if item["kind"] in {"DaemonSet", "Deployment"}]
    for workload in workloads:
        of_pods = workload["spec"]["template"]["metadata"]["labels"]
        assert wanted.items() <= workload["metadata"]["labels"].items()
        assert not {"release"} & (of_pods.keys() | workload["spec"]["selector"]["matchLabels"].keys())
