"""One way in which programs end: exit codes and messages."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from driver.adapters.command_line import INTERRUPTED, run_command
from driver.errors import InputError, NodeError


def ended(error: BaseException | int | None, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    @click.command
    @click.option("--count", type=int)
    def command(count: int | None) -> int | None:
        del count
        if isinstance(error, BaseException):
            raise error
        return error

    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    return run_command(command, name="program")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        pytest.param(None, 0, "", id="nothing"),
        pytest.param(3, 3, "", id="a-code"),
        pytest.param(NodeError("no way", hint="try"), 1, "program: no way (try)\n", id="the-node"),
        pytest.param(InputError("wrong file"), 2, "program: wrong file\n", id="input"),
        pytest.param(click.exceptions.Exit(4), 4, "", id="exit"),
        pytest.param(click.exceptions.Abort(), INTERRUPTED, "", id="abort"),
        pytest.param(KeyboardInterrupt(), INTERRUPTED, "", id="interrupt"),
    ],
)
def test_how_a_program_ends(
    error: BaseException | int | None,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(error, monkeypatch=monkeypatch) == code
    assert capsys.readouterr() == ("", message)


def test_a_wrong_flag_is_shown_as_click_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(None, "--count=x", monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: program [OPTIONS]\n")
    assert "Invalid value for '--count'" in shown


def test_other_errors_are_nobodys_to_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        ended(ZeroDivisionError(), monkeypatch=monkeypatch)


def test_a_broken_pipe_of_a_daemon_is_not_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokenPipeError):
        ended(BrokenPipeError(), monkeypatch=monkeypatch)


def test_a_daemon_needs_no_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert ended(None, monkeypatch=monkeypatch) == 0


def test_a_reader_that_has_gone_is_no_error() -> None:
    code = (
        "import sys, click\n"
        "from driver.adapters.command_line import run_command\n"
        "sys.argv = ['program']\n"
        "command = click.Command('c', callback=lambda: click.echo('x' * 100000))\n"
        "sys.exit(run_command(command, name='program', prints_result=True))\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (run.returncode, run.stderr) == (0, b"")
