"""Kubernetes' alpha gates on, on a real node of its own: what its kubelet does with them and with Rootport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import DEVICES, PODS, RESOURCE_CLAIMS
from tests.support.cluster.binaries import Binaries, cache_folder
from tests.support.cluster.driver import install
from tests.support.cluster.hardware import make_host
from tests.support.cluster.images import build_busybox, build_pause
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import NODE_NAME, RealCluster
from tests.support.cluster.pods import claim, manifest, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.needed_tools import unavailable
from tests.support.stub_nvml import StubNvml

pytestmark = pytest.mark.since_kubernetes(37, "these gates are not there, or publish other fields, before")

GATES = dict.fromkeys(("DRANodeAllocatableResources", "GenericWorkload", "DRAWorkloadResourceClaims"), True)
POLICIES = """
apiVersion: rootport.dev/v1alpha1
kind: GpuPolicies
policies:
- maxShares: 1
  modes: [gpu]
  nodeAllocatable: {cpu: 300m, memory: 64Mi}
"""


@pytest.fixture(scope="module")
def alpha(
    cluster_binaries: Binaries, nvml_stub: StubNvml, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningRootport]:
    reason = missing_for_machines()
    if reason is not None:
        unavailable(reason)
    cache = cache_folder()
    images = [build_pause(cache), build_busybox(cache)]
    folder = tmp_path_factory.mktemp("alpha")
    host = make_host(folder / "host", nvml_stub)
    cluster = RealCluster(
        folder / "cluster",
        cluster_binaries,
        images,
        feature_gates=GATES,
        runtime_config="scheduling.k8s.io/v1beta1=true",
    )
    rootport = RunningRootport(cluster, host)
    policies = folder / "gpu-policies.yaml"
    policies.write_text(POLICIES)
    try:
        cluster.start()
        install(cluster.control_plane)
        gates = ",".join(f"{name}=true" for name in GATES)
        rootport.start_controller(f"--feature-gates={gates}", f"--gpu-policies={policies}")
        rootport.start_plugin()
        yield rootport
        rootport.stop()
    finally:
        cluster.stop()


def limited(name: str, **source: str) -> dict[str, Any]:
    """A pod with limits, in which the container's own control groups can be read."""
    made = pod(name, **source)
    made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "200m", "memory": "64Mi"}
    return made


def test_the_kubelet_adds_what_a_gpu_brings_to_the_limits_of_the_container(alpha: RunningRootport) -> None:
    cluster = alpha.cluster
    assert "DRANodeAllocatableResources" in cluster.get("node", NODE_NAME)["status"]["declaredFeatures"]
    devices = [item for one in alpha.slices() for item in one["spec"].get("devices", ())]
    (brought,) = {str(item.get("nodeAllocatableResources")) for item in devices if item["name"].startswith("gpu-")}
    assert brought == str({"cpu": {"overhead": {"perPod": "300m"}}, "memory": {"overhead": {"perPod": "64Mi"}}})

    cluster.kubectl("apply", "--filename=-", input=manifest(claim("one"), limited("one", claim="one")))
    cluster.wait_for_pod("one", "Running")
    quota, memory = (
        int(cluster.kubectl("exec", "one", "--", "cat", f"/sys/fs/cgroup/{name}"))
        for name in ("cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes")
    )
    assert (quota, memory) == (50_000, 128 * 2**20)  # of 100 ms: 200m and 300m

    cluster.kubectl("delete", "pod/one", "resourceclaim/one")
    alpha.wait_until_clean()


def test_the_pods_of_a_group_share_one_prepared_claim(alpha: RunningRootport) -> None:
    cluster = alpha.cluster
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "ring"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "shared"}],
        },
    }
    pods = [pod(name, template="shared") for name in ("ring-0", "ring-1")]
    for item in pods:
        item["spec"]["schedulingGroup"] = {"podGroupName": "ring"}
    cluster.kubectl("apply", "--filename=-", input=manifest(template("shared"), group, *pods))
    for name in ("ring-0", "ring-1"):
        cluster.wait_for_pod(name, "Running")
    (made,) = cluster.list(RESOURCE_CLAIMS)
    assert [item["resource"] for item in made["status"]["reservedFor"]] == ["podgroups"]
    seen = [cluster.kubectl("exec", name, "--", "ls", "/dev").split() for name in ("ring-0", "ring-1")]
    gpus = [[item for item in items if item.removeprefix("nvidia").isdigit()] for items in seen]
    assert len(gpus[0]) == 1
    assert gpus[0] == gpus[1]
    assert len(alpha.checkpoint()) == 1

    def groups() -> list[list[str]]:
        statuses = [item.get("status", {}).get("allocations", ()) for item in cluster.list(DEVICES)]
        return [item.get("podGroups", []) for items in statuses for item in items]

    wait_until("the Device object names the group", lambda: groups() == [["ring"]], timeout_s=30)

    # One pod goes: the other keeps the device.
    cluster.kubectl("delete", "pod/ring-0")
    assert cluster.kubectl("exec", "ring-1", "--", "echo", "there").strip() == "there"
    assert len(alpha.checkpoint()) == 1
    cluster.kubectl("delete", "pod/ring-1", "podgroup/ring")
    wait_until("all is given back", lambda: not cluster.list(RESOURCE_CLAIMS) and not cluster.list(PODS), timeout_s=60)
    alpha.wait_until_clean()
