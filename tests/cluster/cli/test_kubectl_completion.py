"""kubectl completes ``kubectl rootport ...``: it finds the plugin and its completion on PATH, and asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster.binaries import Binaries
from tests.support.paths import REPO


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The two programs that the package installs for kubectl, of this tree."""
    for name, module in (("kubectl-rootport", "entry"), ("kubectl_complete-rootport", "kubectl_completion")):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH={REPO} exec {sys.executable} -m driver.cli.{module} "$@"\n')
        program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["rootport", "expl"], ["explain"]),
        (["rootport", "explain", "--name"], ["--namespace"]),
        (["rootport", "simulate", "--policy", "p"], ["pack"]),
    ],
    ids=["command", "option", "choice"],
)
def test_kubectl_offers_what_rootport_has(
    cluster_binaries: Binaries, programs: Path, words: list[str], offered: list[str]
) -> None:
    asked = subprocess.run(
        [cluster_binaries["kubectl"], "__complete", *words],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    *choices, directive = asked.stdout.splitlines()
    assert [line.partition("\t")[0] for line in choices] == offered
    assert directive == ":4"  # no names of files
