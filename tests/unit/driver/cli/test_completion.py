"""Shells complete rootport's commands, options, choices and files: by the scripts, run by the shells themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driver.cli import kubectl_completion
from tests.support.paths import REPO


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with `rootport`, of this tree."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "rootport"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={REPO} exec {sys.executable} -m driver.cli.entry "$@"\n')
    program.chmod(0o755)
    return folder


def completed_by_bash(programs: Path, *words: str) -> list[str]:
    """What bash has to offer for the last of these words, as after the TAB key."""
    script = f"""
source <(rootport completion bash)
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
$(complete -p rootport | sed 's/.*-F \\([^ ]*\\) .*/\\1/') rootport
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    ran = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("rootport", "exp"), ["explain"]),
        (("rootport", "explain", "--fr"), ["--from"]),
        (("rootport", "simulate", "--policy", "f"), ["first-fit"]),
        (("rootport", "lint", "--no-such"), []),
        (("rootport", "slices", "--instance-type", "p4d."), ["p4d.24xlarge"]),
    ],
    ids=["command", "option", "choice", "nothing", "instance-type"],
)
def test_bash_completes(programs: Path, words: tuple[str, ...], offered: list[str]) -> None:
    assert completed_by_bash(programs, *words) == offered


def test_bash_offers_all_commands(programs: Path) -> None:
    assert {"explain", "simulate", "lint", "completion"} <= set(completed_by_bash(programs, "rootport", ""))


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["comp"], "completion\tPrint the script that completes commands and options in a shell.\n:4\n"),
        (["simulate", "--policy", "s"], "spread\n:4\n"),
        (["explain", "--from", "exam"], ":0\n"),
        (["lint", "--no-such"], ":4\n"),
    ],
    ids=["command", "choice", "file", "nothing"],
)
def test_kubectl_is_told_choices_and_whether_files_are_meant(
    words: list[str], printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-rootport", *words])
    kubectl_completion.main()
    assert capsys.readouterr().out == printed
