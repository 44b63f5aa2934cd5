from __future__ import annotations

import contextlib
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.bounded_json import (
    LEFT_OUT_DEPTH,
    LEFT_OUT_NUMBER,
    MAX_DEPTH,
    JsonError,
    parse_foreign_json,
    parse_json,
)

_MIB = 1024 * 1024

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _nested(depth: int, inner: str = "") -> bytes:
    return (f'{{"before": 1, "deep": {"[" * depth}{inner}{"]" * depth}, "after": "x"}}').encode()


@given(_VALUES)
def test_what_python_writes_is_read_as_python_reads_it(value: Any) -> None:
    text = json.dumps(value).encode()
    assert parse_json(text.replace(b"Infinity", b"1"), max_bytes=_MIB) is not Ellipsis
    assert parse_foreign_json(text, max_bytes=_MIB)[0] == json.loads(text.decode())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_json_error(data: bytes) -> None:
    for parse in (parse_json, parse_foreign_json):
        with contextlib.suppress(JsonError):
            parse(data, max_bytes=_MIB)


@given(st.text(alphabet='[]{}",:\\ud8c0019e-', max_size=400))
def test_any_text_of_json_characters_is_a_value_or_a_json_error(text: str) -> None:
    for parse in (parse_json, parse_foreign_json):
        with contextlib.suppress(JsonError):
            parse(text.encode(), max_bytes=_MIB)


@pytest.mark.parametrize("depth", [1_000, 10_000, 700_000])
def test_what_is_too_deep_is_left_out_and_the_rest_is_there(depth: int) -> None:
    value, changed = parse_foreign_json(_nested(depth), max_bytes=2 * _MIB)
    assert changed
    assert (value["before"], value["after"]) == (1, "x")
    inner = value["deep"]
    for _ in range(99 - 1):
        (inner,) = inner
    assert inner == [LEFT_OUT_DEPTH]
    with pytest.raises(JsonError, match="recursion limit"):
        parse_json(_nested(depth), max_bytes=2 * _MIB)


def test_brackets_in_strings_are_text() -> None:
    text = b'{"a": "' + b"[" * 5000 + b'", "b": "\\"]]]", "deep": ' + b"[" * 300 + b"]" * 300 + b"}"
    value, _ = parse_foreign_json(text, max_bytes=_MIB)
    assert value["a"] == "[" * 5000
    assert value["b"] == '"]]]'


def test_what_ends_too_early_is_an_error_at_any_depth() -> None:
    for text in (b"[" * 5000, b'{"a":' * 5000, b"[" * 150 + b'"abc', b""):
        with pytest.raises(JsonError, match="not valid JSON"):
            parse_foreign_json(text, max_bytes=_MIB)


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 500_000, "1e" + "9" * 9_000, "0." + "1" * 100_000])
def test_a_number_that_is_too_long_is_left_out_or_a_double(number: str) -> None:
    value, _ = parse_foreign_json(f'{{"a": {number}, "b": 1}}'.encode(), max_bytes=_MIB)
    assert value["b"] == 1
    assert value["a"] == LEFT_OUT_NUMBER or isinstance(value["a"], float)


def test_what_is_no_unicode_becomes_the_replacement_character_as_in_go() -> None:
    text = rb'{"lone": "\ud800", "low": "x\udc00\n", "pair": "\ud83d\ude00", "text": "\\ud800", "bytes": "' + b'\xff"}'
    value, changed = parse_foreign_json(text, max_bytes=_MIB)
    assert changed
    assert value == {
        "lone": "�",
        "low": "x�\n",
        "pair": "\N{GRINNING FACE}",
        "text": r"\ud800",
        "bytes": "�",
    }


def test_length_is_bounded_before_anything_is_read() -> None:
    for parse in (parse_json, parse_foreign_json):
        with pytest.raises(JsonError, match="too long: 11 bytes, at most 10"):
            parse(b'"123456789"', max_bytes=10)


def test_nan_is_no_json() -> None:
    with pytest.raises(JsonError):
        parse_json(b'{"a": NaN}', max_bytes=100)


def test_a_value_read_as_foreign_can_be_written_and_read_again_within_something_else() -> None:
    value, _ = parse_foreign_json(_nested(5_000), max_bytes=_MIB)
    again = json.dumps({"a": {"b": [value]}}).encode()
    assert parse_json(again, max_bytes=_MIB) == {"a": {"b": [value]}}
    assert MAX_DEPTH > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        b"[" * 750_000 + b"]" * 750_000,
        b"[" * 300 + b"[]," * 499_000 + b"[]" + b"]" * 300,
        b'["\\ud800' + b"\\n" * 700_000 + b'"]',
        b"[" + b'"\\ud800",' * 160_000 + b"1]",
        b"[" + b'{"a":0},' * 187_000 + b'"\\ud800"]',
        b'{"a":' * 300_000,
        b"[" + (b"9" * 401 + b",") * 3_700 + b"1]",
        b'"' + b"\\" * 1_500_001,
    ],
    ids=["nested", "flat-below-deep", "escapes", "surrogates", "objects", "unclosed", "numbers", "backslashes"],
)
def test_the_worst_megabyte_and_a_half_takes_little_time_and_memory(text: bytes) -> None:
    tracemalloc.start()
    start = time.process_time()
    try:
        parse_foreign_json(text, max_bytes=2 * _MIB)
    except JsonError:
        pass
    finally:
        seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 150 * _MIB
    assert seconds < 8.0  # tracemalloc makes it several times slower; a second without it
