"""Selectors beside their answers: messages, memory, what they read, and hostile input."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Device
from driver.cel import STANDARD, CelCompileError, CelEvaluationError, Limits, Selector, compile_selector
from driver.cel import selector as module
from driver.errors import InputError
from tests.unit.driver.cel.devices import DRIVER, gpu


def problem(expression: str, device: Device | None = None) -> str:
    with pytest.raises(InputError) as caught:
        compile_selector(expression).matches(DRIVER, device or gpu())
    return str(caught.value)


def answer(expression: str) -> str:
    """True, False, or the message of the one kind of error that there may be."""
    try:
        return str(compile_selector(expression).matches(DRIVER, gpu(a=1)))
    except InputError as error:
        return str(error)


def attribute(name: str) -> str:
    return f'device.attributes["{DRIVER}"].{name}'


class TestMessages:
    @pytest.mark.parametrize(
        ("expression", "words"),
        [
            ("device.driver == ", ("Syntax error", "line 1, column 18")),
            ('true &&\n  "abc', ("unclosed or malformed string", "line 2, column 3")),
            ("devise.driver == 'a'", ("undeclared reference to 'devise'", "column 1")),
            ("driver == 'a'", ("did you mean device.driver?",)),
            ("device.name == 'a'", ("undefined field 'name'", "attributes, capacity, driver", "column 7")),
            ("device.driver.beginsWith('a')", ("undeclared reference to function 'beginsWith'",)),
            ('device.capacity["d"].memory > 3', ("no matching overload for '_>_'", "(kubernetes.Quantity, int)")),
            ("1", ("must evaluate to bool", "not int")),
            ("x" * 10_241, ("too long: 10241 bytes, the limit is 10240",)),
            ('"%s".format([1]) == "1"', ("function 'format' is not supported by Rootport yet",)),
            ("[1].map(1, 2) == []", ("argument must be a simple name",)),
            ("device.driver.matches('[')", ("invalid matches argument", "missing ]")),
        ],
    )
    def test_a_wrong_expression_is_named_with_the_place(self, expression: str, words: tuple[str, ...]) -> None:
        with pytest.raises(CelCompileError) as caught:
            compile_selector(expression)
        for word in ("CEL expression", *words):
            assert word in str(caught.value)

    @pytest.mark.parametrize(
        ("expression", "words"),
        [
            (attribute("model") + ' == "h100"', "no such key: model"),
            (attribute("index") + ' < "3"', "no such overload: _<_(int, string)"),
            (attribute("index") + " / 0 == 1", "division by zero"),
            ('device.capacity["gpu.example.com"].cores.isGreaterThan(quantity("1"))', "no such key: cores"),
            (attribute("index"), "CEL result of type int could not be converted to bool"),
            ("lists.range(1000).map(x, lists.range(1000)).size() > 0", "actual cost limit exceeded"),
        ],
    )
    def test_a_missing_answer_names_the_cause(self, expression: str, words: str) -> None:
        with pytest.raises(CelEvaluationError) as caught:
            compile_selector(expression).matches(DRIVER, gpu(index=1))
        assert words in str(caught.value)
        assert "CEL expression" in str(caught.value)

    def test_a_long_expression_is_shortened(self) -> None:
        assert len(problem("device.nothing == " + '"a" + ' * 1000 + '"a"')) < 400

    def test_an_attribute_without_a_usable_value_is_named_whatever_is_asked(self) -> None:
        device = Device.model_validate({"name": "gpu-0", "attributes": {"v": {"version": "1.2"}}})
        assert "attribute v: 1.2 is not valid SemVer" in problem("true", device)

    def test_the_cost_limit_of_the_api_server_is_asked_for_separately(self) -> None:
        costly = compile_selector('device.attributes["d"].?links.orValue([]).exists(x, x == 1)', stored=True)
        assert not costly.matches(DRIVER, gpu())
        with pytest.raises(CelCompileError, match="too complex: its cost is without bound, the limit is 1000000"):
            costly.check_cost()
        compile_selector("true").check_cost()


class TestReads:
    @pytest.mark.parametrize(
        ("expression", "reads"),
        [
            ("true", []),
            ('device.driver == "a"', ["device.driver"]),
            (attribute("a") + " == " + attribute("a"), [attribute("a")]),
            (f'device.attributes["{DRIVER}"]["a"]', [attribute("a")]),
            (f'device.attributes["{DRIVER}"].?a.orValue(true)', [attribute("a")]),
            (f'device.attributes[?"{DRIVER}"][?"a"].orValue(true)', [attribute("a")]),
            (f'has(device.attributes["{DRIVER}"].a)', [attribute("a")]),
            ('device.capacity["d"].m.isInteger()', ['device.capacity["d"].m']),
            ("device.allowMultipleAllocations", ["device.allowMultipleAllocations"]),
            ('"a" in device.attributes', None),
            ('device.attributes["d"].exists(x, x == "a")', None),
            ('device.attributes[device.driver].a == "a"', None),
            ('cel.bind(d, device.attributes["d"], d.a)', None),
        ],
    )
    def test_what_an_expression_reads(self, expression: str, reads: list[str] | None) -> None:
        found = compile_selector(expression).reads
        assert (None if found is None else [str(read) for read in found]) == reads


class TestMemory:
    def test_the_same_expression_is_compiled_once(self) -> None:
        assert compile_selector("device.driver == 'once'") is compile_selector("device.driver == 'once'")

    @pytest.fixture
    def evaluations(self, monkeypatch: pytest.MonkeyPatch) -> list[Device]:
        seen: list[Device] = []
        real = Selector._evaluated

        def counted(self: Selector, driver: str, device: Device, limits: Limits = STANDARD) -> object:
            seen.append(device)
            return real(self, driver, device, limits)

        monkeypatch.setattr(Selector, "_evaluated", counted)
        return seen

    def test_devices_that_agree_in_what_is_read_share_an_evaluation(self, evaluations: list[Device]) -> None:
        selector = Selector(attribute("model") + ' == "h100"', stored=False)
        for index in range(10):
            assert selector.matches(DRIVER, gpu(model="h100", index=index))
        assert len(evaluations) == 1

    def test_devices_that_differ_do_not(self, evaluations: list[Device]) -> None:
        selector = Selector(f'{attribute("?x")}.orValue("") == 1', stored=False)
        answers = [selector.matches(DRIVER, device) for device in (gpu(x=1), gpu(x=True), gpu(x="1"), gpu())]
        assert answers == [True, False, False, False]
        assert len(evaluations) == 4

    def test_the_driver_is_part_of_the_question(self) -> None:
        device = gpu(model="h100")
        selector = Selector(attribute("model") + ' == "h100"', stored=False)
        assert selector.matches(DRIVER, device)
        with pytest.raises(CelEvaluationError):
            selector.matches("other.example.com", device)

    def test_an_attribute_may_be_named_with_its_domain_or_without(self) -> None:
        device = Device.model_validate({"name": "d", "attributes": {f"{DRIVER}/model": {"string": "h100"}}})
        selector = Selector(attribute("model") + ' == "h100"', stored=False)
        assert selector.matches(DRIVER, device)
        assert selector.matches(DRIVER, gpu(model="h100"))

    def test_errors_are_remembered_and_raised_anew(self, evaluations: list[Device]) -> None:
        selector = Selector(attribute("model") + ' == "h100"', stored=False)
        device = gpu()
        errors = []
        for _ in range(2):
            with pytest.raises(CelEvaluationError) as caught:
                selector.matches(DRIVER, device)
            errors.append(caught.value)
        assert len(evaluations) == 1
        assert errors[0] is not errors[1]

    def test_a_bad_device_is_bad_for_selectors_that_do_not_read_its_bad_attribute(self) -> None:
        selector = Selector(attribute("index") + " == 1", stored=False)
        wire = {"name": "d", "attributes": {"index": {"int": 1}, "links": {"version": "1"}}}
        assert selector.matches(DRIVER, gpu(index=1))
        with pytest.raises(CelEvaluationError, match="attribute links: "):
            selector.matches(DRIVER, Device.model_validate(wire))

    def test_memory_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_DEVICES", 4)
        monkeypatch.setattr(module, "_ANSWERS", 3)
        selector = Selector(attribute("index") + " % 2 == 0", stored=False)
        devices = [gpu(index=index) for index in range(20)]
        for _ in range(2):
            assert [selector.matches(DRIVER, device) for device in devices] == [True, False] * 10
            assert len(selector._devices) <= 4
            assert len(selector._answers) <= 3


HOSTILE = {
    "brackets": "(" * 5000 + "true" + ")" * 5000,
    "open-brackets": "[" * 10_000,
    "ninety-brackets": "(" * 90 + "true" + ")" * 90,
    "negations": "!" * 9000 + "true",
    "sum": "+".join("1" * 5000) + " > 0",
    "selections": "device" + ".a" * 3000,
    "disjunction": " || ".join(["false"] * 1000),
    "unclosed-string-of-backslashes": '"' + "\\\\" * 5000,
    "unclosed-long-string": '"""' + "\\a" * 5000,
    "many-digits": "9" * 5000 + " == 1",
    "many-hex-digits": "0x" + "f" * 5000 + " == 1",
    "doubling": "cel.bind(a, 'x', " + "cel.bind(a, a + a, " * 60 + "a.size() > 0" + ")" * 61,
    "growing": f"cel.bind(a, '{'x' * 1000}', a.replace('x', a).replace('x', a).replace('x', a).size() > 0)",
    "long-range": "lists.range(1000000000).size() > 0",
    "ranges": "lists.range(1000).all(x, lists.range(1000).all(y, x * y >= 0))",
    "equal-lists-of-lists": "cel.bind(l, lists.range(50000), cel.bind(m, [" + "l," * 1500 + "], m == m))",
    "doubling-macros": "optional.of(1)" + ".optMap(x, x)" * 12 + ".hasValue()",
    "regular-expression": f"'{'a' * 2000}'.matches('{'(a*)*' * 200}b')",
    "large-regular-expression": "'a'.matches('((a{100}){100}){100}')",
    "surrogate": '"\ud800" == "a"',
    "null-character": '"\x00" == "a"',
    "nothing": "",
}


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE)
def test_hostile_expressions_end_soon_with_an_answer_or_a_message(expression: str) -> None:
    start = time.process_time()
    assert len(answer(expression)) < 500
    # Far above what any of them takes; without bounds some of them never end.
    assert time.process_time() - start < 20


PIECES = st.sampled_from(
    r"""
    device .driver .attributes ['d'] ["d"] .?a [?0] == != < && || ! - + * / % ( ) [ ] { } , : ? 1 1u 0.5 'a' b'a' r'\'
    true null in x .all(x, .map(x, .exists(x, has( size( .size() quantity('1') semver('1.0.0') optional.none()
    .orValue( dyn( cel.bind(x, " ''' \ é
    """.split()  # noqa: SIM905 - words read best as words
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=30))
def test_any_text_is_answered_or_refused(expression: str) -> None:
    assert answer(expression)


def test_importing_the_package_does_not_load_cel_python() -> None:
    code = "import driver.cel, sys; sys.exit('celpy' in sys.modules or 'lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
