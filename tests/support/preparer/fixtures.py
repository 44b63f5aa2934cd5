"""The fixture of a node for the tests of the plugin's state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.preparer.machine import Machine

__all__ = ["machine"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
