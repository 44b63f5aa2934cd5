"""The rule of conftest.py for tools that not every desk has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Require = Callable[[str], None]


@pytest.fixture(autouse=True)
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


def test_a_missing_tool_skips_with_a_reason(require_tool: Require) -> None:
    with pytest.raises(pytest.skip.Exception, match="go is not installed"):
        require_tool("go")


def test_a_missing_tool_is_a_failure_in_ci(require_tool: Require, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="cc is not installed"):
        require_tool("cc")


def test_a_tool_on_the_path_is_enough(require_tool: Require, no_tools: Path) -> None:
    (no_tools / "cc").write_text("#!/bin/sh\n")
    (no_tools / "cc").chmod(0o755)
    require_tool("cc")
