"""Fixtures and rules for all tests.

A test that needs a tool which not every desk has says so by a marker (``needs_cc``, ``needs_go``): where the tool is
missing the test is skipped with a reason, but under CI=true it fails, so that CI never loses tests in silence.

A test that cannot hold on every version of Kubernetes (``KUBERNETES``) says so by the markers ``since_kubernetes`` and
``until_kubernetes``: on other versions it is skipped with its reason. CI runs the main version.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from typing import Final

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.needed_tools import require_kubernetes, require_tool
from tests.support.stub_nvml import StubNvml, build

# No deadlines: how long an example takes is the machine's affair, and `make bench`'s. CI tries the same examples every
# time, a desk new ones.
settings.register_profile("rootport", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("rootport")

# pytest imports readline, which leaves COLUMNS=80 to the workers of xdist; without it, text has one width everywhere.
os.environ.pop("COLUMNS", None)

_TOOLS: Final = {"needs_cc": "cc", "needs_go": "go"}
_OF_A_CLUSTER: Final = frozenset({"cluster_binaries", "helm", "promtool", "browser"})
"""Fixtures whose parts are built or downloaded outside the Python packages."""


class _OneRealNode(LoadScopeScheduling):
    """Gives a test to whichever process is free, but all of tests/e2e to one, and all of tests/matrix: each has a node.

    ``--dist loadgroup`` would do, but pytest-xdist 3.8 loses its groups under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in ("tests/e2e/", "tests/matrix/") if nodeid.startswith(folder)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _OneRealNode(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest's own selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves to `make test-cluster`: nobody has to think of it when writing a test."""
    for item in items:
        needed = getattr(item, "fixturenames", ())
        if _OF_A_CLUSTER.intersection(needed) or item.get_closest_marker("needs_go") is not None:
            item.add_marker("cluster")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector pass over what collection makes: it lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _a_leak_fails_the_module_that_leaks() -> Iterator[None]:
    """Collect what a module's tests left open in a cycle of references, before another module's tests run."""
    yield
    gc.collect()


@pytest.hookimpl(tryfirst=True)  # before fixtures are set up: they may need the tool as well
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, tool in _TOOLS.items():
        if item.get_closest_marker(marker) is not None:
            require_tool(tool)
    for marker in item.iter_markers("since_kubernetes"):
        require_kubernetes(*marker.args)
    for marker in item.iter_markers("until_kubernetes"):
        newest, why = marker.args
        require_kubernetes(0, why, newest=newest)


@pytest.fixture(name="require_tool", scope="session")
def _require_tool() -> Callable[[str], None]:
    """The rule for a fixture, or for a test that cannot know before it runs."""
    return require_tool


@pytest.fixture(scope="session")
def nvml_stub(tmp_path_factory: pytest.TempPathFactory) -> StubNvml:
    """The stub libnvidia-ml.so.1, built once a session; tests that use it carry the marker needs_cc."""
    require_tool("cc")
    return build(tmp_path_factory.mktemp("stub-nvml"))
