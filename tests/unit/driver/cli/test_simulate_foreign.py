"""`rootport simulate` of pods that ask other systems for devices: it never passes over them in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.foreign_workloads import ASKS, manifest_of, workload
from tests.support.topologies import nccl_file

H100 = nccl_file("azure-nd-h100-v5")
Run = Callable[..., Any]


def pod(**resources: str) -> dict[str, Any]:
    """As the documentation of Koordinator has it: requests without limits."""
    asked = {
        name.replace("_", "/").replace("kubernetes/", "kubernetes.io/"): amount for name, amount in resources.items()
    }
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "40m"} | asked}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


@pytest.fixture
def simulate(rootport: Run, tmp_path: Path) -> Callable[..., Any]:
    def simulate(*objects: dict[str, Any], output: str = "json") -> Any:
        path = tmp_path / "objects.yaml"
        path.write_text(manifest_of(*objects))
        return rootport("simulate", "--topology", H100, "--gpu-model", "H100", "--claims", path, "-o", output)

    return simulate


def test_a_pod_that_asks_koordinator_is_not_passed_over(simulate: Callable[..., Any]) -> None:
    ran = simulate(pod(kubernetes_gpu="100"))
    [told] = json.loads(ran.out)["pods"]
    assert (ran.code, told["node"], told["reason"]) == (1, None, "ExtendedResourceNotEvaluated")
    assert told["message"] == (
        "it asks for kubernetes.io/gpu: 100 of Koordinator, which is not simulated: it is not known whether it fits;"
        " rootport convert writes claims for that"
    )
    assert "rootport convert FILE... | rootport simulate ... --claims -" in ran.err
    table = simulate(pod(kubernetes_gpu="100"), output="table")
    assert "0 of 0 claims allocated, 0 of 1 pod placed, not known of 1 whether it fits\n" in table.out


def test_a_pod_that_does_not_convert_is_told_so(simulate: Callable[..., Any]) -> None:
    odd = {"kubernetes_gpu-core": "150", "kubernetes_gpu-memory-ratio": "150"}
    [told] = json.loads(simulate(pod(**odd)).out)["pods"]
    assert told["message"].endswith("; rootport convert says why it writes no claim for that")


def test_every_pod_of_a_workload_counts(simulate: Callable[..., Any]) -> None:
    ran = simulate(workload(0, "Deployment", "Koordinator"))
    assert [item["reason"] for item in json.loads(ran.out)["pods"]] == ["ExtendedResourceNotEvaluated"] * 3


def test_what_a_class_serves_is_simulated_as_it_was(simulate: Callable[..., Any]) -> None:
    served = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "whole-gpus"},
        "spec": {
            "extendedResourceName": "nvidia.com/gpu",
            "selectors": [{"cel": {"expression": 'device.driver == "rootport.dev"'}}],
        },
    }
    ran = simulate(served, workload(0, "Pod", "NVIDIA"))
    assert (ran.code, len(json.loads(ran.out)["claims"])) == (0, 1), ran.out
    assert "rootport convert" not in ran.err


def test_a_pod_that_has_a_node_has_what_it_asked_for(simulate: Callable[..., Any]) -> None:
    placed = pod(kubernetes_gpu="100")
    placed["spec"]["nodeName"] = "n"
    assert json.loads(simulate(placed).out)["pods"] == []


@pytest.mark.parametrize("ask", [ask for ask in ASKS if "refused" not in ask and ask not in {"MIG", "none"}])
def test_what_convert_prints_is_simulated(rootport: Run, tmp_path: Path, ask: str) -> None:
    path, converted = tmp_path / "all.yaml", tmp_path / "converted.yaml"
    path.write_text(manifest_of(workload(0, "Deployment", ask)))
    converted.write_text(rootport("convert", path).out)
    ran = rootport("simulate", "--topology", H100, "--gpu-model", "H100", "--claims", converted, "-o", "json")
    assert ran.code == 0, ran.out + ran.err
    assert len(json.loads(ran.out)["pods"]) == 3
    linted = rootport("lint", converted)
    assert (linted.code, linted.out) == (0, "")


def test_a_claim_for_another_driver_is_told_how_it_becomes_one_for_rootport(
    simulate: Callable[..., Any], rootport: Run, tmp_path: Path
) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    }
    ran = simulate(claim)
    assert (ran.code, json.loads(ran.out)["claims"][0]["reason"]) == (1, "DeviceClassMissing")
    assert "rootport convert FILE... | rootport simulate ... --claims -" in ran.err
    linted = rootport("lint", tmp_path / "objects.yaml")
    assert "`rootport convert` writes the claim for Rootport; or lint with the file that defines it" in linted.out
