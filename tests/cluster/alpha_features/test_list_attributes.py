"""Devices in several places at once: the API server stores the lists, and kube-scheduler joins by a common value."""

from __future__ import annotations

from typing import Any

import pytest

from driver.adapters.kubernetes.resources import RESOURCE_SLICES
from driver.adapters.kubernetes.snapshot import read_cluster
from driver.allocator.feature_gates import features_of
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef
from driver.model.pci import DirectPath, PciAddress, PciePath
from tests.cluster.alpha_features.conftest import GATES, AlphaCluster
from tests.cluster.hangs.world import NAMESPACE, claim, eventually, pod, request
from tests.support.machines import gpu, nic, node

pytestmark = [
    pytest.mark.needs_go,
    pytest.mark.since_kubernetes(37, "these gates are not there, or publish other fields, before"),
]

ROOT, NUMA, SWITCH = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode", "rootport.dev/pcieSwitch"
FAR, JOINT = PciAddress("0009:01:00.0"), PciAddress("0009:03:00.0")
GPU_PATH = PciePath(root="pci0009:00", switches=(JOINT,), numa_node=0)
DIRECT = DirectPath(address=PciAddress("0009:04:00.0"), root="pci0009:00", switches=(JOINT,), numa_node=0)


def pair(name: str, attribute: str) -> dict[str, Any]:
    return claim(name, request("gpu"), request("nic", "rdma"), constraints=[{"matchAttribute": attribute}])


def explained(cluster: AlphaCluster, name: str, gates: str) -> Explanation:
    state = read_cluster(cluster.api, namespace=NAMESPACE, features=features_of(gates))
    return Explainer(state).explain(ObjectRef(kind="Pod", namespace=NAMESPACE, name=name))


def attributes(cluster: AlphaCluster, name: str) -> dict[str, dict[str, Any]]:
    return {item["name"]: item["attributes"] for one in cluster.nodes.slices(name) for item in one["spec"]["devices"]}


@pytest.mark.parametrize("attribute", [ROOT, SWITCH])
def test_a_nic_is_under_the_switch_of_its_data_direct_function_too(cluster: AlphaCluster, attribute: str) -> None:
    far = nic("20", pcie=PciePath(root="pci0002:00", numa_node=0))
    near = nic("30", pcie=PciePath(root="pci0003:00", numa_node=0, direct=DIRECT))
    cluster.add(node(gpu("10", pcie=GPU_PATH), far, near, name="direct"))
    stored = attributes(cluster, "direct")
    assert stored["rdma-0000-30-00-0"][ROOT] == {"strings": ["pci0003:00", "pci0009:00"]}
    assert stored["rdma-0000-30-00-0"]["pcieSwitch"] == {"string": JOINT}
    assert stored["rdma-0000-20-00-0"][ROOT] == {"string": "pci0002:00"}
    assert stored["gpu-0000-10-00-0"][ROOT] == {"string": "pci0009:00"}

    cluster.create(pair("joint", attribute), pod("joint", "joint"))

    eventually("the pod has its node", lambda: cluster.runs("joint"))
    results = cluster.get("ResourceClaim", "joint")["status"]["allocation"]["devices"]["results"]  # type: ignore[index]
    assert [item["device"] for item in results] == ["gpu-0000-10-00-0", "rdma-0000-30-00-0"]


def test_numa_nodes_of_one_socket_are_joined_and_explain_reckons_with_the_gate(cluster: AlphaCluster) -> None:
    cluster.add(
        node(
            gpu("10", pcie=PciePath(root="pci0000:10", numa_node=1, near_numa_nodes=(0,))),
            nic("20", pcie=PciePath(root="pci0000:20", numa_node=0, near_numa_nodes=(1,))),
            name="divided",
        )
    )
    stored = attributes(cluster, "divided")
    assert stored["gpu-0000-10-00-0"][NUMA] == {"ints": [1, 0]}
    assert stored["gpu-0000-10-00-0"]["numaNode"] == {"int": 1}

    cluster.create(pair("near", NUMA), pod("near", "near"))
    cluster.create(pair("same", "rootport.dev/numaNode"), pod("same", "same"))
    eventually("the pod has its node", lambda: cluster.runs("near"))
    eventually("the other pod was tried", lambda: cluster.hangs("same"))

    cluster.delete("Pod", "near")
    eventually("its devices are free", lambda: not cluster.is_allocated("near"))
    cluster.create(pair("again", NUMA), pod("again", "again", schedulingGates=[{"name": "example.com/wait"}]))
    assert explained(cluster, "again", GATES).reason.value == "SchedulingGated"
    assert not explained(cluster, "same", GATES).fits
    # A scheduler without the gate takes a list for a value of no type, which equals nothing.
    assert [explained(cluster, "again", gates).nodes_fitting for gates in (GATES, "")] == [1, 0]


def test_slices_with_lists_hold_no_more_than_64_devices(cluster: AlphaCluster) -> None:
    path = PciePath(root="pci0000:20", numa_node=0, near_numa_nodes=(1,))
    cluster.add(node(*(nic(f"{bus:02x}", pcie=path) for bus in range(16, 96)), name="many"))
    eventually("all are published", lambda: len(cluster.nodes.visible("many")) == 80)
    assert [len(item["spec"]["devices"]) for item in cluster.nodes.slices("many")] == [64, 16]
    assert all("generation" in item["spec"]["pool"] for item in cluster.api.list(RESOURCE_SLICES).items)
