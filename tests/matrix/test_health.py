"""Devices that are broken, and what keeps them from being given."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import PODS
from tests.matrix.rig import Rig, Row
from tests.support.cluster.binaries import KUBERNETES_MINOR
from tests.support.cluster.control_plane import TAINT_RULES
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import gpu_claim, pod, template
from tests.support.cluster.processes import wait_until

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

GPU = 3
RULES_GATE = "DRADeviceTaints" if KUBERNETES_MINOR < 35 else "DRADeviceTaintRules"
CONTAINED = 94  # "Contained ECC error": no new claim gets the GPU
FATAL = 79  # "GPU has fallen off the bus": its pods are evicted
RESET, REBOOT = 4, 2  # nvmlDeviceGetFieldValues, recovery action: drain and reset, reboot


def test_unhealthy_device_is_not_given(rig: Rig, row: Row) -> None:
    """A device with a fault is given to no new claim (taint)"""
    with rig.faulty(GPU, CONTAINED, recovery_action=RESET):
        # kube-scheduler sees the taint a moment after it is stored, which follows the fault in the Device.
        with suppress(TimeoutError):
            wait_until("the taint", lambda: rig.is_tainted(rig.gpu_name(GPU)), timeout_s=15)
        time.sleep(2)
        rig.start(gpu_claim("new", rig.host.gpus[GPU]), pod("new", claim="new"))
        if rig.waits("new"):
            row.works()
        else:
            row.degraded("DRADeviceTaints")


def test_pods_of_a_lost_device_are_evicted(rig: Rig, row: Row) -> None:
    """The pods of a GPU that is lost are evicted (taint NoExecute)"""
    rig.start(gpu_claim("lost", rig.host.gpus[GPU]), pod("lost", claim="lost"))
    assert rig.runs("lost")
    with rig.faulty(GPU, FATAL, recovery_action=REBOOT):
        try:
            wait_until("the pod is evicted", lambda: rig.states("lost")["lost"] in ("Gone", "Failed"), timeout_s=25)
        except TimeoutError:
            row.degraded("DRADeviceTaints")
        else:
            row.works()


def test_health_in_pod_status(rig: Rig, row: Row) -> None:
    """A device's health in the status of its pods (`allocatedResourcesStatus`)"""
    # Before 1.36 the kubelet finds only claims that are made from templates (UpdateAllocatedResourcesStatus in
    # pkg/kubelet/cm/dra/manager.go of k8s.io/kubernetes v1.35.4 looks into the pod's resourceClaimStatuses alone).
    made = template("sick") | {"spec": {"spec": gpu_claim("sick", rig.host.gpus[GPU])["spec"]}}
    rig.start(made, pod("sick", template="sick"))
    assert rig.runs("sick")
    with rig.faulty(GPU, CONTAINED, recovery_action=RESET):
        try:
            wait_until("the pod's status", lambda: {"Unhealthy"} == health(rig, "sick", "health"), timeout_s=25)
        except TimeoutError:
            assert health(rig, "sick", "health") == set()
            row.degraded("ResourceHealthStatus")
        else:
            (service,) = [name for name in ("v1", "v1alpha1") if f" {name}.DRAResourceHealth" in watched(rig)]
            message = health(rig, "sick", "message")
            row.works(
                f"by the kubelet's service {service}; {'with' if any(message) else 'without'} the fault's message"
            )


def health(rig: Rig, name: str, field: str) -> set[Any]:
    """A field of what the kubelet says in the pod's status of the resources that its containers have."""
    found = {item["metadata"]["name"]: item for item in rig.cluster.list(PODS)}[name]
    return {
        resource.get(field)
        for container in found["status"].get("containerStatuses", [])
        for status in container.get("allocatedResourcesStatus", [])
        for resource in status["resources"]
    }


def watched(rig: Rig) -> str:
    """What the node says about the kubelet's interest in the devices' health."""
    message: str = rig.conditions()["HealthWatched"]["message"]
    return message


def test_taint_rule(rig: Rig, row: Row) -> None:
    """An administrator's DeviceTaintRule keeps a device from being given, and explanations name it"""
    rule = {
        "apiVersion": TAINT_RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "repair"},
        "spec": {
            "deviceSelector": {"driver": "rootport.dev", "pool": NODE_NAME, "device": rig.gpu_name(GPU)},
            "taint": {"key": "example.com/repair", "value": "now", "effect": "NoSchedule"},
        },
    }
    try:
        rig.start(rule)
    except RuntimeError as error:
        row.absent(str(error).partition("error: ")[2], by="kubectl apply", gate=RULES_GATE)
        return
    try:
        rig.start(gpu_claim("kept", rig.host.gpus[GPU]), pod("kept", claim="kept"))
        assert rig.waits("kept")
        wait_until("an Event names it", lambda: "example.com/repair" in rig.events("kept"), timeout_s=60)
    finally:
        rig.kubectl("delete", "devicetaintrule", "repair")
    row.works()
