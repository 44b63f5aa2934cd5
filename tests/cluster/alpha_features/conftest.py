"""A cluster with Kubernetes' alpha gates on, of nodes without kubelets, and Rootport's controller with the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from driver.adapters.kubernetes.resources import NODES
from driver.model.inventory import Inventory
from tests.cluster.hangs.world import NAMESPACE, World, node
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.cluster.fixtures import cluster_binaries, control_plane
from tests.support.simulated_nodes import Nodes
from tests.support.waiting import eventually

__all__ = ["cluster_binaries", "control_plane"]

GATES = (
    "DRAListTypeAttributes=true,DRANodeAllocatableResources=true,GenericWorkload=true,DRAWorkloadResourceClaims=true"
)
CONTROLLERS = "resourceclaim-controller,podgroup-protection-controller"
POLICIES = """
apiVersion: rootport.dev/v1alpha1
kind: GpuPolicies
policies:
- nodes: ["brings-*"]
  maxShares: 1
  modes: [gpu]
  nodeAllocatable: {cpu: "5", memory: 16Gi, hugepages-2Mi: 1Gi}
"""


class AlphaCluster(World):
    """What a test makes is gone when the next one begins."""

    def __init__(self, plane: ControlPlane) -> None:
        self.nodes = Nodes(plane.kubeconfig)
        super().__init__(plane, self.nodes.api)
        self.api = self.nodes.api
        self.beats = ExitStack()

    def add(self, inventory: Inventory, *declared: str, **room: str) -> None:
        """Add a ready Node whose kubelet declares features, and wait until its devices are published."""
        made = node(inventory.node)
        made["status"]["declaredFeatures"] = declared
        self.create(made)
        for name, amount in room.items():
            amounts = {name.replace("_", "-"): amount}
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            self.api.merge_patch(NODES, inventory.node, status, subresource="status")
        self.nodes.add(inventory, with_node=False)
        self.beats.enter_context(self.nodes.beating(inventory.node, every_s=2))
        eventually("the slices", lambda: self.nodes.visible(inventory.node), timeout_s=60)


@pytest.fixture(scope="module")
def alpha_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("alpha")
    policies = folder / "gpu-policies.yaml"
    policies.write_text(POLICIES)
    with ControlPlane(
        folder / "plane", cluster_binaries, feature_gates=GATES, runtime_config="scheduling.k8s.io/v1beta1=true"
    ) as plane:
        install(plane)
        plane.kubectl("create", "namespace", NAMESPACE)
        plane.kubectl("create", "serviceaccount", "default", f"--namespace={NAMESPACE}")
        plane.start_scheduler()
        plane.start_controller_manager(f"--controllers={CONTROLLERS}")
        options = (f"--feature-gates={GATES}", f"--gpu-policies={policies}")
        start_controller(plane, plane.processes, *options)
        yield plane


@pytest.fixture
def cluster(alpha_plane: ControlPlane) -> Iterator[AlphaCluster]:
    made = AlphaCluster(alpha_plane)
    yield made
    made.beats.close()
    made.clean()
    made.nodes.clear()
