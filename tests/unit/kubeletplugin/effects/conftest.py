"""A host with stand-ins of NVIDIA's programs, that run below its root; nothing of them may be left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from kubeletplugin.node.roots import Roots
from tests.support.needed_tools import unavailable
from tests.support.stub_nvidia import StubPrograms, build
from tests.unit.kubeletplugin.effects.host import Host


@pytest.fixture(scope="session")
def stub_programs(tmp_path_factory: pytest.TempPathFactory, require_tool: Callable[[str], None]) -> StubPrograms:
    require_tool("cc")
    require_tool("chroot")
    if os.geteuid() != 0:
        unavailable("chroot needs root")
    return build(tmp_path_factory.mktemp("stub-nvidia"))


@pytest.fixture(params=["host", "driver-container"])
def host(request: pytest.FixtureRequest, stub_programs: StubPrograms) -> Iterator[Host]:
    """The host is seen below a folder; and NVIDIA's driver is the host's own, or in a container's root below it."""
    # Sockets have short paths, and pytest's folders long ones.
    folder = Path(tempfile.mkdtemp(prefix="rootport-"))
    folder.chmod(0o755)
    driver_root = {"host": "", "driver-container": "/run/nvidia/driver"}[request.param]
    root = folder / driver_root.lstrip("/")
    (root / "run").mkdir(parents=True, exist_ok=True)
    programs = stub_programs.install(root)
    roots = Roots(hardware=HostRoot(folder), host=HostRoot(folder), device_root="", driver_root=driver_root)
    yield Host(root=folder, programs=programs, roots=roots, runtime_root=f"{driver_root}/run/rootport")
    left = programs.kill_all()
    shutil.rmtree(folder)
    assert not left, "these processes were left behind"
