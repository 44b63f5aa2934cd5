"""The conversion's settings follow the resource map while its file changes."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from driver.adapters.files.resource_map_in_force import ResourceMapInForce
from driver.errors import InputError
from tests.support.paths import REPO

HEAD = "apiVersion: rootport.dev/v1alpha1\nkind: ResourceMap\n"
FLAG = "--convert-resources"


def left(settings: ResourceMapInForce) -> set[str]:
    return set(settings().left_alone)


def test_the_settings_follow_the_file_and_are_the_same_object_until_then(tmp_path: Path) -> None:
    file = tmp_path / "map.yaml"
    now = [0.0]
    settings = ResourceMapInForce(file, flag=FLAG, clock=lambda: now[0])
    assert left(settings) == set()
    file.write_text(HEAD + "leftAlone: [a.b/c]\n")
    assert left(settings) == {"a.b/c"}
    before = settings()
    now[0] = 61.0  # it is read again, and says the same
    assert settings() is before
    file.write_text(HEAD + "leftAlone: [a.b/c, a.b/d]\n")
    assert left(settings) == {"a.b/c", "a.b/d"}
    file.unlink()
    assert left(settings) == set()


def test_a_wrong_map_is_logged_and_the_former_one_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(HEAD + "leftAlone: [a.b/c]\n")
    settings = ResourceMapInForce(file, flag=FLAG)
    file.write_text(HEAD + "resources: [{name: a.b/c, selectors: ['device.']}]\n")
    with caplog.at_level(logging.ERROR):
        assert left(settings) == {"a.b/c"}
    (record,) = caplog.records
    assert "resources[0].selectors[0]" in record.__dict__["error"]


def test_a_file_that_is_not_there_yet_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "map.yaml"
    now = [0.0]
    settings = ResourceMapInForce(file, flag=FLAG, clock=lambda: now[0])
    for _ in range(3):
        now[0] += 61.0
        assert left(settings) == set()
    assert len(caplog.records) == 1
    file.write_text(HEAD + "leftAlone: [a.b/c]\n")
    assert left(settings) == {"a.b/c"}


def test_without_a_file_the_defaults_hold() -> None:
    settings = ResourceMapInForce(None, flag=FLAG)
    assert left(settings) == set()
    assert settings().resources == {}


def test_a_wrong_map_or_path_at_the_start_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(HEAD + "leftAlone: [cpu]\n")
    with pytest.raises(InputError, match=r"leftAlone\[0\]"):
        ResourceMapInForce(file, flag=FLAG)
    with pytest.raises(InputError, match=r"--convert-resources .*: there is no folder"):
        ResourceMapInForce(tmp_path / "nowhere" / "map.yaml", flag=FLAG)


def test_the_controller_does_not_start_with_a_wrong_map(tmp_path: Path) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(HEAD + "leftAlone: [cpu]\n")
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
        " clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: a, user: {token: a}}]}"
    )
    options = ("--webhook", "--convert", f"{FLAG}={file}", f"--kubeconfig={kubeconfig}")
    told = subprocess.run(
        [sys.executable, "-m", "controller", *options],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert told.returncode == 2
    assert f"rootport-controller: {file}:3: ResourceMap: leftAlone[0]" in told.stderr
    assert "Traceback" not in told.stderr
