"""Network namespaces of a test's own: nothing of this machine's network is touched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.needed_tools import unavailable
from tests.unit.kubeletplugin.network.netdev.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require_tool: Callable[[str], None]) -> Iterator[World]:
    require_tool("ip")
    require_tool("nsenter")
    if os.geteuid() != 0:
        unavailable("network namespaces need root")
    made = World(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    try:
        yield made
    finally:
        made.close()
