"""Rootport's answers are those of Kubernetes' own code (tests/data/cel, made by tests/oracle/cel)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.api.resource_v1 import Device
from driver.cel import CelCompileError, CelEvaluationError, compile_selector
from driver.cel.device import device_value
from driver.cel.evaluator import SelectorEvaluator
from driver.cel.meter import Meter
from tests.support.paths import REPO

DATA = REPO / "tests" / "data" / "cel"
LIMIT = 1_000_000

# Valid for Kubernetes, refused by Rootport so far; each with a message that says so.
UNSUPPORTED = {
    "first-037": "'format'",
    "language-158": "'url'",
    "language-159": "'isURL'",
    "language-160": "'format.dns1123Label'",
    "library-003": "keys of type list",
    "syntax-088": "messages",
}
# Go iterates maps in random order, so these cost now this, now that.
COST_BY_CHANCE = {"language-104", "language-168", "more-080", "more-081", "more-101"}


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


DEVICES = {
    name: (entry["driver"], Device.model_validate(entry["device"]))
    for name, entry in json.loads((DATA / "devices.json").read_text(encoding="utf-8")).items()
}
CASES = list(zip(load("cases.jsonl"), load("expected.jsonl"), strict=True))


@pytest.mark.parametrize(("case", "expected"), [pytest.param(*pair, id=pair[0]["id"]) for pair in CASES])
def test_agrees_with_kubernetes(case: dict[str, Any], expected: dict[str, Any]) -> None:
    assert case["id"] == expected["id"]
    driver, device = DEVICES[case["device"]]
    lists = case.get("lists", False)
    unsupported = UNSUPPORTED.get(case["id"])
    if unsupported:
        assert expected["verdict"] in ("true", "false")
        with pytest.raises(CelCompileError, match="not supported by Rootport yet") as refused:
            compile_selector(case["expression"], stored=lists)
        assert unsupported in str(refused.value)
        return
    if expected["verdict"] == "compile-error":
        with pytest.raises(CelCompileError):
            compile_selector(case["expression"], stored=lists)
        return
    selector = compile_selector(case["expression"], stored=lists)
    try:
        verdict = str(selector.matches(driver, device)).lower()
    except CelEvaluationError:
        verdict = "evaluation-error"
    assert verdict == expected["verdict"]
    assert str(selector.cost) == expected["estimate"].replace("max", str(2**64 - 1))
    if verdict != "evaluation-error" and case["id"] not in COST_BY_CHANCE:
        meter = Meter(LIMIT)
        SelectorEvaluator(selector._tree, device_value(driver, device), meter).run()
        assert meter.cost == expected["cost"]


def test_the_table_holds_every_verdict() -> None:
    verdicts = [expected["verdict"] for _, expected in CASES]
    assert all(verdicts.count(verdict) > 150 for verdict in ("true", "false", "compile-error", "evaluation-error"))
