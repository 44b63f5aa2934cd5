"""What a claim, or a pod without one, can ask for, and what it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.matrix.rig import LOOK, Rig, Row
from tests.support.cluster.driver import MANIFESTS
from tests.support.cluster.pods import claim, gpu_claim, pod
from tests.support.cluster.processes import wait_until
from tests.support.scraped import Scraped

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]


def test_prioritized_list(rig: Rig, row: Row) -> None:
    """Alternatives in a request (`firstAvailable`)"""
    wanted = claim("either")
    impossible = [{"cel": {"expression": 'device.attributes["rootport.dev"].model == "none"'}}]
    wanted["spec"]["devices"]["requests"] = [
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": "best", "deviceClassName": "gpu.rootport.dev", "selectors": impossible},
                {"name": "two", "deviceClassName": "gpu.rootport.dev", "count": 2},
            ],
        }
    ]
    rig.start(wanted, pod("either", claim="either", command=LOOK))
    assert rig.runs("either")
    assert len(rig.gpus_seen("either")) == 2
    row.works()


@pytest.fixture
def extended_classes(rig: Rig) -> Iterator[None]:
    file = MANIFESTS / "components/extended-resources/gpus.yaml"
    rig.rootport.apply(file)
    yield
    rig.rootport.delete_all()
    rig.rootport.delete(file)


@pytest.mark.usefixtures("extended_classes")
def test_extended_resource(rig: Rig, row: Row) -> None:
    """A pod without a claim that asks for `nvidia.com/gpu` (extended resources)"""
    asking = pod("unchanged", claim="none", command=LOOK)
    del asking["spec"]["resourceClaims"]
    asking["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    rig.start(asking)
    if rig.runs("unchanged", patience_s=20):
        assert len(rig.gpus_seen("unchanged")) == 2
        row.works()
    else:
        row.degraded("DRAExtendedResource")


@pytest.fixture
def admins(rig: Rig) -> Iterator[None]:
    rig.kubectl("label", "namespace", "default", "resource.kubernetes.io/admin-access=true")
    yield
    rig.rootport.delete_all()
    rig.kubectl("label", "namespace", "default", "resource.kubernetes.io/admin-access-")


def for_admins(wanted: dict[str, Any]) -> dict[str, Any]:
    wanted["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    return wanted


@pytest.mark.usefixtures("admins")
def test_admin_access(rig: Rig, row: Row) -> None:
    """Admin access to an FPGA in use (`adminAccess`)"""
    user, watching = fpga_claim("user"), for_admins(fpga_claim("watching"))
    rig.start(user, pod("user", claim="user"))
    assert rig.runs("user")
    rig.start(watching, pod("watching", claim="watching", command=LOOK))
    assert rig.runs("watching")
    assert "\ndfl-port.0\n" in rig.log("watching")
    row.works()


def fpga_claim(name: str) -> dict[str, Any]:
    wanted = claim(name)
    wanted["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "fpga.rootport.dev"
    return wanted


@pytest.mark.usefixtures("admins")
def test_admin_access_to_gpu(rig: Rig, row: Row) -> None:
    """Admin access to a GPU that another claim has whole"""
    rig.start(gpu_claim("user", rig.host.gpus[1]), pod("user", claim="user"))
    assert rig.runs("user")
    rig.start(for_admins(gpu_claim("watching", rig.host.gpus[1])), pod("watching", claim="watching", command=LOOK))
    if rig.runs("watching", patience_s=15):
        assert rig.gpus_seen("watching") == {1}
        row.works()
        return
    # kube-scheduler counts the capacity that a claim for administrators takes of a device that can be shared
    # (v1.37.2, structured/internal/incubating/allocator_incubating.go, allocateDevice).
    wait_until("an Event says why", lambda: "in use" in rig.events("watching"), timeout_s=60)
    row.absent(rig.explained("watching"), by="an Event of Rootport")


def test_device_status(rig: Rig, row: Row) -> None:
    """What was prepared, and whether limits hold, in the claim's `status.devices`"""
    rig.start(gpu_claim("whole", rig.host.gpus[1]), pod("whole", claim="whole"))
    assert rig.runs("whole")
    wait_until("the claim's status", lambda: bool(rig.claim("whole")["status"].get("devices")), timeout_s=30)
    (device,) = rig.claim("whole")["status"]["devices"]
    assert device["data"]["isolation"]["state"] == "enforced"
    row.works()


def test_device_metadata(rig: Rig, row: Row) -> None:
    """A file with the devices' attributes in the container (KEP-5304)"""
    rig.start(
        gpu_claim("told", rig.host.gpus[1]),
        pod("told", claim="told", command=f"cat $(find /var/run/kubernetes.io -name '*.json'); {LOOK}"),
    )
    assert rig.runs("told")
    found, _ = json.JSONDecoder().raw_decode(rig.log("told").lstrip())
    assert found["kind"] == "DeviceMetadata"
    (device,) = found["requests"][0]["devices"]
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": rig.host.gpus[1]}
    row.works()


def test_pending_is_explained(rig: Rig, row: Row) -> None:
    """A pending pod is explained, by an Event"""
    for name in ("first", "second"):
        rig.start(gpu_claim(name, rig.host.gpus[1]), pod(name, claim=name))
        wait_until(f"{name} has been tried", lambda name=name: rig.states(name)[name] != "Pending", timeout_s=30)
    wait_until("an Event says why", lambda: "in use by" in rig.events("second"), timeout_s=60)
    row.works()


def test_share_metrics(rig: Rig, row: Row) -> None:
    """The plugin's metrics name the pod and container that have a device"""
    rig.start(gpu_claim("whole", rig.host.gpus[1]), pod("whole", claim="whole"))
    assert rig.runs("whole")

    def holders() -> list[tuple[str, str]]:
        found = Scraped(rig.plugin_metrics()).of("rootport_share_info")
        return [(labels["pod"], labels["container"]) for labels, _ in found]

    wait_until("the kubelet's word", lambda: holders() == [("whole", "main")], timeout_s=30, step_s=1)
    row.works()


def a_mistake() -> dict[str, Any]:
    wanted = gpu_claim("mistake", "0000:13:00.0", parameters={"kind": "GpuConfig", "wrong": 1})
    wanted["metadata"]["namespace"] = "default"
    return wanted


def test_mistakes_are_refused(rig: Rig, row: Row) -> None:
    """Mistakes in a claim's parameters are refused when it is created (ValidatingAdmissionPolicy)"""
    said = rig.kubectl("create", "--filename=-", input=yaml.safe_dump(a_mistake()), check=False)
    assert "rootport-claim-parameters" in said
    assert "wrong" in said
    row.works()
