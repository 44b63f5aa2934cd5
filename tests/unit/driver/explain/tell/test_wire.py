"""An explanation as JSON: what programs build on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from driver.explain.explanation import ChangeKind, Step
from driver.explain.reasons import Reason
from driver.explain.tell.wire import to_wire
from tests.support.paths import REPO
from tests.unit.driver.explain.sample_explanations import SAMPLES

DOCS = REPO / "docs" / "user"


def test_the_whole_answer() -> None:
    wire = to_wire(SAMPLES["devices in use"])
    assert (wire["apiVersion"], wire["kind"]) == ("rootport.dev/v1alpha1", "Explanation")
    assert wire["subject"] == {"kind": "Pod", "namespace": "ml", "name": "train-0"}
    assert wire["claims"] == [{"kind": "ResourceClaim", "namespace": "ml", "name": "train", "uid": "4f1c"}]
    assert (wire["fits"], wire["reason"], wire["nodes"]) == (
        False,
        "DevicesInUse",
        {"total": 3, "fitting": 0, "unknown": 0},
    )
    assert wire["requests"][0]["steps"][2] == {
        "step": "inUse",
        "left": 3,
        "best": 2,
        "bestNode": "gpu-2",
        "details": [
            "claim batch/sweep-7 (pod sweep-7-0) has 6 on gpu-2",
            "claim ml/eval (pod eval-0) has 7 on gpu-1",
            "claim ml/notebook has 1 on gpu-1",
        ],
    }
    assert wire["nodeGroups"][1] == {
        "reason": "NodeUnschedulable",
        "count": 1,
        "examples": ["gpu-3"],
        "message": "the node is cordoned",
    }
    end, change = wire["proposals"]
    assert end["pods"] == [{"kind": "Pod", "namespace": "batch", "name": "sweep-7-0"}]
    assert end["commands"] == ["kubectl delete pod --namespace batch sweep-7-0"]
    assert change["kind"] == "ChangeClaim"
    assert change["patches"][0]["operations"] == [
        {"op": "replace", "path": "/spec/devices/requests/0/exactly/count", "value": 2}
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_it_is_json_whose_lists_are_always_there(name: str) -> None:
    wire = to_wire(SAMPLES[name])
    assert json.loads(json.dumps(wire)) == wire
    assert {"claims", "findings", "requests", "nodeGroups", "proposals", "notes"} <= wire.keys()
    assert "" not in _leaves(wire)
    assert None not in _leaves(wire)


def test_every_field_is_documented() -> None:
    fields = {field for sample in SAMPLES.values() for field in _fields(to_wire(sample))}
    page = (DOCS / "explain.md").read_text()
    named = set(re.findall(r"`([A-Za-z]+)`", page))
    assert fields - named - {"op", "path", "value"} == set()  # a JSON Patch has its own standard


def test_every_code_is_documented() -> None:
    page = (DOCS / "explain.md").read_text()
    missing = [code.value for codes in (Step, ChangeKind) for code in codes if f"`{code.value}`" not in page]
    assert missing == []


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.value)
def test_every_reason_is_documented_once_and_says_what_to_do(reason: Reason) -> None:
    page = (DOCS / "reasons.md").read_text()
    sections = re.findall(rf"^### {re.escape(reason.value)}\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert len(sections) == 1
    (section,) = sections
    assert "**To do:** " in section.replace("\n", " ")  # a line may end there
    assert len(section.split()) > 15


def test_no_reason_is_documented_that_there_is_not() -> None:
    page = (DOCS / "reasons.md").read_text()
    assert set(re.findall(r"^### (\S+)$", page, re.MULTILINE)) == {reason.value for reason in Reason}


def _fields(value: Any) -> set[str]:
    match value:
        case dict():
            return set(value) | {field for part in value.values() for field in _fields(part)}
        case list():
            return {field for part in value for field in _fields(part)}
    return set()


def _leaves(value: Any) -> list[Any]:
    match value:
        case dict():
            return [leaf for part in value.values() for leaf in _leaves(part)]
        case list():
            return [leaf for part in value for leaf in _leaves(part)]
    return [value]
