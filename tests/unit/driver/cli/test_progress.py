"""What a person sees while a command takes its time: nothing at first, nothing in a file, and nothing afterwards."""

from __future__ import annotations

import io
import sys
import time

import pytest

from driver.cli import progress as module
from driver.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch, *, quiet_for_s: float) -> Terminal:
    # Not a fixture: pytest puts its own standard error in place after those.
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "_QUIET_FOR_S", quiet_for_s)
    return made


def wait_for(text: str, terminal: Terminal) -> None:
    until = time.monotonic() + 60
    while text not in terminal.getvalue():
        assert time.monotonic() < until, terminal.getvalue()
        time.sleep(0.01)


def test_long_work_is_shown_and_taken_away_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, quiet_for_s=0)
    with progress("reading a [large] dump", total=3) as step:
        step()
        wait_for("reading a [large] dump", terminal)
        wait_for("1/3", terminal)
    assert terminal.getvalue().endswith("\x1b[2K"), "the line is cleared"


def test_quick_work_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, quiet_for_s=3600)
    with progress("reading a dump") as step:
        step()
    assert "reading" not in terminal.getvalue()


def test_nothing_is_shown_where_nobody_looks_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUIET_FOR_S", 0)
    with progress("reading a dump") as step:
        step()
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_an_error_within_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, quiet_for_s=0)

    def fails() -> None:
        with progress("reading a dump"):
            wait_for("reading a dump", terminal)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fails()
    assert terminal.getvalue().endswith("\x1b[2K")
