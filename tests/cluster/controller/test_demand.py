"""Modes follow pending claims: a real API server, the real kube-scheduler, simulated nodes, the controller's rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driver.modes.rule import Layout
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.mode_changes import Leader, ModesCluster
from tests.support.demand_world import gpu_request, mig_request, ratio_request
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

SOON_S = 60


@pytest.fixture(scope="module")
def scheduling(installed: ControlPlane) -> Iterator[ControlPlane]:
    scheduler = installed.start_scheduler()
    yield installed
    scheduler.stop()


@pytest.fixture
def cluster(scheduling: ControlPlane) -> Iterator[ModesCluster]:
    made = ModesCluster(scheduling, nodes=2, gpus=2)
    yield made
    made.close()


def test_gpus_change_to_partitions_for_pods_and_back_for_others(scheduling: ControlPlane, cluster: ModesCluster):
    with Leader(scheduling):
        cluster.wait_for_slices()
        assert all(name.startswith("gpu-0") for names in cluster.published().values() for name in names)
        small = [f"small-{number}" for number in range(9)]
        for name in small:
            cluster.run(name, mig_request("1g.10gb"))
        cluster.placed(small, timeout_s=SOON_S)
        used = {cluster.devices_of(name)[0].rpartition("-1g")[0] for name in small}
        assert len(used) == 2, "seven on one GPU, two on another"
        whole = [f"whole-{number}" for number in range(4)]
        for name in whole:
            cluster.run(name, gpu_request())
        eventually("two are placed", lambda: sum(map(cluster.is_placed, whole)) == 2)
        cluster.end(*small)
        cluster.placed(whole, timeout_s=SOON_S)
        assert sorted(name for names in cluster.published().values() for name in names if name.startswith("mig")) == []


def test_shares_by_percent_and_whole_gpus_take_turns_on_the_last_gpu(scheduling: ControlPlane, cluster: ModesCluster):
    with Leader(scheduling):
        cluster.wait_for_slices()
        cluster.run("all", gpu_request(count=2))
        cluster.run("most", gpu_request(count=1))
        cluster.placed(["all", "most"], timeout_s=SOON_S)
        for name in ("a", "b"):
            cluster.run(name, ratio_request(percent=40))
        cluster.placed(["a", "b"], timeout_s=SOON_S)
        assert cluster.devices_of("a") == cluster.devices_of("b")
        cluster.run("part", mig_request("3g.40gb"))
        cluster.end("a", "b")
        cluster.placed(["part"], timeout_s=SOON_S)


def test_in_the_lean_layout_partitions_are_added_for_pods(scheduling: ControlPlane, cluster: ModesCluster):
    with Leader(scheduling, Layout.LEAN):
        cluster.wait_for_slices()
        large = [f"large-{number}" for number in range(4)]
        for name in large:
            cluster.run(name, mig_request("7g.80gb"))
        cluster.placed(large, timeout_s=SOON_S)
