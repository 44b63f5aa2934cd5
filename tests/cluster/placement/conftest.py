"""An API server with the component placement, the scheduler, and the controllers that make and delete claims."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.cluster.placed_cluster import PlacedCluster
from tests.support.cluster.processes import Process
from tests.support.needed_tools import require_kubernetes
from tests.support.simulated_nodes import NAMESPACE

SPACE = "team"
# Without the one that taints nodes which no kubelet renews.
_CONTROLLERS = "resourceclaim-controller,garbage-collector-controller,serviceaccount-controller"


@pytest.fixture(scope="session")
def placing(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With Rootport and the component, but the workloads, and a namespace whose pods wait for placement."""
    require_kubernetes(36, "MutatingAdmissionPolicy, which the component has, is v1 since then")
    with ControlPlane(tmp_path_factory.mktemp("placement"), cluster_binaries) as plane:
        install(plane, "placement")
        labels = {"rootport.dev/placement": "enabled"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}
        for body in (namespace, account):
            plane.kubectl("apply", "--filename=-", input=json.dumps(body))
        plane.start_controller_manager(f"--controllers={_CONTROLLERS}")
        yield plane


@pytest.fixture(scope="session")
def scheduler(placing: ControlPlane) -> Process:
    return placing.start_scheduler()


@pytest.fixture(scope="session")
def kubeconfig(placing: ControlPlane) -> Path:
    """The controller's own rights."""
    return placing.service_account_kubeconfig(NAMESPACE, "rootport-controller")


@pytest.fixture
def cluster(placing: ControlPlane, scheduler: Process, tmp_path: Path) -> Iterator[PlacedCluster]:
    del scheduler
    with PlacedCluster(placing, tmp_path) as made:
        yield made
