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
        ("nvidia.com/mig.config", "GPU Feature Discovery writes this label and Rootport does not"),
        ("amd.com/gpu.device-id", "AMD's node labeller writes this label"),
    ],
)
def test_a_label_of_another_system_is_noted_where_the_pod_requires_it(label: str, words: str) -> None:
    conversion = converted(pod(GPU, nodeSelector={label: "x", "zone": "a"}, affinity=affinity(label, "zone", 7)))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    notes = fields(conversion, Outcome.NOTED)
    assert list(notes) == [f"spec.nodeSelector[{label}]", f"{path}.matchExpressions[0].key"]
    assert all(words in text for text in notes.values())
    assert conversion.object["spec"]["nodeSelector"] == {label: "x", "zone": "a"}


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
