"""What both modules stand on: the cluster of a module without anything in it, and how that cluster begins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from tests.cluster.hangs.world import World
from tests.support.cluster.control_plane import ControlPlane


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[World]:
    """A cluster without nodes, slices, claims and pods."""
    with KubernetesApi.connect(kubeconfig=plane.kubeconfig) as api:
        world = World(plane, api)
        try:
            yield world
        finally:
            world.clean()
