"""The command line of rootport-controller."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import REPO


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller", *options],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_help_teaches() -> None:
    told = run("--help")
    assert told.returncode == 0
    assert told.stdout.startswith("Usage: rootport-controller ")  # and not python -m controller
    for word in (
        "--kubeconfig",
        "--explain-names",
        "--no-explain",
        "--fresh-for",
        "--grace-period",
        "--resync",
        "--gpu-layout [auto|full|lean|one]",
        "--mig-gpus-ahead",
        "--health-port",
        "--convert-refused [deny|admit]",
        "Exit codes",
    ):
        assert word in told.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--grace-period=20",), "--grace-period must be longer than --fresh-for"),
        (("--kubeconfig=/nowhere/config",), "/nowhere/config"),
        (("--log-level=loud",), "--log-level"),
        (("--convert",), "--convert needs --webhook"),
        (("--convert-resources=map.yaml",), "--convert-resources needs --convert"),
    ],
    ids=["grace", "kubeconfig", "level", "convert", "resources"],
)
def test_bad_options_are_one_clear_message(options: tuple[str, ...], told: str) -> None:
    result = run(*options)
    assert result.returncode == 2
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_the_controller_does_not_load_what_it_does_not_use() -> None:
    code = "import sys, controller.main; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"driver.allocator", "driver.cel", "celpy", "grpc", "pynvml", "rich"}.intersection(loaded)
