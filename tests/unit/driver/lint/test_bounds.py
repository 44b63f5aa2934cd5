"""What a run of the linter may take, whatever it is given: no API server has looked at it."""

from __future__ import annotations

import time
import tracemalloc
from itertools import count
from typing import Any, cast

import pytest

from controller.admission.advice import Advisor
from driver.adapters.kubernetes.api import KubernetesApi
from driver.api.pod_templates import PodSpec
from driver.api.resource_v1 import DeviceClass
from driver.budget import Budget
from driver.cel import compile_selector
from driver.lint import KnownClaims, LintCode, lint_claim, lint_class, lint_pod
from tests.unit.driver.lint.test_lint_claim import CLASSES, OWN, claim_of, codes, match, nic, part, request, state_of

ONES = f"[{','.join(['1'] * 95)}]"
LOOPS = f'{ONES}.all(x, {ONES}.all(y, [1, 1, 1, 1, 1, 1, 1, 1].all(z, {OWN}.uuid != "%s")))'
# 3,400 bytes; before evaluations were bounded, 1.1 GB and two seconds.
REPLACED = f'cel.bind(s, "{"a" * 3100}", [{",".join(["1"] * 120)}].map(x, s.replace("", s)).size() < 0)'
CASES = {"text": REPLACED, "loops": LOOPS % "a", "regex": f'"{"a" * 2000}".matches("{"((a?){100}){10}" * 20}")'}


def checks(times: int) -> Budget:
    """A budget that is spent when it was looked at so many times."""
    ticks = count()
    return Budget(times, clock=lambda: next(ticks))


@pytest.mark.parametrize("expression", CASES.values(), ids=CASES)
def test_advice_about_a_dear_selector_costs_next_to_nothing(expression: str) -> None:
    # The clock stands before the classes are due, so the API server is never asked.
    advisor = Advisor(cast("KubernetesApi", None), clock=lambda: -100.0)
    stored = claim_of(request("gpu", "gpu.rootport.dev", expression)).to_wire()
    begin = time.process_time()
    assert advisor(stored) == ()
    assert time.process_time() - begin < 0.5  # measured: 0.03
    stored = claim_of(request("gpu", "gpu.rootport.dev", f"{expression} ")).to_wire()
    tracemalloc.start()
    try:
        assert advisor(stored) == ()
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20  # measured: 0.7 MiB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("wanted", [31, 10**9, 10**15, 2**63 - 1])
def test_a_count_of_any_size_is_looked_at_at_once(wanted: int) -> None:
    # A whole binomial coefficient of these has more digits than there is memory, and no thread runs while it is made.
    claim = claim_of(*(request(name, "gpu.rootport.dev", count=wanted) for name in ("a", "b")))
    begin = time.process_time()
    findings = lint_claim(claim, classes=CLASSES)
    assert time.process_time() - begin < 0.5
    assert findings


def test_what_the_api_server_refuses_is_not_evaluated() -> None:
    expression = f"lists.range(1000).map(x, lists.range(1001)).size() > 0 && {OWN}.nothing == 1"
    findings = lint_claim(claim_of(request("gpu", "gpu.rootport.dev", expression)), classes=CLASSES)
    assert codes(findings) == [("selector-too-costly", "error")]
    assert not compile_selector(expression)._answers


def test_without_time_what_was_found_stands_and_the_rest_is_named() -> None:
    claim = claim_of(request("gpu", "no.such.class"), nic(), constraints=[match("rootport.dev/x")])
    full = lint_claim(claim, classes=CLASSES)
    assert LintCode.NOT_LOOKED_AT not in [finding.code for finding in full]
    with checks(8).in_force():
        cut = lint_claim(claim, classes=CLASSES)
    assert codes(cut)[0] == ("unknown-class", "error")
    assert codes(cut)[-1] == ("not-looked-at", "warning")
    assert len(cut) < len(full) + 1
    with checks(0).in_force():
        assert codes(lint_class(CLASSES["gpu.rootport.dev"])) == [("not-looked-at", "warning")]


def test_a_selector_that_is_stopped_for_a_device_says_nothing_about_the_claim() -> None:
    findings = lint_claim(claim_of(request("gpu", "gpu.rootport.dev", LOOPS % "b")), state=state_of("a"))
    assert codes(findings) == [("not-looked-at", "warning")]
    assert "not known" in findings[0].message


def test_a_class_with_dear_selectors_is_taken_for_all_kinds() -> None:
    wire = CLASSES["gpu.rootport.dev"].to_wire()
    wire["metadata"]["name"] = "dear.example"
    expression = f'device.driver == "rootport.dev" && {ONES}.all(x, {ONES}.all(y, {ONES}.exists(z, x + y + z == 3)))'
    wire["spec"]["selectors"] = [{"cel": {"expression": expression}}]
    dear = DeviceClass.model_validate(wire)
    begin = time.process_time()
    assert lint_claim(claim_of(request("gpu", "dear.example")), classes={"dear.example": dear}) == ()
    assert time.process_time() - begin < 3  # measured: 0.1


def test_the_largest_claim_is_linted_in_bounded_time() -> None:
    requests = [
        {
            "name": f"r{number}",
            "firstAvailable": [
                {"name": f"a{place}", **part("gpu.rootport.dev", *(f"{OWN}.indx == {number * 1000 + place * 50 + index}"
                 for index in range(12)))}
                for place in range(8)
            ],
        }
        for number in range(32)
    ]  # fmt: skip
    constraints = [match(f"rootport.dev/nothing{number}") for number in range(32)]
    begin = time.process_time()
    with Budget(1).in_force():
        findings = lint_claim(claim_of(*requests, constraints=constraints), classes=CLASSES)
    assert time.process_time() - begin < 4  # measured: 1.0; all of it takes 2
    assert codes(findings)[-1] == ("not-looked-at", "warning") or len(findings) == 100


MANY = 4000
NAMES = [{"name": f"claim-{number}"} for number in range(MANY)]
SOURCES = [{**entry, "resourceClaimTemplateName": f"t{entry['name']}x"} for entry in NAMES]
TEMPLATES = {("ResourceClaimTemplate", "default", f"t{entry['name']}"): claim_of(request()) for entry in NAMES}
PODS = {
    "right": {"resourceClaims": SOURCES, "containers": [{"resources": {"claims": NAMES}}]},
    "no-such-claims": {
        "resourceClaims": SOURCES,
        "containers": [{"resources": {"claims": [{"name": f"clam-{number}"} for number in range(MANY)]}}],
    },
    "unused": {"resourceClaims": [{**entry, "resourceClaimTemplateName": "tclaim-1"} for entry in NAMES]},
    "resources": {"containers": [{"resources": {"limits": {f"rdma/r{number}": 1 for number in range(MANY)}}}]},
}


@pytest.mark.parametrize("spec", PODS.values(), ids=PODS)
def test_a_pod_with_very_many_claims_is_linted_in_bounded_time(spec: dict[str, Any]) -> None:
    known = KnownClaims(TEMPLATES, CLASSES)
    begin = time.process_time()
    findings = lint_pod(PodSpec(("spec",), spec), "default", known)
    assert time.process_time() - begin < 3  # measured: 0.5 at most; ten seconds and more when each looked at all others
    assert findings
    assert all(len(finding.message) + len(finding.hint) < 1000 for finding in findings)
    with checks(1).in_force():
        assert codes(lint_pod(PodSpec(("spec",), spec), "default", known))[-1] == ("not-looked-at", "warning")


@pytest.mark.parametrize(
    ("count", "told_of_the_rest", "severity"),
    [(100, "", "error"), (150, "51 more findings", "note"), (1500, "after 1,000 findings the rest", "warning")],
)
def test_findings_that_are_cut_are_counted(count: int, told_of_the_rest: str, severity: str) -> None:
    spec = {"containers": [{"resources": {"claims": [{"name": "gpu"}]}}] * count}
    findings = lint_pod(PodSpec(("spec",), spec), "default", KnownClaims())
    assert len(findings) == 100
    assert findings[-1].severity.value == severity
    assert told_of_the_rest in findings[-1].message
    assert (findings[-1].code is LintCode.NOT_LOOKED_AT) == bool(told_of_the_rest)
