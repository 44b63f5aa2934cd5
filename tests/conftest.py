"""Fixtures and rules for all tests.

A test that needs a tool which not every desk has says so by a marker (``needs_cc``, ``needs_go``): where the tool is
missing the test is skipped with a reason, but under CI=true it fails, so that CI never loses tests in silence.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from cluster.binaries import Binaries, ToolMissingError
from cluster.binaries import build as build_binaries
from cluster.binaries import promtool as unpacked_promtool
from cluster.control_plane import ControlPlane
from hypothesis import settings
from needed_tools import require_tool, unavailable
from stub_nvml import StubNvml, build
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# No deadlines: how long an example takes is the machine's affair, and `make bench`'s. CI tries the same examples every
# time, a desk new ones.
settings.register_profile("rootport", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("rootport")

# pytest imports readline, which leaves COLUMNS=80 to the workers of xdist; without it, text has one width everywhere.
os.environ.pop("COLUMNS", None)

_TOOLS: Final = {"needs_cc": "cc", "needs_go": "go"}
_OF_A_CLUSTER: Final = frozenset({"cluster_binaries", "promtool", "browser"})
"""Fixtures whose parts are built or downloaded outside the Python packages."""


class _OneRealNode(LoadScopeScheduling):
    """Gives a test to whichever process is free, but all of tests/e2e to one: they share a real node.

    ``--dist loadgroup`` would do, but pytest-xdist 3.8 loses its groups under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "tests/e2e" if nodeid.startswith("tests/e2e/") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _OneRealNode(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest's own selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves to `make test-cluster`: nobody has to think of it when writing a test."""
    for item in items:
        needed = getattr(item, "fixturenames", ())
        if _OF_A_CLUSTER.intersection(needed) or item.get_closest_marker("needs_go") is not None:
            item.add_marker("cluster")


@pytest.fixture(scope="module", autouse=True)
def _leaks_told_where_they_happen() -> Iterator[None]:
    """What a test leaves open in a cycle of references fails that test's module, not whichever test collects it."""
    yield
    gc.collect()


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


@pytest.fixture(scope="session")
def cluster_binaries() -> Binaries:
    """What a cluster is made of; built, the first time, within about ten minutes."""
    try:
        return build_binaries(lambda text: print(text, file=sys.__stderr__, flush=True))
    except ToolMissingError as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and a real API server, shared by the tests of a session: use names of your own in it."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), cluster_binaries) as plane:
        yield plane


@pytest.fixture(scope="session")
def promtool() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs promtool, of Debian's package, with standard input as ``stdin``."""
    try:
        program = unpacked_promtool(lambda text: print(text, file=sys.__stderr__, flush=True))
    except (ToolMissingError, subprocess.CalledProcessError) as error:
        unavailable(f"promtool cannot be had: {error}")

    def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *map(str, arguments)], input=stdin, capture_output=True, text=True, check=False, timeout=60
        )

    return run


@pytest.fixture(scope="session")
def lint_metrics(promtool: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[[str], str]:
    """What Prometheus' own linter says of a page of metrics; empty where it is content."""

    def linted(text: str) -> str:
        done = promtool("check", "metrics", stdin=text)
        return done.stdout + done.stderr + ("" if done.returncode == 0 else f"exit status {done.returncode}")

    return linted
