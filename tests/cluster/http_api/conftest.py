"""The HTTP API over real TLS, with callers that a real API server knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from controller.api.routes import api_routes
from controller.explanations.service import Explanations
from controller.overview.store import Overview
from controller.serving.callers import Callers
from controller.serving.certificates import issue
from controller.serving.secure_server import SecureServer
from controller.serving.static_files import dashboard_routes
from driver.adapters.kubernetes.api import KubernetesApi
from tests.support.api_client import Client
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, install


@pytest.fixture(scope="session")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One of its own: some of these tests say who leads, and delete every Node between each other."""
    with ControlPlane(tmp_path_factory.mktemp("http-api"), cluster_binaries) as plane:
        yield plane


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """With all of Rootport's manifests but the workloads."""
    install(control_plane)
    return control_plane


@pytest.fixture(scope="session")
def controller_kubeconfig(installed: ControlPlane) -> Path:
    """The controller's own rights."""
    return installed.service_account_kubeconfig(NAMESPACE, "rootport-controller")


@pytest.fixture(scope="session")
def token_with(installed: ControlPlane) -> Callable[..., str]:
    """The token of a service account that has these ClusterRoles."""
    made: dict[tuple[str, ...], str] = {}

    def token_with(*roles: str) -> str:
        if roles not in made:
            name = "-".join(("http-api", *roles))
            installed.kubectl("create", "serviceaccount", name)
            for role in roles:
                account = f"--serviceaccount=default:{name}"
                installed.kubectl("create", "clusterrolebinding", f"{name}-{role}", f"--clusterrole={role}", account)
            kubeconfig = yaml.safe_load(installed.service_account_kubeconfig("default", name).read_text())
            made[roles] = kubeconfig["users"][0]["user"]["token"]
        return made[roles]

    return token_with


class Leader:
    """Why there is no data; empty while this is the leader."""

    problem = ""


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def overview() -> Overview:
    return Overview(first_version=1000)


@pytest.fixture
def explanations(controller_kubeconfig: Path) -> Explanations:
    """Not started, as on a controller that does not lead."""
    return Explanations(KubernetesApi.connect(kubeconfig=controller_kubeconfig), instance="test", all_names=False)


@pytest.fixture
def page() -> list[Exception]:
    """Why there are no metrics; empty while there are."""
    return []


@pytest.fixture
def client(
    controller_kubeconfig: Path,
    overview: Overview,
    explanations: Explanations,
    leader: Leader,
    page: list[Exception],
) -> Iterator[Callable[[str], Client]]:
    """Clients with a token each."""
    callers = Callers(KubernetesApi.connect(kubeconfig=controller_kubeconfig))

    def metrics(_accept: str) -> tuple[str, bytes]:
        for error in page:
            raise error
        return "text/plain", b"rootport_leader 1\n"

    pages = {"/metrics": metrics}
    routes = api_routes(overview, explanations, callers=callers, problem=lambda: leader.problem, pages=pages)
    server = SecureServer(0, {**dashboard_routes(), **routes}, timeout_s=5.0, max_streams=9)
    certificate, authority = issue(("127.0.0.1",), now=datetime.now(UTC), valid=timedelta(hours=1))
    server.use(certificate.pem, certificate.key)
    server.start()
    yield lambda token="": Client(server.port, token, authority=authority.pem)
    server.stop()
