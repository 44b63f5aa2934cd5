"""A control plane of its own: these tests say what the API server does with every claim while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.admission.review import Advise
from controller.admission.rotation import Lifetimes
from controller.admission.webhook import Webhook, WebhookOptions
from driver.adapters.kubernetes.api import KubernetesApi
from tests.cluster.admission.reviewed_cluster import Cluster
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, install
from tests.support.waiting import eventually


@pytest.fixture(scope="session")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with Rootport and its webhook component, but the workloads."""
    plane = ControlPlane(tmp_path_factory.mktemp("admission"), cluster_binaries)
    plane.add_user("alices-token", "alice", "team-a")
    plane.add_user("bobs-token", "bob", "team-b")
    try:
        plane.start()
        install(plane, "webhook")
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def kubeconfig(plane: ControlPlane) -> Path:
    """The controller's own rights."""
    return plane.service_account_kubeconfig(NAMESPACE, "rootport-controller")


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Cluster]:
    """The cluster, as freshly installed."""
    cluster = Cluster(plane)
    cluster.forget()
    yield cluster
    cluster.forget()


@pytest.fixture
def start(cluster: Cluster, kubeconfig: Path) -> Iterator[Callable[..., Webhook]]:
    """Starts a replica's webhook, with the controller's rights; the API server is sent to the last one started."""
    started: list[Webhook] = []

    def start(*, lifetimes: Lifetimes | None = None, advise: Advise = lambda _: (), **options: Any) -> Webhook:
        webhook = Webhook(
            KubernetesApi.connect(kubeconfig=kubeconfig),
            WebhookOptions(
                port=0,
                namespace=NAMESPACE,
                hosts=("127.0.0.1",),
                lifetimes=lifetimes or Lifetimes(),
                period_s=0.2,
                **options,
            ),
            advise=advise,
        )
        started.append(webhook)
        webhook.start()
        eventually("a certificate", lambda: not webhook.problem)
        cluster.send_to(webhook.port)
        return webhook

    yield start
    for webhook in started:
        webhook.stop()


@pytest.fixture
def quick() -> Lifetimes:
    """Lifetimes for tests that watch a certificate age."""
    return Lifetimes(valid=timedelta(seconds=20), renew_after=timedelta(seconds=3), settle=timedelta(seconds=1))
