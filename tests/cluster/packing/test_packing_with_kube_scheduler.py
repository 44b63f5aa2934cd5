"""kube-scheduler fills nodes GPU by GPU with the example's configuration, and does not by itself.

Four nodes with two GPUs each that exist in the API only, and four pods with a GPU each, one after the other. Only nodes
that are equal have equal scores, so the number of nodes in use does not depend on chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from driver.adapters.kubernetes.resources import PODS as PODS_RESOURCE
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.placement.replay.trace import TraceNode, TracePod
from driver.placement.shapes import WHOLE_GPU, NodeShape, PodShape
from tests.bench.trace_cluster.checks import given_too_often, left_unbound
from tests.bench.trace_cluster.cluster import PACKING, TraceCluster
from tests.bench.trace_cluster.objects import Way
from tests.bench.trace_cluster.run import Run
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.needs_go

NODE: Final = NodeShape(cpu_milli=8000, memory=64 << 30, pods=110, model="T4", gpus=(WHOLE_GPU, WHOLE_GPU))
POD: Final = PodShape(cpu_milli=500, memory=1 << 29, gpus=1, gpu_milli=WHOLE_GPU)
NODES: Final = [TraceNode(f"node-{number}", NODE) for number in range(4)]
PODS: Final = [TracePod(f"pod-{number}", POD) for number in range(4)]


@pytest.fixture
def plane(cluster_binaries: Binaries, tmp_path: Path) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path, cluster_binaries) as plane:
        yield plane


def started(plane: ControlPlane, way: Way, configuration: Path | None) -> TraceCluster:
    cluster = TraceCluster(plane, NODES, way, configuration=configuration)
    cluster.start()
    return cluster


def nodes_of(cluster: TraceCluster) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in cluster.api.list(PODS_RESOURCE).items}


@pytest.mark.parametrize(
    ("configuration", "nodes_in_use"), [pytest.param(PACKING, 2, id="packing"), pytest.param(None, 4, id="default")]
)
def test_pods_with_whole_gpus_fill_nodes_with_the_configuration_only(
    plane: ControlPlane, configuration: Path | None, nodes_in_use: int
) -> None:
    cluster = started(plane, Way.STOCK_WAY, configuration)
    run = Run(cluster, Way.STOCK_WAY)
    points = list(run.through(PODS, WHOLE_GPU))
    assert points[-1].given_milli == len(PODS) * WHOLE_GPU
    bound = nodes_of(cluster)
    assert len(set(bound.values())) == nodes_in_use, bound
    claims = cluster.api.list(RESOURCE_CLAIMS).items
    assert len(claims) == len(PODS)  # kube-scheduler made them
    assert [*given_too_often(claims, cluster.api.list(RESOURCE_SLICES).items)] == []
    assert [*left_unbound(claims, cluster.api.list(PODS_RESOURCE).items)] == []
    cluster.close()
