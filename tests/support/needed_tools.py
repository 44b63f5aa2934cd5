"""What a test does where this machine lacks something it needs: skipped with a reason, but never in silence in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

from tests.support.cluster.binaries import KUBERNETES_MINOR

__all__ = ["require_kubernetes", "require_tool", "unavailable"]


def require_tool(tool: str) -> None:
    """Skip the running test where ``tool`` is not on PATH; under CI=true fail it."""
    if shutil.which(tool) is None:
        unavailable(f"{tool} is not installed on this machine")


def unavailable(reason: str) -> NoReturn:
    """Skip the running test with this reason; under CI=true fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and under CI=true no test may be skipped for that", pytrace=False)
    pytest.skip(reason)


def require_kubernetes(minor: int, why: str, *, newest: int | None = None) -> None:
    """Skip the test unless ``KUBERNETES`` names a version that it can hold on; ``why`` is the reason that is shown."""
    if minor > KUBERNETES_MINOR:
        pytest.skip(f"for Kubernetes 1.{minor} or newer: {why}")
    if newest is not None and newest < KUBERNETES_MINOR:
        pytest.skip(f"for Kubernetes 1.{newest} or older: {why}")
