"""GPUs that bring CPU, memory and huge pages of their node: kube-scheduler counts them for the pod."""

from __future__ import annotations

import pytest

from driver.adapters.kubernetes.resources import NODES
from driver.explain.reasons import Reason
from tests.cluster.alpha_features.conftest import AlphaCluster
from tests.cluster.hangs.world import claim, eventually, pod, request
from tests.support.machines import gpu, node

pytestmark = [
    pytest.mark.needs_go,
    pytest.mark.since_kubernetes(37, "these gates are not there, or publish other fields, before"),
]

MEMORY = 85520809984
DECLARED = "DRANodeAllocatableResources"


def test_a_gpu_brings_what_its_policy_says_and_the_node_runs_out_of_it(cluster: AlphaCluster) -> None:
    gpus = (gpu(f"{bus}0", memory_bytes=MEMORY) for bus in (1, 2))
    cluster.add(node(*gpus, name="brings-0"), DECLARED, hugepages_2Mi="4Gi")
    devices = [item for one in cluster.nodes.slices("brings-0") for item in one["spec"]["devices"]]
    assert [item["nodeAllocatableResources"] for item in devices] == 2 * [
        {
            "cpu": {"overhead": {"perPod": "5"}},
            "memory": {"overhead": {"perPod": "16Gi"}},
            "hugepages-2Mi": {"overhead": {"perPod": "1Gi"}},
        }
    ]

    # The node has 8 CPUs: 5 and 1 for the first pod, and not 5 more.
    cluster.create(claim("one", request("gpu")), pod("one", "one", cpu="1"))
    eventually("the pod has its node", lambda: cluster.runs("one"))
    (told,) = cluster.get("Pod", "one")["status"]["nodeAllocatableResourceClaimStatuses"]  # type: ignore[index]
    assert (told["resourceClaimName"], told["containers"]) == ("one", ["main"])
    assert {item["name"]: item["perPod"] for item in told["overhead"]} == {
        "cpu": "5",
        "memory": "16Gi",
        "hugepages-2Mi": "1Gi",
    }

    cluster.create(claim("two", request("gpu")), pod("two", "two", cpu="1"))
    eventually("the other pod was tried", lambda: cluster.hangs("two"))
    message = next(
        item["message"]
        for item in cluster.get("Pod", "two")["status"]["conditions"]  # type: ignore[index]
        if item["type"] == "PodScheduled"
    )
    assert "Insufficient cpu" in message
    # Its devices are free: explain leaves the rest to the scheduler's own words.
    (found,) = [item for item in cluster.explain("Pod", "two").findings if "Insufficient cpu" in item.message]
    assert found.reason is Reason.SCHEDULER_SAYS_OTHERWISE

    cluster.delete("Pod", "one")
    eventually("the other pod has its node", lambda: cluster.runs("two"))


def test_a_node_whose_kubelet_does_not_declare_the_feature_brings_nothing_until_it_does(cluster: AlphaCluster) -> None:
    cluster.add(node(gpu("10", memory_bytes=MEMORY), name="brings-1"))
    said = eventually("the condition", lambda: cluster.nodes.published("brings-1").get("message"))
    assert "its kubelet does not declare the feature" in said
    (item,) = cluster.nodes.slices("brings-1")[0]["spec"]["devices"]
    assert "nodeAllocatableResources" not in item

    status = {"status": {"declaredFeatures": [DECLARED]}}
    cluster.api.merge_patch(NODES, "brings-1", status, subresource="status")
    eventually(
        "it is published",
        lambda: "nodeAllocatableResources" in cluster.nodes.slices("brings-1")[0]["spec"]["devices"][0],
    )
    eventually("the note is gone", lambda: "its kubelet" not in cluster.nodes.published("brings-1")["message"])
