"""Why a pod hangs, as the people who run it find out: Event, annotations, CLI and HTTP, on the real node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from driver.adapters.kubernetes.resources import EVENTS
from tests.support.cluster.pods import gpu_claim, gpu_class, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport

GPU = "0000:13:00.0"


def explained(rootport: RunningRootport, *argv: str) -> tuple[int, str]:
    """What ``rootport explain`` prints, and its exit code."""
    program = Path(sys.executable).with_name("rootport")
    kubeconfig = f"--kubeconfig={rootport.cluster.control_plane.kubeconfig}"
    done = subprocess.run(
        [program, "explain", *argv, kubeconfig], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def annotations(rootport: RunningRootport, claim: str) -> dict[str, str]:
    found: dict[str, Any] = rootport.cluster.get("resourceclaim", claim)["metadata"].get("annotations", {})
    return {key: value for key, value in found.items() if key.startswith("rootport.dev/")}


def events(rootport: RunningRootport, name: str) -> list[dict[str, Any]]:
    """Rootport's Events on the pod."""
    return [
        item
        for item in rootport.cluster.list(EVENTS)
        if item["involvedObject"]["name"] == name and item.get("reportingComponent", "").startswith("rootport.dev/")
    ]


def test_a_hanging_pod_is_explained_and_the_explanation_goes_when_it_runs(rootport: RunningRootport) -> None:
    apply = rootport.cluster.kubectl
    apply(
        "apply",
        "--filename=-",
        input=manifest(gpu_claim("first", GPU, core="60", memory="10Gi"), pod("first", claim="first")),
    )
    wait_until("first runs", lambda: rootport.cluster.get("pod", "first")["status"]["phase"] == "Running")
    apply(
        "apply",
        "--filename=-",
        input=manifest(gpu_claim("second", GPU, core="50", memory="10Gi"), pod("second", claim="second")),
    )
    wait_until("an Event says why", lambda: bool(events(rootport, "second")), timeout_s=45)
    wait_until("the claim says why", lambda: bool(annotations(rootport, "second")), timeout_s=45)

    (event,) = events(rootport, "second")
    assert event["reason"] == "CapacityInUse"
    assert "first" in event["message"]
    said = annotations(rootport, "second")
    assert said["rootport.dev/pending-reason"] == "CapacityInUse"
    assert "first" in said["rootport.dev/pending-message"]
    code, text = explained(rootport, "claim", "default/second")
    assert code == 1, text
    assert "CapacityInUse" in text
    assert "default/first" in text
    code, document = explained(rootport, "pod", "default/second", "--output=json")
    assert code == 1, document
    proposals = json.loads(document)["proposals"]
    assert {"EndClaims", "ChangeClaim"} <= {item["kind"] for item in proposals}

    rootport.cluster.kubectl("delete", "pod/first", "resourceclaim/first")
    wait_until("second runs", lambda: rootport.cluster.get("pod", "second")["status"]["phase"] == "Running")
    wait_until("the claim says nothing any more", lambda: not annotations(rootport, "second"), timeout_s=45)
    code, text = explained(rootport, "pod", "default/second")
    assert code == 0, text


def test_a_claim_that_the_node_cannot_prepare_is_explained(rootport: RunningRootport) -> None:
    """Neither the scheduler nor admission judges the parameters of an administrator's own DeviceClass."""
    wrong, made = gpu_class("wrong", {"kind": "MigConfig"}), gpu_claim("refused", GPU, core="20", memory="10Gi")
    made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "wrong"
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(wrong, made, pod("refused", claim="refused")))
    wait_until("the pod is placed", lambda: bool(rootport.cluster.get("pod", "refused")["spec"].get("nodeName")))

    def explains_the_failure() -> bool:
        code, text = explained(rootport, "pod", "default/refused")
        return code == 1 and "PrepareFails" in text and "MigConfig" in text

    wait_until("explain says what the plugin says", explains_the_failure, timeout_s=60, step_s=1)
    rootport.cluster.kubectl("delete", "deviceclass", "wrong")
