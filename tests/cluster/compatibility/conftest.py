"""An API server with the components that let the controller write what other systems' tools read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes

SPACE = "team"


@pytest.fixture(scope="session")
def installed(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With Rootport and both components, but the workloads."""
    with ControlPlane(tmp_path_factory.mktemp("compatibility"), cluster_binaries) as plane:
        install(plane, "pod-annotations", "node-labels")
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        for body in (namespace, account):
            plane.kubectl("apply", "--filename=-", input=json.dumps(body))
        yield plane


@pytest.fixture(scope="session")
def kubeconfig(installed: ControlPlane) -> Path:
    """The controller's own rights."""
    return installed.service_account_kubeconfig(NAMESPACE, "rootport-controller")


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    yield made
    for kind in ("pods", "resourceclaims"):
        installed.kubectl("delete", kind, "--all", f"--namespace={SPACE}", "--force", "--grace-period=0")
    made.clear()


@pytest.fixture
def start(kubeconfig: Path, tmp_path: Path) -> Iterator[Callable[..., Controller]]:
    """Starts a controller with its own rights; all are ended with the test."""
    started: list[Controller] = []

    def run(*options: str) -> Controller:
        identity = f"controller-{len(started)}"
        made = Controller(kubeconfig, tmp_path / f"{identity}.log", *options, "--no-explain", identity=identity)
        started.append(made)
        return made

    yield run
    for controller in started:
        controller.kill()
