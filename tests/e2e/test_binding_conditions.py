"""Binding conditions (KEP-5007) on the real node: pods are bound to devices that are prepared, and to no others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.resources import EVENTS, NODE_INVENTORIES, RESOURCE_CLAIMS
from tests.support.cluster.interfaces import add_interfaces, remove_interfaces
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import manifest, nic_claim, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import PLUGIN_DIRECTORY, RunningRootport

pytestmark = pytest.mark.since_kubernetes(36, "the gate DRADeviceBindingConditions is off by default")

EARLY: Final = ("--prepare-before-binding=mig", "--prepare-before-binding=rdma-vf")
CREATE: Final = "fail.nvmlDeviceCreateGpuInstanceWithPlacement"
PROFILE: Final = 'device.attributes["rootport.dev"].profile == "1g.10gb"'
IN_POD: Final = "fast0"


def waiting_types(rootport: RunningRootport) -> set[str]:
    """The kinds of the published devices that have binding conditions, by the beginnings of their names."""
    return {
        device["name"].partition("-0000")[0]
        for part in rootport.slices()
        for device in part["spec"].get("devices", ())
        if device.get("bindingConditions")
    }


@pytest.fixture(scope="module", autouse=True)
def early(running: RunningRootport) -> Iterator[None]:
    """The plugin prepares before binding, while the tests of this module run."""
    assert running.plugin is not None
    running.plugin.stop()
    running.start_plugin(options=EARLY)
    wait_until("the devices wait", lambda: waiting_types(running) == {"mig", "rdma-vfs"})
    yield
    running.delete_all()
    running.wait_until_clean()
    assert running.plugin is not None
    running.plugin.stop()
    running.start_plugin()
    wait_until("no device waits", lambda: not waiting_types(running))


def start(rootport: RunningRootport, *objects: dict[str, Any]) -> None:
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))


def partition() -> dict[str, Any]:
    """A template of claims for a partition of any GPU."""
    made = template("part")
    exactly = {"deviceClassName": "mig.rootport.dev", "selectors": [{"cel": {"expression": PROFILE}}]}
    made["spec"]["spec"]["devices"]["requests"][0]["exactly"] = exactly
    return made


def only_claim(rootport: RunningRootport) -> dict[str, Any]:
    (claim,) = rootport.cluster.list(RESOURCE_CLAIMS)
    return claim


def conditions(rootport: RunningRootport) -> dict[str, dict[str, str]]:
    """The conditions of the only claim's devices, by type."""
    claims = rootport.cluster.list(RESOURCE_CLAIMS)
    devices = [device for claim in claims for device in claim.get("status", {}).get("devices", ())]
    return {item["type"]: item for device in devices for item in device.get("conditions", ())}


def bound_at(rootport: RunningRootport, name: str) -> str:
    """When a pod was bound, to the second."""
    found = rootport.cluster.get("pod", name)["status"]["conditions"]
    return str(next(item["lastTransitionTime"] for item in found if item["type"] == "PodScheduled"))


def notes(rootport: RunningRootport) -> list[str]:
    """The claims that were prepared and that the kubelet has not asked for."""
    folder = rootport.cluster.machine.path(PLUGIN_DIRECTORY) / "ahead"
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def events(rootport: RunningRootport, name: str) -> str:
    found = rootport.cluster.list(EVENTS, field_selector=f"involvedObject.name={name}")
    return "\n".join(f"{item['reason']}: {item['message']}" for item in found)


def test_a_pod_is_bound_after_its_partition_is_made_and_the_kubelet_takes_that_over(rootport: RunningRootport) -> None:
    start(rootport, partition(), pod("small", template="part"))
    rootport.cluster.wait_for_pod("small", "Running", timeout_s=120)

    prepared = conditions(rootport)["Prepared"]
    assert prepared["status"] == "True"
    assert prepared["lastTransitionTime"] <= bound_at(rootport, "small")
    assert conditions(rootport)["Isolated"]["reason"] == "MIG"
    assert "BindingConditionsPending" in events(rootport, "small")
    assert notes(rootport) == []
    assert list(rootport.checkpoint()) == [only_claim(rootport)["metadata"]["uid"]]


def test_a_partition_that_cannot_be_made_has_the_pod_run_on_another_gpu(rootport: RunningRootport) -> None:
    host, cluster = rootport.host, rootport.cluster

    def faults() -> list[dict[str, str]]:
        found = cluster.list(NODE_INVENTORIES, field_selector=f"metadata.name={NODE_NAME}")[0]["status"]
        return [fault for fault in found.get("faults", ()) if fault["reason"] == "MigDeviceNotCreated"]

    for index in range(len(host.gpus)):
        host.set_live(index, **{CREATE: "NVML_ERROR_UNKNOWN"})
    try:
        start(rootport, partition(), pod("wanders", template="part"))
        wait_until("the node tells the fault", lambda: bool(faults()), timeout_s=120)
        failed = faults()[0]["device"]
        names = [f"gpu-{address.replace(':', '-').replace('.', '-')}" for address in host.gpus]
        for index, name in enumerate(names):
            if name != failed:
                host.set_live(index, **{CREATE: None})
        told = [""]

        def is_told() -> bool:
            told[0] = conditions(rootport).get("PreparationFailed", {}).get("reason", "") or told[0]
            return bool(told[0])

        wait_until("the claim tells it", is_told, timeout_s=60, step_s=0.02)
        assert told[0] == "MigDeviceNotCreated"

        cluster.wait_for_pod("wanders", "Running", timeout_s=120)

        (result,) = only_claim(rootport)["status"]["allocation"]["devices"]["results"]
        assert not result["device"].startswith(failed.replace("gpu-", "mig-"))
        assert "device binding failed" in events(rootport, "wanders")
        assert "FailedPrepareDynamicResources" not in events(rootport, "wanders"), "the kubelet was never asked in vain"
    finally:
        for index in range(len(host.gpus)):
            host.set_live(index, **{CREATE: None})
    cluster.kubectl("delete", "pod/wanders")
    rootport.wait_until_clean()
    wait_until("the fault is over", lambda: not faults(), timeout_s=60)


def test_a_pod_that_the_plugin_is_not_there_for_is_bound_once_it_is(rootport: RunningRootport) -> None:
    assert rootport.plugin is not None
    rootport.plugin.kill()
    start(rootport, partition(), pod("patient", template="part"))
    wait_until("the scheduler waits", lambda: "BindingConditionsPending" in events(rootport, "patient"))
    time.sleep(6)  # it looks every five seconds
    assert "nodeName" not in rootport.cluster.get("pod", "patient")["spec"]

    rootport.start_plugin(options=EARLY)
    rootport.cluster.wait_for_pod("patient", "Running", timeout_s=120)


def test_a_vf_is_ready_for_its_pod_before_that_is_bound(rootport: RunningRootport) -> None:
    nic, machine = rootport.host.vf_nics[0], rootport.cluster.machine
    add_interfaces(machine, nic.interfaces)
    try:
        parameters = {"interface": {"name": IN_POD}}
        show = f"ip link show {IN_POD} && echo SEEN; exec sleep 100000"
        start(
            rootport,
            nic_claim("fast", parent=nic.address, parameters=parameters),
            pod("fast", claim="fast", command=show),
        )
        rootport.cluster.wait_for_pod("fast", "Running", timeout_s=120)
        prepared = conditions(rootport)["Prepared"]
        assert prepared["lastTransitionTime"] <= bound_at(rootport, "fast")
        wait_until("the pod has it", lambda: "SEEN" in rootport.cluster.kubectl("logs", "fast"))
    finally:
        rootport.delete_all()
        rootport.wait_until_clean()
        remove_interfaces(machine, nic.interfaces)
