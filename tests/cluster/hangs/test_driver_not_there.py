"""Claims that hang because of what Rootport publishes, or does not: with its real controller and the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.explain.reasons import Reason
from tests.cluster.hangs.world import World, claim, eventually, node, pod, request, start_schedulers
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.simulated_nodes import Nodes
from tests.support.topologies import machine_file

_GATES: Final = "DRAPartitionableDevices=false"
_H100: Final = machine_file("azure-nd-h100-v5")


@pytest.fixture(scope="module")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster that has no counters, as every one before Kubernetes 1.36, with Rootport's controller."""
    with ControlPlane(tmp_path_factory.mktemp("gates") / "plane", cluster_binaries, feature_gates=_GATES) as plane:
        install(plane)
        start_controller(plane, plane.processes, "--fresh-for=2", "--grace-period=3")
        start_schedulers(plane, feature_gates=_GATES)
        yield plane


def test_a_gate_that_is_off_and_a_silent_node_are_named(plane: ControlPlane, world: World) -> None:
    nodes = Nodes(plane.kubeconfig)
    inventory = read_topology(_H100, node="n1", hardware=HardwareFacts(gpu_model="H100"))
    world.create(node("n1"))
    nodes.add(replace(inventory, gpus=inventory.gpus[:1], nics=()), with_node=False)
    with nodes.beating("n1"):
        eventually("its slices are there", lambda: nodes.visible("n1"))
        world.create(claim("part", request("part", "mig")), pod("part", "part"))
        eventually("the scheduler tries it", lambda: world.hangs("part"))

        found = world.explain("Pod", "part")

        # Not FeatureOff: without counters a free GPU changes its mode for the claim, if taints are there.
        assert found.reason is Reason.CLASS_SELECTS_TOO_FEW, found
        assert "feature gate DRAPartitionableDevices is off" in found.findings[0].message
        assert "the controller changes a GPU that is free" in found.findings[0].message
        world.delete("Pod", "part")
        world.delete("ResourceClaim", "part")

    world.create(claim("gpu", request("gpu")))
    eventually("the silent node's slices are gone", lambda: not nodes.visible("n1"))
    world.create(pod("gpu", "gpu"))
    eventually("the scheduler tries it", lambda: world.hangs("gpu"))

    found = world.explain("Pod", "gpu")

    assert found.reason is Reason.PLUGIN_NOT_READY, found
    assert "NodeSilent" in found.findings[0].message
    with nodes.beating("n1"):
        eventually("it is placed once the plugin is back", lambda: world.runs("gpu"))
    nodes.api.close()
