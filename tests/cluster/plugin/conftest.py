"""Real plugin processes on real unix sockets, with a written sysfs tree, the stub NVML and a real API server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.plugin_process import GPUS, Cluster, PluginNode
from tests.support.stub_nvml import H100_80GB, Machine, StubNvml
from tests.support.sysfs_tree import dgx


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """The API server with Rootport's CRDs, roles and policies."""
    install(control_plane)
    return control_plane


@pytest.fixture
def make_node(tmp_path: Path, nvml_stub: StubNvml) -> Iterator[Callable[[str], PluginNode]]:
    """Makes a node with two GPUs, each beside a NIC under its own switch."""
    made: list[PluginNode] = []

    def make(name: str) -> PluginNode:
        host = tmp_path / name
        dgx(host, switches=2, pairs=2)
        gpus = tuple(H100_80GB.at(number, f"0000{address}") for number, address in enumerate(GPUS))
        # Sockets have short paths, and pytest's folders long ones.
        folder = Path(tempfile.mkdtemp(prefix="rootport-"))
        (folder / "registry").mkdir()
        node = PluginNode(name=name, host=host, folder=folder, environment=nvml_stub.environment(Machine(gpus=gpus)))
        made.append(node)
        return node

    yield make
    for node in made:
        for process in node.processes:
            process.popen.kill()
            process.popen.wait()
        shutil.rmtree(node.folder)


@pytest.fixture
def cluster(installed: ControlPlane) -> Cluster:
    return Cluster(installed)
