"""Pods on a managed node that is real: the controller allocates, kube-scheduler binds, kubelet prepares, they run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from driver.model.managed_nodes import ANNOTATION, ENABLED, GATE, LABEL, MANAGED, TAINT
from tests.support.cluster.driver import install, kustomized
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import manifest, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.needed_tools import require_kubernetes

QUICK: Final = "tests.support.quick_controller"


def restart(rootport: RunningRootport, *options: str, module: str = "controller") -> None:
    assert rootport.controller is not None
    rootport.controller.stop()
    rootport.start_controller(*options, module=module)
    rootport.wait_until_controller_is_ready()


@pytest.fixture
def placing(rootport: RunningRootport) -> Iterator[RunningRootport]:
    """With the component, and the node managed; at the end all is as it was."""
    require_kubernetes(36, "MutatingAdmissionPolicy, which the component has, is v1 since then")
    plane, kubectl = rootport.cluster.control_plane, rootport.cluster.kubectl
    install(plane, "placement")
    kubectl("label", "namespace", "default", f"{LABEL}={ENABLED}")
    kubectl("label", "node", NODE_NAME, f"{LABEL}={MANAGED}")
    restart(rootport, "--placement=pack", module=QUICK)
    wait_until("the devices are tainted", lambda: rootport.all_have_taint(TAINT), timeout_s=60)
    yield rootport
    rootport.delete_all()
    kubectl("label", "node", NODE_NAME, f"{LABEL}-")
    kubectl("label", "namespace", "default", f"{LABEL}-")
    restart(rootport)
    wait_until("the taint is gone", lambda: not rootport.all_have_taint(TAINT), timeout_s=60)
    names = {item["metadata"]["name"] for item in documents(kustomized(plane))}
    for item in documents(kustomized(plane, "placement")):
        if item["metadata"]["name"] not in names:
            kubectl("delete", item["kind"], item["metadata"]["name"])
    install(plane)


def documents(text: str) -> list[dict[str, Any]]:
    import yaml  # noqa: PLC0415

    return [item for item in yaml.safe_load_all(text) if item]


def phase(rootport: RunningRootport, name: str) -> str:
    found: str = rootport.cluster.get("pod", name)["status"]["phase"]
    return found


def claims(rootport: RunningRootport) -> list[dict[str, Any]]:
    return rootport.cluster.list(RESOURCE_CLAIMS)


def test_pods_of_templates_run_wait_and_take_turns(placing: RunningRootport) -> None:
    apply = placing.cluster.kubectl
    apply("apply", "--filename=-", input=manifest(template("all", gpu=8), pod("first", template="all")))
    wait_until("the first runs", lambda: phase(placing, "first") == "Running", timeout_s=60)
    (claim,) = claims(placing)
    told = json.loads(claim["metadata"]["annotations"][ANNOTATION])
    assert told["node"] == NODE_NAME
    assert len(told["devices"]) == 8
    assert claim["status"]["allocation"]["allocationTimestamp"]
    apply("apply", "--filename=-", input=manifest(pod("second", template="all")))
    wait_until("the second has a claim", lambda: len(claims(placing)) == 2, timeout_s=30)
    assert [gate["name"] for gate in placing.cluster.get("pod", "second")["spec"]["schedulingGates"]] == [GATE]
    apply("delete", "pod", "first")
    wait_until("the second runs", lambda: phase(placing, "second") == "Running", timeout_s=60)


def test_a_pod_and_a_nic_run_over_a_restart_and_after_it_is_turned_off(placing: RunningRootport) -> None:
    apply = placing.cluster.kubectl
    apply("apply", "--filename=-", input=manifest(template("pair", gpu=1, nic=1), pod("stays", template="pair")))
    wait_until("it runs", lambda: phase(placing, "stays") == "Running", timeout_s=60)
    restart(placing, "--placement=pack", module=QUICK)
    apply("apply", "--filename=-", input=manifest(pod("more", template="pair")))
    wait_until("the next one runs", lambda: phase(placing, "more") == "Running", timeout_s=60)
    apply("label", "node", NODE_NAME, f"{LABEL}-")
    wait_until("the taint is gone", lambda: not placing.all_have_taint(TAINT), timeout_s=60)
    apply("apply", "--filename=-", input=manifest(pod("scheduled", template="pair")))
    wait_until("the scheduler's runs", lambda: phase(placing, "scheduled") == "Running", timeout_s=60)
    assert {phase(placing, name) for name in ("stays", "more")} == {"Running"}
    devices = [
        (item["pool"], item["device"])
        for claim in claims(placing)
        for item in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(devices) == len(set(devices)) == 6
    apply("label", "node", NODE_NAME, f"{LABEL}={MANAGED}")  # as the fixture has it
