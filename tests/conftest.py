"""Fixtures and rules for all tests.

A test that needs a tool which not every desk has says so by a marker (``needs_cc``, ``needs_go``): where the tool is
missing the test is skipped with a reason, but under CI=true it fails, so that CI never loses tests in silence.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import settings
from stub_nvml import StubNvml, build

# No deadlines: how long an example takes is the machine's affair, and `make bench`'s. CI tries the same examples every
# time, a desk new ones.
settings.register_profile("rootport", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("rootport")

_TOOLS: Final = {"needs_cc": "cc", "needs_go": "go"}


def require_tool(tool: str) -> None:
    """Skip the running test where ``tool`` is not on PATH; under CI=true fail it."""
    if shutil.which(tool) is not None:
        return
    reason = f"{tool} is not installed on this machine"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and under CI=true no test may be skipped for that", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)  # before fixtures are set up: they may need the tool as well
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, tool in _TOOLS.items():
        if item.get_closest_marker(marker) is not None:
            require_tool(tool)


@pytest.fixture(name="require_tool", scope="session")
def _require_tool() -> Callable[[str], None]:
    """The rule for a fixture, or for a test that cannot know before it runs."""
    return require_tool


@pytest.fixture(scope="session")
def nvml_stub(tmp_path_factory: pytest.TempPathFactory) -> StubNvml:
    """The stub libnvidia-ml.so.1, built once a session; tests that use it carry the marker needs_cc."""
    require_tool("cc")
    return build(tmp_path_factory.mktemp("stub-nvml"))
