"""What converted pods require of nodes by labels that other systems write."""

from __future__ import annotations

from typing import Any

import pytest

from driver.convert import Outcome
from tests.unit.driver.convert.conversions import converted, fields, pod

GPU = {"nvidia.com/gpu": "1"}


def affinity(*keys: Any) -> dict[str, Any]:
    expressions = [{"key": key, "operator": "In", "values": ["NVIDIA-H100", 5]} for key in keys]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("nvidia.com/gpu.product", "component node-labels"),
        ("node.koordinator.sh/gpu-model", "component node-labels"),
        ("nvidia.com/mig.strategy", "GPU Feature Discovery writes this label and Rootport does not"),
        ("nvidia.com/mig.config", "an administrator, or the GPU Operator, writes this label"),
        ("nvidia.com/mig.config.state", "NVIDIA's MIG manager writes this label"),
        ("nvidia.com/gpu.present", "the GPU Operator writes this label"),
        ("nvidia.com/gpu.deploy.dcgm", "the GPU Operator writes this label"),
        ("amd.com/gpu.device-id", "AMD's node labeller writes this label"),
    ],
)
def test_a_label_of_another_system_is_noted_where_the_pod_requires_it(label: str, words: str) -> None:
    conversion = converted(pod(GPU, nodeSelector={label: "x", "zone": "a"}, affinity=affinity(label, "zone", 7)))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    notes = fields(conversion, Outcome.NOTED)
    assert list(notes) == [f"spec.nodeSelector[{label}]", f"{path}.matchExpressions[0].key"]
    assert all(words in text for text in notes.values())
    assert {finding.dialect for finding in conversion.findings if finding.field in notes} == {""}
    assert conversion.object["spec"]["nodeSelector"] == {label: "x", "zone": "a"}


@pytest.mark.parametrize(
    ("product", "is_of_a_part"),
    [
        ("NVIDIA-H100-80GB-HBM3", False),
        ("NVIDIA-H100-80GB-HBM3-SHARED", True),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", True),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", True),
    ],
)
def test_a_product_of_a_part_of_a_gpu_is_one_that_no_node_will_have(product: str, is_of_a_part: bool) -> None:
    conversion = converted(pod(GPU, nodeSelector={"nvidia.com/gpu.product": product}))
    (text,) = fields(conversion, Outcome.NOTED).values()
    assert ("no node of Rootport has it" in text) is is_of_a_part
    assert ("rootport.dev/model" in text) is is_of_a_part


@pytest.mark.parametrize(
    ("label", "value", "runs"),
    [("gpu", "on", "HAMi's device plugin"), ("qgpu-device-enable", "enable", "TKE's qgpu-manager")],
)
def test_a_label_that_turns_another_system_on_is_noted_with_its_value_alone(label: str, value: str, runs: str) -> None:
    (text,) = fields(converted(pod(GPU, nodeSelector={label: value})), Outcome.NOTED).values()
    assert f"{runs} runs on nodes with this label" in text
    assert not fields(converted(pod(GPU, nodeSelector={label: "a100"})), Outcome.NOTED)


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_nothing_is_said_of_a_label_that_nodes_must_not_have(operator: str) -> None:
    rules = affinity("nvidia.com/gpu.product")
    terms = rules["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms[0]["matchExpressions"][0]["operator"] = operator
    assert not fields(converted(pod(GPU, affinity=rules)), Outcome.NOTED)


def test_nothing_is_said_of_labels_where_no_device_is_asked_for() -> None:
    assert converted(pod({}, nodeSelector={"nvidia.com/gpu.product": "x"})).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": [], "affinity": 3},
        {"nodeSelector": {"nvidia.com/gpu.product": 5}, "affinity": {"nodeAffinity": []}},
        {"affinity": affinity() | {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [1]}}}},
        {"nodeSelector": {f"nvidia.com/{number}": "x" for number in range(5000)}},
    ],
    ids=lambda spec: str(spec)[:40],
)
def test_what_is_no_selector_is_passed_over_and_many_are_bounded(spec: dict[str, Any]) -> None:
    assert len(converted(pod(GPU, **spec)).findings) <= 65
