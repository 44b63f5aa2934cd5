"""A real node of one version of Kubernetes for the suite, and what each row has to say at its end.

``KUBERNETES`` names the version, ``ROOTPORT_MATRIX_GATES=on`` turns on the gates that Rootport can use. What is seen is
compared with what is recorded in ``results``; with ``ROOTPORT_MATRIX_RECORD=on`` it is recorded (``make matrix``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import pytest

from tests.matrix.results import GATES, Run, Seen, is_recorded, recorded, runtime_config, write
from tests.matrix.rig import CONTROLLER, CONTROLLER_OPTIONS, Rig, Row
from tests.support.cluster.binaries import KUBERNETES_MINOR, KUBERNETES_VERSION, Binaries, cache_folder
from tests.support.cluster.fixtures import cluster_binaries
from tests.support.cluster.hardware import make_host
from tests.support.cluster.images import build_busybox, build_pause
from tests.support.cluster.interfaces import add_interfaces
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import RealCluster
from tests.support.cluster.rootport import RunningRootport
from tests.support.needed_tools import unavailable
from tests.support.stub_nvml import StubNvml

__all__ = ["cluster_binaries", "rig", "row", "whole_rig"]

_RECORDS: Final = os.environ.get("ROOTPORT_MATRIX_RECORD") == "on"
_RUN: Final = Run(KUBERNETES_VERSION, os.environ.get("ROOTPORT_MATRIX_GATES") == "on")
_SEEN: Final[dict[str, Seen]] = {}


@pytest.fixture(scope="session")
def whole_rig(
    cluster_binaries: Binaries, nvml_stub: StubNvml, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rig]:
    """A cluster with one real node, and Rootport on it."""
    reason = missing_for_machines()
    if reason is not None:
        unavailable(reason)
    cluster = RealCluster(
        tmp_path_factory.mktemp("matrix"),
        cluster_binaries,
        [build_pause(cache_folder()), build_busybox(cache_folder())],
        feature_gates=dict.fromkeys(GATES[KUBERNETES_MINOR], True) if _RUN.has_gates else {},
        runtime_config=runtime_config(KUBERNETES_MINOR) if _RUN.has_gates else "",
    )
    try:
        cluster.start()
        host = make_host(tmp_path_factory.mktemp("host") / "root", nvml_stub, more_cards=True)
        add_interfaces(cluster.machine, [name for nic in host.vf_nics for name in nic.interfaces])
        rootport = RunningRootport(cluster, host, lends_interfaces=True)
        rootport.start(*CONTROLLER_OPTIONS, controller_module=CONTROLLER)
        yield Rig(rootport)
        rootport.stop()
    finally:
        cluster.stop()


@pytest.fixture
def rig(whole_rig: Rig) -> Iterator[Rig]:
    """The node as every row finds it and has to leave it: with nothing prepared."""
    whole_rig.rootport.require_clean()
    yield whole_rig
    whole_rig.rootport.delete_all()
    whole_rig.rootport.wait_until_clean()


@pytest.fixture
def row(rig: Rig, request: pytest.FixtureRequest) -> Iterator[Row]:
    """The row that the test stands for. It says once what it has seen; where that is not what is recorded, it fails."""
    name = request.node.name.removeprefix("test_")
    row = Row(rig)
    yield row
    if request.node.stash.get(_FAILED, False):
        return
    assert row.seen is not None, "the row has not said what it has seen"
    if _RECORDS:
        _SEEN[name] = row.seen
        return
    assert is_recorded(_RUN), f"no results of {_RUN}: run `make matrix`"
    assert row.seen == recorded(_RUN).get(name), "not what docs/operator/versions.md says: run `make matrix`"


_FAILED: Final = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call" and report.failed:
        item.stash[_FAILED] = True
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Record the rows whose tests have passed."""
    if _SEEN:
        write(_RUN, _SEEN, date=datetime.now(UTC).date().isoformat())
