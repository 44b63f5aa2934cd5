"""A control plane of its own, with the stock controllers: what is converted here is made into claims by them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from controller.admission.webhook import Webhook, WebhookOptions
from controller.conversion.counts import ConversionCounter
from controller.conversion.webhook import REQUEST_S, ConversionOptions, claim_webhook, conversion_webhook
from driver.adapters.kubernetes.api import KubernetesApi
from driver.ratios import SizeCounter
from tests.cluster.conversion.converting_cluster import ConvertingCluster
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, install
from tests.support.waiting import eventually

_NUMBERS = itertools.count()
_POLICY: Final = {"validRange": {"min": "1Mi", "step": "1Mi", "max": "80Gi"}}
_COUNTED: Final = SizeCounter()
_COUNTED.add(
    {
        "attributes": {"type": {"string": "gpu"}},
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": _POLICY}},
        "allowMultipleAllocations": True,
    }
)
SIZES: Final = _COUNTED.sizes()
"""A cluster with GPUs of 80 GiB alone."""


@pytest.fixture(scope="session")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with Rootport and its webhooks' components, but the workloads."""
    plane = ControlPlane(tmp_path_factory.mktemp("conversion"), cluster_binaries)
    try:
        plane.start()
        plane.start_controller_manager()
        install(plane, "webhook", "convert-webhook")
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def kubeconfig(plane: ControlPlane) -> Path:
    """The controller's own rights."""
    return plane.service_account_kubeconfig(NAMESPACE, "rootport-controller")


@pytest.fixture
def cluster(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[ConvertingCluster]:
    """The cluster with a new namespace that is opted in."""
    name = request.node.name.partition("[")[0].removeprefix("test_").replace("_", "-")[:40].strip("-")
    cluster = ConvertingCluster(plane, namespace=f"{name}-{next(_NUMBERS)}")
    cluster.make_namespace(cluster.namespace, opted_in=True)
    yield cluster
    cluster.send_to_the_service()
    plane.kubectl("delete", "namespace", cluster.namespace, "--wait=false")


@pytest.fixture
def counts() -> ConversionCounter:
    """What the webhooks of the test count."""
    return ConversionCounter()


@pytest.fixture
def start(cluster: ConvertingCluster, kubeconfig: Path, counts: ConversionCounter) -> Iterator[Callable[..., Webhook]]:
    """Starts a replica's webhooks, with the controller's rights; the API server is sent to the last one started."""
    started: list[Webhook] = []

    def start(**options: Any) -> Webhook:
        api = KubernetesApi.connect(kubeconfig=kubeconfig, timeout_s=REQUEST_S)
        webhook = Webhook(
            KubernetesApi.connect(kubeconfig=kubeconfig),
            WebhookOptions(port=0, namespace=NAMESPACE, hosts=("127.0.0.1",), period_s=0.2),
            further=[
                conversion_webhook(api, ConversionOptions(**options), counts),
                claim_webhook(lambda: SIZES, counts),
            ],
        )
        started.append(webhook)
        webhook.start()
        eventually("a certificate", lambda: not webhook.problem)
        cluster.send_to(webhook.port)
        return webhook

    yield start
    for webhook in started:
        webhook.stop()
