"""One real cluster for all tests of this folder, which run one after the other, in one process (tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.binaries import Binaries, cache_folder
from tests.support.cluster.fixtures import cluster_binaries, helm, lint_metrics, promtool
from tests.support.cluster.hardware import FakeHost, make_host
from tests.support.cluster.images import build_busybox, build_pause
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import RealCluster
from tests.support.cluster.rootport import RunningRootport
from tests.support.needed_tools import unavailable
from tests.support.stub_nvml import StubNvml

__all__ = ["cluster_binaries", "helm", "host", "lint_metrics", "promtool", "real_cluster", "rootport", "running"]


@pytest.fixture(scope="session")
def real_cluster(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster with one real node, Ready, and nothing of Rootport on it yet."""
    reason = missing_for_machines()
    if reason is not None:
        unavailable(reason)
    cache = cache_folder()
    images = [build_pause(cache), build_busybox(cache)]
    cluster = RealCluster(tmp_path_factory.mktemp("real-cluster"), cluster_binaries, images)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def host(nvml_stub: StubNvml, tmp_path_factory: pytest.TempPathFactory) -> FakeHost:
    """The real node's hardware: 8 H100s with a NIC each under the same switch, NICs with VFs, and an FPGA."""
    return make_host(tmp_path_factory.mktemp("host") / "root", nvml_stub, more_cards=True)


@pytest.fixture(scope="session")
def running(real_cluster: RealCluster, host: FakeHost) -> Iterator[RunningRootport]:
    """Rootport's controller and plugin, running under their own roles."""
    rootport = RunningRootport(real_cluster, host, lends_interfaces=True)
    rootport.start()
    yield rootport
    rootport.stop()


@pytest.fixture
def rootport(running: RunningRootport) -> Iterator[RunningRootport]:
    """Rootport as every test finds it and has to leave it: up, and with nothing prepared."""
    running.require_clean()
    yield running
    running.delete_all()
    running.wait_until_clean()
