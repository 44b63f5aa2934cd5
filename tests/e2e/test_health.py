"""A GPU fails and recovers on the real node, and everything that shows devices says so: slices, pods, objects, page."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from driver.adapters.kubernetes.resources import DEVICES, PODS, RESOURCE_SLICES
from tests.support.chromium import chromium
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import gpu_claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import CONTROLLER_HEALTH_PORT, HTTPS_PORT, PLUGIN_HEALTH_PORT, RunningRootport

GPU: Final = 2
DEVICE: Final = "gpu-0000-33-00-0"
OBJECT: Final = f"{NODE_NAME}.{DEVICE}"
ADDRESS: Final = "0000:33:00.0"
CONTAINED: Final = 94  # "Contained ECC error": the driver asks for a reset, and what runs may end by itself
FATAL: Final = 79  # "GPU has fallen off the bus"


def device(rootport: RunningRootport) -> dict[str, Any]:
    (found,) = [item for item in rootport.cluster.list(DEVICES) if item["metadata"]["name"] == OBJECT]
    return found


def condition(rootport: RunningRootport, kind: str = "Healthy") -> tuple[str, str]:
    """Status and reason."""
    found = {item["type"]: item for item in device(rootport)["status"].get("conditions", [])}.get(kind, {})
    return found.get("status", ""), found.get("reason", "")


def taints(rootport: RunningRootport) -> dict[str, tuple[str, str]]:
    """Value and effect of Rootport's health taint, by device."""
    return {
        item["name"]: (taint["value"], taint["effect"])
        for part in rootport.cluster.list(RESOURCE_SLICES, field_selector="spec.driver=rootport.dev")
        for item in part["spec"].get("devices", [])
        for taint in item.get("taints", [])
        if taint["key"] == "rootport.dev/unhealthy"
    }


def pod_health(rootport: RunningRootport, name: str) -> set[str]:
    """What the kubelet says in the pod's status of the resources that its containers have."""
    found = {item["metadata"]["name"]: item for item in rootport.cluster.list(PODS)}[name]
    return {
        resource["health"]
        for container in found["status"].get("containerStatuses", [])
        for status in container.get("allocatedResourcesStatus", [])
        for resource in status["resources"]
    }


def scraped(rootport: RunningRootport, port: int) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{rootport.cluster.machine.address}:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def asked(rootport: RunningRootport, path: str, token: str) -> tuple[int, Any]:
    """Status and answer of the controller's HTTPS server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(rootport.cluster.machine.address, HTTPS_PORT, context=context, timeout=10)
    with closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
    return answer.status, json.loads(body) if answer.status == 200 else body.decode()


def rootport_says(rootport: RunningRootport, *argv: str) -> str:
    program = Path(sys.executable).with_name("rootport")
    kubeconfig = f"--kubeconfig={rootport.cluster.control_plane.kubeconfig}"
    done = subprocess.run(
        [program, *argv, kubeconfig], capture_output=True, text=True, check=False, timeout=60, env={"COLUMNS": "100"}
    )
    return done.stdout + done.stderr


@pytest.fixture
def viewer(rootport: RunningRootport) -> Iterator[str]:
    """The token of somebody who may see everything and change nothing."""
    kubectl = rootport.cluster.kubectl
    kubectl("create", "serviceaccount", "viewer")
    kubectl(
        "create", "clusterrolebinding", "viewer", "--clusterrole=rootport-viewer", "--serviceaccount=default:viewer"
    )
    yield kubectl("create", "token", "viewer").strip()
    kubectl("delete", "clusterrolebinding/viewer", "serviceaccount/viewer")


@pytest.fixture
def well_again(rootport: RunningRootport) -> Iterator[None]:
    yield
    rootport.host.set_live(GPU, recovery_action=0)
    wait_until("the GPU is healthy again", lambda: condition(rootport)[0] == "True", timeout_s=90)


@pytest.fixture
def page(rootport: RunningRootport, viewer: str) -> Iterator[Page]:
    """The dashboard in Chromium, signed in."""
    with chromium() as browser:
        made = browser.new_page(ignore_https_errors=True, viewport={"width": 1280, "height": 800})
        made.goto(f"https://{rootport.cluster.machine.address}:{HTTPS_PORT}/")
        made.get_by_label("Token").fill(viewer)
        made.get_by_role("button", name="Show devices").click()
        yield made


@pytest.mark.usefixtures("well_again")
def test_an_xid_is_seen_everywhere_and_recovery_undoes_all(
    rootport: RunningRootport, page: Page, viewer: str, lint_metrics: Callable[[str], str]
) -> None:
    kubectl, cell = rootport.cluster.kubectl, f'.tile[data-node="{NODE_NAME}"] .cell[data-device="{DEVICE}"]'
    claim = gpu_claim("training", ADDRESS, core="60", memory="10Gi")
    kubectl("apply", "--filename=-", input=manifest(claim, pod("training", claim="training")))
    rootport.cluster.wait_for_pod("training", "Running")
    wait_until("the Device names the pod", lambda: holders(rootport) == [("training", ("main",))], timeout_s=30)
    expect(page.locator(cell)).to_have_attribute("data-kind", "partly", timeout=30_000)

    rootport.host.set_live(GPU, recovery_action=4)
    rootport.host.inject_xid(GPU, CONTAINED)

    wait_until("the slices have the taint", lambda: DEVICE in taints(rootport), timeout_s=30)
    kubectl("wait", "--for=condition=Healthy=false", f"device.rootport.dev/{OBJECT}", "--timeout=30s")
    reason = condition(rootport)[1]
    assert reason == f"Xid{CONTAINED}"
    assert taints(rootport)[DEVICE] == (reason, "NoSchedule")
    assert device(rootport)["status"]["state"] == "Unhealthy"
    wait_until("the pod's status says it", lambda: pod_health(rootport, "training") == {"Unhealthy"}, timeout_s=45)
    expect(page.locator(cell)).to_have_attribute("data-kind", "unhealthy", timeout=30_000)
    kubectl(
        "apply",
        "--filename=-",
        input=manifest(gpu_claim("next", ADDRESS, core="10", memory="1Gi"), pod("next", claim="next")),
    )
    wait_until(
        "explain names it",
        lambda: reason in rootport_says(rootport, "explain", "claim", "default/next"),
        timeout_s=45,
        step_s=1,
    )
    assert "Unhealthy" in rootport_says(rootport, "status", NODE_NAME)
    events = kubectl("get", "events.events.k8s.io", "--all-namespaces", "--output=jsonpath={.items[*].reason}")
    assert "DeviceUnhealthy" in events
    metrics = scraped(rootport, PLUGIN_HEALTH_PORT)
    assert f'reason="{reason}"' in metrics
    assert lint_metrics(metrics) == ""
    assert lint_metrics(scraped(rootport, CONTROLLER_HEALTH_PORT)) == ""
    _, overview = asked(rootport, "/api/v1/nodes", viewer)
    (shown,) = [item for item in overview["nodes"] if item["name"] == NODE_NAME]
    assert {item["name"]: item["state"] for item in shown["devices"]}[DEVICE] == "Unhealthy"

    rootport.host.set_live(GPU, recovery_action=0)

    wait_until("the taint is gone", lambda: not taints(rootport), timeout_s=90)
    kubectl("wait", "--for=condition=Healthy", f"device.rootport.dev/{OBJECT}", "--timeout=30s")
    wait_until("the pod's status says it", lambda: pod_health(rootport, "training") == {"Healthy"}, timeout_s=45)
    rootport.cluster.wait_for_pod("next", "Running")
    expect(page.locator(cell)).to_have_attribute("data-kind", "partly", timeout=30_000)
    assert "rootport_device_fault{" not in scraped(rootport, PLUGIN_HEALTH_PORT)


@pytest.mark.usefixtures("well_again")
def test_a_fault_outlives_the_plugin_and_a_lost_gpu_evicts_its_pods(rootport: RunningRootport) -> None:
    kubectl = rootport.cluster.kubectl
    kubectl("apply", "--filename=-", input=manifest(gpu_claim("lost", ADDRESS), pod("lost", claim="lost")))
    rootport.cluster.wait_for_pod("lost", "Running")

    rootport.host.set_live(GPU, recovery_action=2)
    rootport.host.inject_xid(GPU, FATAL)

    wait_until("the taint evicts", lambda: taints(rootport).get(DEVICE) == (f"Xid{FATAL}", "NoExecute"), timeout_s=30)
    rootport.cluster.wait_for_no_pod("lost", timeout_s=60)
    assert rootport.plugin is not None
    rootport.plugin.kill()
    rootport.start_plugin()
    assert condition(rootport) == ("False", f"Xid{FATAL}")
    assert taints(rootport)[DEVICE] == (f"Xid{FATAL}", "NoExecute")


def holders(rootport: RunningRootport) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (item["name"], tuple(item.get("containers", [])))
        for allocation in device(rootport)["status"].get("allocations", [])
        for item in allocation.get("pods", [])
    ]


def test_koordinators_tools_read_what_they_know(rootport: RunningRootport, viewer: str) -> None:
    kubectl = rootport.cluster.kubectl
    claim = gpu_claim("shared", ADDRESS, core="50", memory="40Gi")
    kubectl("apply", "--filename=-", input=manifest(claim, pod("shared", claim="shared")))
    rootport.cluster.wait_for_pod("shared", "Running")
    path = f"/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/{NODE_NAME}"
    minor = str(GPU)

    wait_until(
        "the pod is in the summary", lambda: "default/shared" in str(asked(rootport, path, viewer)), timeout_s=30
    )
    _, summary = asked(rootport, path, viewer)

    assert set(summary) == {
        "allocateSet",
        "deviceFree",
        "deviceFreeDetail",
        "deviceTotal",
        "deviceTotalDetail",
        "deviceUsed",
        "deviceUsedDetail",
    }
    used = summary["allocateSet"]["gpu"]["default/shared"][minor]
    assert {key.rpartition("/")[2]: value for key, value in used.items()} == {
        "gpu-core": "50",
        "gpu-memory": "40Gi",
        "gpu-memory-ratio": "51",  # of the card's 79.6Gi, rounded up
    }
    assert summary["deviceFreeDetail"]["gpu"][minor].keys() == used.keys()


def test_who_may_not_see_devices_sees_nothing(rootport: RunningRootport) -> None:
    rootport.cluster.kubectl("create", "serviceaccount", "stranger")
    token = rootport.cluster.kubectl("create", "token", "stranger").strip()
    for path in ("/api/v1/nodes", f"/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/{NODE_NAME}"):
        assert asked(rootport, path, token)[0] == 403
        assert asked(rootport, path, "nobody")[0] == 401
