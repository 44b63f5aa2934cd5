"""The terms of a selector: where it is split, which term refuses a device, and that this never contradicts it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Device
from driver.cel import CelCompileError, CelEvaluationError, Terms, compile_selector, compile_terms
from tests.support.paths import REPO
from tests.unit.driver.cel.devices import DRIVER, gpu

DATA = REPO / "tests" / "data" / "cel"
DEVICES = {
    name: (entry["driver"], Device.model_validate(entry["device"]))
    for name, entry in json.loads((DATA / "devices.json").read_text(encoding="utf-8")).items()
}
CASES = [json.loads(line) for line in (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


def attribute(name: str) -> str:
    return f'device.attributes["{DRIVER}"].{name}'


A, B, C = attribute("a") + " == 1", attribute("b") + " == 2", attribute("c") + " == 3"


def texts(expression: str) -> list[str]:
    terms = compile_terms(expression).terms
    assert all(expression[term.offset :].startswith(term.text) for term in terms)
    return [term.text for term in terms]


@pytest.mark.parametrize(
    ("expression", "terms"),
    [
        pytest.param(A, [A], id="one"),
        pytest.param(f"{A} && {B}", [A, B], id="two"),
        pytest.param(f"{A}&&\n  {B} // why\n && {C}", [A, B, C], id="lines-and-comments"),
        pytest.param(f"({A} && ({B} && {C}))", [A, B, C], id="nested-parentheses"),
        pytest.param(f"({A}) && (({B}))", [f"({A})", f"(({B}))"], id="parentheses-of-one-term-stay"),
        pytest.param(f"({A} || {B}) && {C}", [f"({A} || {B})", C], id="disjunction-in-parentheses"),
        pytest.param(f"{A} && {B} || {C}", [f"{A} && {B} || {C}"], id="or-binds-weaker"),
        pytest.param(f"{A} && {B} ? true : false", [f"{A} && {B} ? true : false"], id="ternary"),
        pytest.param(f"!({A} && {B})", [f"!({A} && {B})"], id="negation"),
        pytest.param(f"({A}) == ({B} && {C})", [f"({A}) == ({B} && {C})"], id="two-pairs-of-parentheses"),
        pytest.param(
            f"cel.bind(x, 1, x == 1 && true) && {A}", ["cel.bind(x, 1, x == 1 && true)", A], id="bind-stays-whole"
        ),
        pytest.param(
            f"{attribute('?a')}.orValue(1) == 1 && {A}", [f"{attribute('?a')}.orValue(1) == 1", A], id="optional"
        ),
        pytest.param('"&&" == "&&" && true', ['"&&" == "&&"', "true"], id="strings"),
        pytest.param(f"dyn(true) && {A}", [f"dyn(true) && {A}"], id="a-term-that-cannot-stand-alone"),
    ],
)
def test_a_conjunction_is_split_and_nothing_else(expression: str, terms: list[str]) -> None:
    assert texts(expression) == terms


def test_a_term_knows_what_it_reads() -> None:
    first, second = compile_terms(f'{A} && "x" in device.attributes["d"]').terms
    assert [str(read) for read in first.reads or ()] == [attribute("a")]
    assert second.reads is None


@pytest.mark.parametrize(
    ("expression", "device", "index", "values", "error"),
    [
        pytest.param(f"{A} && {B}", gpu(a=1, b=3), 1, (("gpu.example.com/b", "3"),), "", id="false"),
        pytest.param(f"{A} && {B}", gpu(a=2, b=3), 0, (("gpu.example.com/a", "2"),), "", id="first-of-two"),
        pytest.param(
            f"{A} && {B}", gpu(b=2), 0, (("gpu.example.com/a", "absent"),), "no such key: a", id="error"
        ),
        pytest.param(f"{A} && {B}", gpu(b=3), 1, (("gpu.example.com/b", "3"),), "", id="false-absorbs-an-error"),
        pytest.param(
            f"({A} || {B}) && {C}",
            gpu(a=2, b=3, c=3),
            0,
            (("gpu.example.com/a", "2"), ("gpu.example.com/b", "3")),
            "",
            id="disjunction-shows-all-it-reads",
        ),
        pytest.param(
            f'{attribute("m")} == "H200"', gpu(m='A "100"'), 0, (("gpu.example.com/m", r'"A \"100\""'),), "", id="text"
        ),
        pytest.param(
            'device.driver == "a" && device.allowMultipleAllocations',
            gpu(),
            0,
            (("device.driver", '"gpu.example.com"'),),
            "",
            id="driver",
        ),
        pytest.param("device.allowMultipleAllocations", gpu(), 0, (("device.allowMultipleAllocations", "false"),), "",
                     id="shareable"),
        pytest.param(
            f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("90Gi"))',
            gpu(),
            0,
            (("gpu.example.com/memory", "80Gi"),),
            "",
            id="capacity",
        ),
    ],
)  # fmt: skip
def test_the_term_that_refuses_is_told_with_the_values_it_saw(
    expression: str, device: Device, index: int, values: tuple[tuple[str, str], ...], error: str
) -> None:
    terms = compile_terms(expression)
    answer = terms.first_false(DRIVER, device)
    assert answer is not None
    assert (answer.index, answer.values) == (index, values)
    assert answer.text == terms.terms[index].text
    assert answer.error.startswith(error) if error else not answer.error


def test_what_matches_has_no_false_term() -> None:
    assert compile_terms(f"{A} && {B}").first_false(DRIVER, gpu(a=1, b=2)) is None


def test_an_expression_that_is_only_too_dear_as_a_whole_names_no_term() -> None:
    part = "lists.range(330).all(x, lists.range(330).all(y, x + y >= 0))"
    terms = compile_terms(f"{part} && {part}")
    assert len(terms.terms) == 2
    answer = terms.first_false(DRIVER, gpu())
    assert answer is not None
    assert answer.index is None
    assert "cost limit" in answer.error


def test_devices_that_agree_in_what_is_read_share_an_answer() -> None:
    terms = Terms(f"{A} && {B}", stored=False)
    first = terms.first_false(DRIVER, gpu(a=1, b=5, c=1))
    assert first is not None
    assert terms.first_false(DRIVER, gpu(a=1, b=5, c=2)) is first
    assert terms.first_false(DRIVER, gpu(a=1, b=6, c=2)) is not first


def test_values_are_shown_short_and_on_one_line() -> None:
    answer = compile_terms(f'{attribute("m")} == "x"').first_false(DRIVER, gpu(m="a\nb" * 1000))
    assert answer is not None
    ((_, value),) = answer.values
    assert len(value) < 120
    assert "\n" not in value


@pytest.mark.parametrize(
    ("expression", "index", "rest"),
    [
        pytest.param(A, 0, "true", id="only"),
        pytest.param(f"{A} && {B} && {C}", 0, f"{B} && {C}", id="first"),
        pytest.param(f"{A} && {B} && {C}", 1, f"{A} && {C}", id="middle"),
        pytest.param(f"{A} && {B} && {C}", 2, f"{A} && {B}", id="last"),
        pytest.param(f"{A} && ({B} && {C})", 1, f"{A} && ({C})", id="in-parentheses"),
        pytest.param(f"{A} && ({B} || {C})", 1, A, id="with-its-parentheses"),
        pytest.param(f"({A} && {B})", 1, f"({A})", id="in-outer-parentheses"),
        pytest.param(f"{A} // one\n  && {B} // two", 0, f"{B} // two", id="comments"),
    ],
)
def test_a_term_can_be_dropped(expression: str, index: int, rest: str) -> None:
    assert compile_terms(expression).without(index) == rest


def test_a_term_can_be_replaced() -> None:
    assert compile_terms(f"{A} && ({B} && {C})").replaced(1, "true") == f"{A} && (true && {C})"


def test_a_wrong_expression_is_refused_as_a_selector_is() -> None:
    with pytest.raises(CelCompileError, match="no matching overload"):
        compile_terms("device.driver == 1 && true")


def verdict(expression: str, driver: str, device: Device, *, lists: bool = False) -> bool | None:
    try:
        return compile_selector(expression, stored=lists).matches(driver, device)
    except CelEvaluationError:
        return None


def check_consistent(expression: str, driver: str, device: Device, *, lists: bool = False) -> None:
    terms = compile_terms(expression, stored=lists)
    whole = verdict(expression, driver, device, lists=lists)
    answer = terms.first_false(driver, device)
    assert (answer is None) == (whole is True)
    if answer is not None:
        assert bool(answer.error) == (whole is None)
        if answer.index is not None:
            assert verdict(answer.text, driver, device, lists=lists) is whole
    if verdict("true", driver, device, lists=lists) is None:
        return  # a device that no selector can be asked about
    alone = [verdict(term.text, driver, device, lists=lists) for term in terms.terms]
    for index in range(len(alone)):
        rest = [*alone[:index], *alone[index + 1 :]]
        expected = False if False in rest else None if None in rest else True
        assert verdict(terms.without(index), driver, device, lists=lists) is expected


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_terms_and_selector_agree_on_the_cases_of_kubernetes(case: dict[str, object]) -> None:
    expression, lists = str(case["expression"]), bool(case.get("lists", False))
    try:
        compile_selector(expression, stored=lists)
    except CelCompileError:
        with pytest.raises(CelCompileError):
            compile_terms(expression, stored=lists)
        return
    check_consistent(expression, *DEVICES[str(case["device"])], lists=lists)


ATOMS = st.sampled_from(
    [A, B, C, "true", "false", f"has({attribute('a')})", f"!({A})", f"{attribute('?b')}.orValue(2) == 2", "1 / 0 == 1",
     "cel.bind(d, device, d.driver == 'x' && true)", 'device.driver == "gpu.example.com"', attribute("d")]
)  # fmt: skip
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(" && ".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' || '.join(parts)})"),
        inner.map(lambda part: f"({part})"),
    ),
    max_leaves=8,
)
VALUES = st.sampled_from([None, 1, 2, 3, True])


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, VALUES, VALUES, VALUES, VALUES)
def test_terms_and_selector_agree(expression: str, a: object, b: object, c: object, d: object) -> None:
    values = {name: value for name, value in zip("abcd", (a, b, c, d), strict=True) if value is not None}
    check_consistent(expression, DRIVER, gpu(**values))


def test_importing_the_package_does_not_load_cel_python() -> None:
    code = "from driver.cel import compile_terms; import sys; sys.exit('celpy' in sys.modules or 'lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
