"""What a test does where this machine lacks something it needs: skipped with a reason, but never in silence in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

__all__ = ["require_tool", "unavailable"]


def require_tool(tool: str) -> None:
    """Skip the running test where ``tool`` is not on PATH; under CI=true fail it."""
    if shutil.which(tool) is None:
        unavailable(f"{tool} is not installed on this machine")


def unavailable(reason: str) -> NoReturn:
    """Skip the running test with this reason; under CI=true fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and under CI=true no test may be skipped for that", pytrace=False)
    pytest.skip(reason)
