"""A control plane of its own for these tests: they delete every Node, inventory and slice between each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster.binaries import Binaries
from cluster.control_plane import ControlPlane


@pytest.fixture(scope="module")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), cluster_binaries)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
