"""Runs the command line as a user does: through main(), with its exit code and what it prints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from driver.cli.main import main
from tests.support.paths import REPO

__all__ = ["Ran", "rootport"]


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def rootport(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    monkeypatch.chdir(REPO)

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["rootport", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        assert "Traceback" not in captured.err
        return Ran(code, captured.out, captured.err)

    return run
