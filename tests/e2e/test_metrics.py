"""Which pod and container have which share, in the plugin's metrics, as a real kubelet tells it."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster.pods import gpu_claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import PLUGIN_HEALTH_PORT, RunningRootport

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

ADDRESS = "0000:33:00.0"
DEVICE = "gpu-0000-33-00-0"


def samples(rootport: RunningRootport, name: str) -> list[dict[str, str]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{rootport.cluster.machine.address}:{PLUGIN_HEALTH_PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return [
        sample.labels
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


def test_a_share_names_the_pod_and_the_container_that_have_it(rootport: RunningRootport) -> None:
    claim = gpu_claim("training", ADDRESS, core="60", memory="10Gi")
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(claim, pod("training", claim="training")))
    rootport.cluster.wait_for_pod("training", "Running")

    def holders() -> list[tuple[str, str, str, str]]:
        found = samples(rootport, "rootport_share_core_ratio")
        return [(one["device"], one["claim"], one["pod"], one["container"]) for one in found]

    wait_until(
        "the kubelet's word", lambda: holders() == [(DEVICE, "training", "training", "main")], timeout_s=30, step_s=1
    )
