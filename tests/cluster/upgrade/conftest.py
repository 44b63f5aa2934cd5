"""A control plane of its own for these tests: its objects are those of two versions, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane


@pytest.fixture(scope="module")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), cluster_binaries) as plane:
        yield plane
