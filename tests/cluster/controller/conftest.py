"""A control plane of its own for these tests: they delete every Node, inventory and slice between each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.simulated_nodes import NAMESPACE, Controller


@pytest.fixture(scope="module")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), cluster_binaries) as plane:
        yield plane


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """With all of Rootport's manifests but the workloads."""
    install(control_plane)
    for kind in ("nodeinventories", "devices"):
        control_plane.kubectl("get", f"{kind}.rootport.dev")  # tries again while the API server begins their storage
    return control_plane


@pytest.fixture
def start(installed: ControlPlane, tmp_path: Path) -> Iterator[Callable[[], Controller]]:
    """Starts a controller with its own rights; all are ended with the test."""
    started: list[Controller] = []
    kubeconfig = installed.service_account_kubeconfig(NAMESPACE, "rootport-controller")

    def run() -> Controller:
        identity = f"controller-{len(started)}"
        made = Controller(kubeconfig, tmp_path / f"{identity}.log", identity=identity)
        started.append(made)
        return made

    yield run
    for controller in started:
        controller.kill()
