"""`rootport lint -o sarif`: what SARIF 2.1.0 demands of a log file, and what GitHub's code scanning needs of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from tests.support.topologies import nccl_file

Run = Callable[..., Any]
LEVELS = {"none", "note", "warning", "error"}
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: %s, count: %s}}]}}
"""


def check_log(log: dict[str, Any]) -> dict[str, Any]:
    """The run of a log, whose required properties (section 3.13 and on) are all there."""
    assert log["version"] == "2.1.0"
    assert urlparse(log["$schema"]).path.endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert driver["version"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        # All of these are required by GitHub, and a text has at most 1024 characters.
        for key in ("shortDescription", "fullDescription", "help"):
            assert 0 < len(rule[key]["text"]) <= 1024
            assert rule[key]["text"].endswith(".")
        assert rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] in LEVELS
    for invocation in run["invocations"]:
        assert invocation["executionSuccessful"] is True
        for notification in invocation["toolExecutionNotifications"]:
            assert notification["level"] in LEVELS
            assert notification["message"]["text"]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"].endswith((".", "?"))
        assert not result["message"]["text"].endswith("?.")
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        uri = place["artifactLocation"]["uri"]
        assert uri.isascii()
        assert not set(uri) & set(' <>"\\^`{|}')
    return dict(run)


def place(result: dict[str, Any]) -> tuple[str, int]:
    physical = result["locations"][0]["physicalLocation"]
    return unquote(physical["artifactLocation"]["uri"]), physical["region"]["startLine"]


def test_findings_and_bad_files_are_results_with_a_relative_place(
    rootport: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "ä.yaml").write_text(CLAIM % ("gpu.rootport.dev", 40))
    (tmp_path / "broken.yaml").write_text("apiVersion: v1\nkind: [\n")
    (tmp_path / "foreign.yaml").write_text((CLAIM % ("gpu.nvidia.com", 1)).replace("train", "other"))
    machine = nccl_file("azure-nd-h100-v5").resolve()
    monkeypatch.setattr("os.getcwd", lambda: str(tmp_path))  # the fixture goes to the repository
    ran = rootport("lint", tmp_path, "--topology", machine, "-o", "sarif")
    assert ran.code == 1
    run = check_log(json.loads(ran.out))
    assert [(result["ruleId"], result["level"], place(result)) for result in run["results"]] == [
        ("too-many-devices", "error", ("a b/ä.yaml", 4)),
        ("selects-too-few", "error", ("a b/ä.yaml", 4)),
        ("unreadable", "error", ("broken.yaml", 3)),
        ("unknown-class", "note", ("foreign.yaml", 4)),
    ]
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert any("records no NVLinks" in note["message"]["text"] for note in notes)


def test_nothing_found_is_a_log_without_results(rootport: Run) -> None:
    ran = rootport("lint", "examples/gpu.yaml", "-o", "sarif")
    assert ran.code == 0
    assert check_log(json.loads(ran.out))["results"] == []


def test_a_file_outside_the_current_folder_has_a_whole_uri(rootport: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CLAIM % ("gpu.rootport.dev", 40))
    run = check_log(json.loads(rootport("lint", tmp_path, "-o", "sarif").out))
    assert place(run["results"][0])[0] == f"file://{tmp_path}/c.yaml"


def test_a_file_whose_name_is_no_text_has_the_uri_of_its_bytes(rootport: Run, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff\n.yaml")).write_text(CLAIM % ("gpu.rootport.dev", 40))
    run = check_log(json.loads(rootport("lint", tmp_path, "-o", "sarif").out))
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == f"file://{tmp_path}/%FF%0A.yaml"


def test_standard_input_has_a_uri_as_well(rootport: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text(CLAIM % ("gpu.rootport.dev", 40))
    with (tmp_path / "c.yaml").open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        ran = rootport("lint", "-", "-o", "sarif")
    assert place(check_log(json.loads(ran.out))["results"][0]) == ("stdin", 4)


def test_results_that_github_would_not_take_are_counted(
    rootport: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driver.cli.lint_sarif._MOST", 2)
    for number in range(5):
        (tmp_path / f"{number}.yaml").write_text((CLAIM % ("gpu.rootport.dev", 40)).replace("train", f"c{number}"))
    run = check_log(json.loads(rootport("lint", tmp_path, "-o", "sarif").out))
    assert len(run["results"]) == 2
    (cut,) = run["invocations"][0]["toolExecutionNotifications"]
    assert cut["level"] == "warning"
    assert cut["message"]["text"].startswith("3 more findings")
