"""CEL that anybody may write: it is refused, has no answer for a device, or answers, within bounds."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest

from driver.api.resource_v1 import Device
from driver.cel import CelCompileError, CelEvaluationError, compile_selector, compile_terms
from tests.fuzz.fuzzing import REPO, Target, check_message
from tests.fuzz.mutation import mutated

pytestmark = pytest.mark.fuzz

_DATA: Final = REPO / "tests/data/cel"
_ATTRIBUTE: Final = 'device.attributes["d.example.com"]'
_LEAVES: Final = (
    *(
        "true",
        "false",
        "null",
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "1u",
        "1e308",
        "0.5",
        '""',
        '"a"',
        "b'a'",
        "[]",
        "{}",
    ),
    *("device", "device.driver", "device.allowMultipleAllocations", _ATTRIBUTE, f"{_ATTRIBUTE}.s", f"{_ATTRIBUTE}.i"),
    *(
        f"{_ATTRIBUTE}.v",
        f"{_ATTRIBUTE}.missing",
        'device.capacity["d.example.com"].c',
        'device.attributes["x"].y',
        "x",
        "y",
    ),
    *('quantity("1Gi")', 'semver("1.2.3")', 'duration("1h")', 'timestamp("2026-01-01T00:00:00Z")', "[1, 2, 3]", '"%s"'),
    *(
        '"' + "a" * 2000 + '"',
        "[" + ", ".join("12345678") + "]",
        '{"a": 1}',
        "type(1)",
        "int",
        r'"\u00e9\n"',
        'r"[a-z]+"',
    ),
)
_OPERATORS: Final = (*("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"),)
_CALLS: Final = (
    *(
        "{0}.size()",
        "size({0})",
        "int({0})",
        "string({0})",
        "double({0})",
        "type({0})",
        "dyn({0})",
        "bytes({0})",
        "!{0}",
    ),
    *(
        "{0}.contains({1})",
        "{0}.startsWith({1})",
        "{0}.matches({1})",
        "{0}.replace({1}, {2})",
        "{0}.split({1})",
        "-{0}",
    ),
    *(
        "{0}.lowerAscii()",
        "{0}.substring({1})",
        "{0}.indexOf({1})",
        "{0}.find({1})",
        "{0}.findAll({1})",
        "{0}.join({1})",
    ),
    *("{0}.charAt({1})", "{0}.isSorted()", "{0}.sum()", "{0}.min()", "{0}.reverse()", "{0}.flatten()", "has({0}.a)"),
    *("{0}.all(x, {1})", "{0}.exists(x, {1})", "{0}.exists_one(x, {1})", "{0}.map(x, {1})", "{0}.filter(x, {1})"),
    *(
        "{0}.map(x, {1}, {2})",
        "{0}.all(x, y, {1})",
        "cel.bind(x, {0}, {1})",
        "{0}.orValue({1})",
        "{0}[?{1}]",
        "{0}[{1}]",
    ),
    *("{0}.isGreaterThan({1})", "{0}.compareTo({1})", "quantity({0})", "isQuantity({0})", "semver({0})", "{0}.major()"),
    *(
        "({0} ? {1} : {2})",
        "[{0}, {1}]",
        "{{{0}: {1}}}",
        "{0}.b",
        "({0})",
        "{0}.format([{1}])",
        "sets.contains({0}, {1})",
    ),
)


def _expression(random: Random, depth: int) -> str:
    if depth == 0 or random.randrange(6) == 0:
        return random.choice(_LEAVES)
    if random.randrange(3) == 0:
        return f"{_expression(random, depth - 1)} {random.choice(_OPERATORS)} {_expression(random, depth - 1)}"
    return random.choice(_CALLS).format(*(_expression(random, depth - 1) for _ in range(3)))


def test_a_selector_is_refused_or_answers() -> None:
    cases = [json.loads(line)["expression"] for line in (_DATA / "cases.jsonl").read_text().splitlines()]
    entries: dict[str, Any] = json.loads((_DATA / "devices.json").read_text())
    devices = [(entry["driver"], Device.model_validate(entry["device"])) for entry in entries.values()]
    tokens = (
        *(token.encode() for token in (*_LEAVES, *_OPERATORS, "(", ")", "?", ".", "[", "{", "!", "-")),
        b"\0",
        b"\xff",
    )

    def make(random: Random) -> bytes:
        text = _expression(random, random.randint(1, 5)) if random.randrange(3) else random.choice(cases)
        return mutated(random, text.encode(), tokens, most=3) if random.randrange(3) == 0 else text.encode()

    def check(data: bytes) -> None:
        text = data.decode(errors="surrogateescape")
        with suppress(CelCompileError):
            compile_terms(text)
        try:
            selector = compile_selector(text)
            selector.check_cost()
            for driver, device in devices[:6]:
                with suppress(CelEvaluationError):
                    assert selector.matches(driver, device) in (True, False)
        except CelCompileError as error:
            check_message(error)

    Target(name="selectors", make=make, check=check, examples=600, seconds=3).run()
