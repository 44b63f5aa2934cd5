"""A client of the shared control plane, and a namespace for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from tests.support.cluster.control_plane import ControlPlane

_numbers = itertools.count(1)


@pytest.fixture(params=[False, True], ids=["official client", "standard library"])
def api(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[KubernetesApi]:
    with KubernetesApi.connect(kubeconfig=control_plane.kubeconfig, small=request.param) as client:
        yield client


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A namespace of this test's own."""
    name = f"kubernetes-api-{next(_numbers)}"
    control_plane.kubectl("create", "namespace", name)
    return name
