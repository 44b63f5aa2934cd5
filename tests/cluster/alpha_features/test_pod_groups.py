"""A claim that the pods of a PodGroup share: it is reserved for the group, and everything of Rootport's says so."""

from __future__ import annotations

import json

import pytest

from tests.cluster.alpha_features.conftest import AlphaCluster
from tests.cluster.hangs.world import NAMESPACE, claim, eventually, pod, request
from tests.support.machines import gpu, node

pytestmark = [
    pytest.mark.needs_go,
    pytest.mark.since_kubernetes(37, "these gates are not there, or publish other fields, before"),
]

MEMORY = 85520809984
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "ring"},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "resourceClaims": [{"name": "made", "resourceClaimTemplateName": "shared"}],
    },
}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "shared"},
    "spec": {"spec": claim("x", request("gpu"))["spec"]},
}


def test_a_shared_claim_names_its_pod_group_everywhere(cluster: AlphaCluster) -> None:
    cluster.add(node(gpu("10", memory_bytes=MEMORY), name="group-0"))
    cluster.create(TEMPLATE)
    cluster.plane.kubectl("apply", f"--namespace={NAMESPACE}", "--filename=-", input=json.dumps(GROUP))
    try:
        for name in ("ring-0", "ring-1"):
            cluster.create(pod(name, template="shared", schedulingGroup={"podGroupName": "ring"}))
        eventually("both pods have their node", lambda: cluster.runs("ring-0") and cluster.runs("ring-1"))
        made = {
            cluster.get("Pod", name)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]  # type: ignore[index]
            for name in ("ring-0", "ring-1")
        }
        assert len(made) == 1
        name = made.pop()
        (reserved,) = cluster.get("ResourceClaim", name)["status"]["reservedFor"]  # type: ignore[index]
        assert (reserved["apiGroup"], reserved["resource"], reserved["name"]) == (
            "scheduling.k8s.io",
            "podgroups",
            "ring",
        )

        cluster.create(claim("other", request("gpu")), pod("other", "other"))
        eventually("the other pod was tried", lambda: cluster.hangs("other"))
        said = cluster.explain("Pod", "other")
        text = f"claim {NAMESPACE}/{name} (PodGroup ring, 2 pods such as {NAMESPACE}/ring-0)"
        assert any(text in item.message for item in said.findings)
        (end,) = [item for item in said.proposals if item.ends]
        assert end.commands == (
            f"kubectl -n {NAMESPACE} delete pod ring-0",
            f"kubectl -n {NAMESPACE} delete pod ring-1",
            f"kubectl -n {NAMESPACE} delete podgroup ring",
        )
        (device,) = eventually(
            "the Device object has the claim",
            lambda: [item for item in cluster.nodes.devices("group-0") if item["status"].get("allocations")],
        )
        (allocation,) = device["status"]["allocations"]
        assert allocation["podGroups"] == ["ring"]
        assert "pods" not in allocation

        # What is proposed helps.
        for command in end.commands:
            cluster.plane.kubectl(*command.split()[1:], "--wait=false")
        eventually("the other pod has its node", lambda: cluster.runs("other"))
    finally:
        cluster.plane.kubectl(
            "delete", "podgroup", "ring", f"--namespace={NAMESPACE}", "--ignore-not-found", "--wait=false"
        )
