"""Where the files of this folder's tests are."""

from __future__ import annotations

from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def monitoring() -> Path:
    """The folder of the rules and the dashboard."""
    return REPO / "resourceclasses" / "monitoring"
