"""Who has which device stands on its Device object: the controller, with its own rights, at a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import DEVICES, RESOURCE_CLAIMS
from driver.model.inventory import Inventory
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, nic, node
from tests.support.simulated_nodes import Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

GPU = "gpu-0000-10-00-0"
NAME = f"node-a.{GPU}"
SHARES = ("7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a69", "7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a70")


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.add(machine())
    yield made
    installed.kubectl("delete", "resourceclaims", "--all", "--namespace=default")
    made.clear()


def machine() -> Inventory:
    return node(replace(gpu("10"), memory_bytes=80 << 30), gpu("11"), nic("20"), name="node-a")


def allocate(nodes: Nodes, name: str, *results: dict[str, Any]) -> str:
    """A claim as kube-scheduler leaves it; its uid."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    made = nodes.api.apply(RESOURCE_CLAIMS, body, field_manager="test")
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "rootport.dev"} | item for item in results]}}
    patch = {"status": {"allocation": allocation}}
    nodes.api.merge_patch(RESOURCE_CLAIMS, name, patch, namespace="default", subresource="status")
    uid: str = made["metadata"]["uid"]
    return uid


def share(number: int, core: int, memory: str) -> dict[str, Any]:
    consumed = {"core": str(core), "memory": memory}
    return {"pool": "node-a", "device": GPU, "shareID": SHARES[number], "consumedCapacity": consumed}


def status(nodes: Nodes, name: str = NAME) -> dict[str, Any]:
    found = {item["metadata"]["name"]: item.get("status", {}) for item in nodes.devices("node-a")}
    return dict(found.get(name, {}))


def is_free(nodes: Nodes, name: str = NAME) -> bool:
    """Whether its status was written, and nobody has it."""
    now = status(nodes, name)
    return "conditions" in now and not {"mode", "allocated", "allocations"} & now.keys()


def written(nodes: Nodes) -> bool:
    """Whether each of the node's three devices has the status of a free one."""
    return len(nodes.devices("node-a")) == 3 and all(
        is_free(nodes, item["metadata"]["name"]) for item in nodes.devices("node-a")
    )


def shows(nodes: Nodes, mode: str | None, **allocated: object) -> dict[str, Any]:
    """Wait until the GPU shows this."""
    wanted = (mode, allocated or None)

    def so() -> bool:
        now = status(nodes)
        return (now.get("mode"), now.get("allocated")) == wanted

    eventually(str(wanted), so)
    return status(nodes)


def test_a_device_shows_its_allocations_and_amounts(nodes: Nodes, start: Callable[[], Controller]) -> None:
    controller = start()
    eventually("device objects", lambda: written(nodes))
    first = allocate(nodes, "first", share(0, 30, "20Gi"))
    shows(nodes, "shared", core=30, memory="20480Mi")
    second = allocate(nodes, "second", share(1, 50, "40Gi"))
    found = shows(nodes, "shared", core=80, memory="61440Mi")
    assert {(item["namespace"], item["claim"], item["uid"], item["shareID"]) for item in found["allocations"]} == {
        ("default", "first", first, SHARES[0]),
        ("default", "second", second, SHARES[1]),
    }
    assert is_free(nodes, "node-a.gpu-0000-11-00-0")
    nodes.api.delete(RESOURCE_CLAIMS, "first", namespace="default")
    shows(nodes, "shared", core=50, memory="40960Mi")
    patch = {"status": {"allocation": None}}
    nodes.api.merge_patch(RESOURCE_CLAIMS, "second", patch, namespace="default", subresource="status")
    shows(nodes, None)
    assert is_free(nodes)
    assert not controller.logged("level=(warning|error)|traceback")


def test_a_device_shows_the_isolation_that_the_plugin_reports(nodes: Nodes, start: Callable[[], Controller]) -> None:
    start()
    allocate(nodes, "told", share(0, 30, "20Gi"))
    assert "isolation" not in shows(nodes, "shared", core=30, memory="20480Mi")["allocations"][0]
    isolation = {"state": "enforced", "by": "MPS", "version": "580.95.05"}
    data = {"apiVersion": "rootport.dev/v1alpha1", "kind": "PreparedDevice", "gpu": GPU, "mode": "shared"}
    entry = {"driver": "rootport.dev", "pool": "node-a", "device": GPU, "shareID": SHARES[0]}
    body = {
        "metadata": {"name": "told", "namespace": "default"},
        "status": {"devices": [entry | {"data": data | {"isolation": isolation}}]},
    }
    nodes.api.apply(RESOURCE_CLAIMS, body, field_manager="test-plugin", subresource="status")
    eventually("the isolation", lambda: status(nodes)["allocations"][0].get("isolation") == isolation)


def test_a_restart_writes_what_changed_meanwhile_and_nothing_else(
    nodes: Nodes, start: Callable[[], Controller]
) -> None:
    first = start()
    allocate(nodes, "stays", share(0, 30, "20Gi"))
    allocate(nodes, "goes", {"pool": "node-a", "device": "rdma-0000-20-00-0"})
    shows(nodes, "shared", core=30, memory="20480Mi")
    eventually("the NIC's claim", lambda: status(nodes, "node-a.rdma-0000-20-00-0").get("mode") == "whole")
    eventually("the condition", lambda: nodes.published("node-a").get("status") == "True")
    assert first.stop() == 0
    before = nodes.versions()
    nodes.api.delete(RESOURCE_CLAIMS, "goes", namespace="default")
    start()
    eventually("the NIC is free", lambda: is_free(nodes, "node-a.rdma-0000-20-00-0"))
    after = nodes.versions()
    assert [key for key in after if after[key] != before[key]] == ["devices/node-a.rdma-0000-20-00-0"]


def test_somebody_elses_change_of_a_status_is_undone(nodes: Nodes, start: Callable[[], Controller]) -> None:
    start()
    allocate(nodes, "whole", share(0, 100, "80Gi"))
    wanted = shows(nodes, "whole", core=100, memory="81920Mi")
    nodes.api.merge_patch(DEVICES, NAME, {"status": {"mode": "mig", "allocations": None}}, subresource="status")
    eventually("the former status", lambda: status(nodes) == wanted)


def test_claims_of_other_drivers_and_of_other_nodes_change_nothing(
    nodes: Nodes, start: Callable[[], Controller]
) -> None:
    start()
    eventually("device objects", lambda: written(nodes))
    eventually("the condition", lambda: nodes.published("node-a").get("status") == "True")
    before = nodes.versions()
    allocate(nodes, "theirs", share(0, 30, "20Gi") | {"driver": "example.com"})
    allocate(nodes, "elsewhere", share(0, 30, "20Gi") | {"pool": "node-b"})
    allocate(nodes, "unknown", share(0, 30, "20Gi") | {"device": "gpu-0000-99-00-0"})
    # What is written after all of these shows that they have been seen.
    allocate(nodes, "ours", {"pool": "node-a", "device": "rdma-0000-20-00-0"})
    eventually("our claim", lambda: status(nodes, "node-a.rdma-0000-20-00-0").get("mode") == "whole")
    after = nodes.versions()
    assert [key for key in after if after[key] != before[key]] == ["devices/node-a.rdma-0000-20-00-0"]


def test_kubectl_shows_it(nodes: Nodes, installed: ControlPlane, start: Callable[[], Controller]) -> None:
    start()
    allocate(nodes, "shown", share(0, 30, "20Gi"))
    shows(nodes, "shared", core=30, memory="20480Mi")
    head, row = installed.kubectl("get", "devices.rootport.dev", NAME).splitlines()
    assert head.split() == ["NAME", "MODEL", "STATE", "MODE", "CORE%", "USED", "FREE"]
    assert row.split()[-5:] == ["Unknown", "shared", "30", "20480Mi", "61440Mi"]
    assert (
        json.loads(installed.kubectl("get", "devices.rootport.dev", NAME, "--output=json"))["spec"]["memory"]
        == "81920Mi"
    )
