"""What the real node publishes, and what survives its kubelet."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport


def devices(rootport: RunningRootport) -> dict[str, dict[str, Any]]:
    found = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    return {device["name"]: device["attributes"] for device in found}


def uids(rootport: RunningRootport) -> set[str]:
    return {part["metadata"]["uid"] for part in rootport.slices()}


def test_the_slices_show_the_node_s_topology(rootport: RunningRootport) -> None:
    published = devices(rootport)

    types = Counter(attributes["type"]["string"] for attributes in published.values())
    assert types == {"gpu": 8, "rdma": 8 + 1, "rdma-vf": 2, "fpga": 1, "gpu-ratio": 8, "mig": 8 * 25}
    for gpu, nic in zip(rootport.host.gpus, rootport.host.nics, strict=True):
        pair = [published[f"{kind}-{address.replace(':', '-').replace('.', '-')}"]
                for kind, address in (("gpu", gpu), ("rdma", nic))]  # fmt: skip
        assert pair[0]["pcieSwitch"] == pair[1]["pcieSwitch"]
        assert pair[0]["resource.kubernetes.io/pcieRoot"] == pair[1]["resource.kubernetes.io/pcieRoot"]
        assert pair[0]["resource.kubernetes.io/pciBusID"] == {"string": gpu}
        assert pair[0]["model"] == {"string": "NVIDIA H100 80GB HBM3"}
    switches = {json.dumps(attributes["pcieSwitch"]) for attributes in published.values()}
    assert len(switches) == 8


@pytest.mark.parametrize("kind", ["devices.rootport.dev", "nodeinventories", "resourceslices"])
def test_kubectl_get_reads_well(rootport: RunningRootport, kind: str) -> None:
    def table_of() -> str:
        return rootport.cluster.kubectl("get", kind)

    # Slices are written first, and the Device objects of a node that has just come after them.
    wait_until(f"{kind} of the node are there", lambda: NODE_NAME in table_of(), timeout_s=30)
    table = table_of()

    assert max(map(len, table.splitlines())) <= 130, table


def test_the_node_s_owner_is_the_owner_of_its_slices(rootport: RunningRootport) -> None:
    node = rootport.cluster.get("node", NODE_NAME)
    for part in rootport.slices():
        (owner,) = part["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", NODE_NAME, node["metadata"]["uid"])


def test_a_restarted_kubelet_keeps_the_running_pod_and_gets_its_slices_back(rootport: RunningRootport) -> None:
    cluster = rootport.cluster
    cluster.kubectl("apply", "--filename=-", input=manifest(claim("stays"), pod("stays", claim="stays")))
    cluster.wait_for_pod("stays", "Running")
    before, prepared = uids(rootport), rootport.checkpoint()
    container = cluster.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"]

    assert cluster.kubelet is not None
    cluster.kubelet.kill()
    cluster.start_kubelet()
    # A starting kubelet deletes the slices of all drivers of its node.
    wait_until("the slices are new ones", lambda: bool(uids(rootport)) and not uids(rootport) & before)
    rootport.wait_until_usable()

    assert rootport.checkpoint() == prepared
    assert cluster.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"] == container
    # A second pod of the claim is prepared again by a kubelet that has forgotten, and gets the same device.
    cluster.kubectl("apply", "--filename=-", input=manifest(pod("joins", claim="stays")))
    cluster.wait_for_pod("joins", "Running")
    assert rootport.checkpoint() == prepared
    cluster.kubectl("delete", "pod/stays", "pod/joins", "resourceclaim/stays")
