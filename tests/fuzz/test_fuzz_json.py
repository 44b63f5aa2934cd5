"""The bounded readers of JSON, beside the standard library's."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from driver.bounded_json import JsonError, parse_foreign_json, parse_json
from tests.fuzz.fuzzing import Target
from tests.fuzz.mutation import JSON_TOKENS, hostile_value, mutated

pytestmark = pytest.mark.fuzz


def _make(random: Random) -> bytes:
    text = json.dumps([hostile_value(random) for _ in range(3)], ensure_ascii=bool(random.randrange(2)))
    return mutated(random, text.encode(errors="surrogatepass"), JSON_TOKENS)


def _check(data: bytes) -> None:
    expected = _standard(data)
    for parse in (parse_json, lambda data, max_bytes: parse_foreign_json(data, max_bytes=max_bytes)[0]):
        with suppress(JsonError):
            found = parse(data, max_bytes=len(data))
            json.dumps(found)  # it can be walked, and written again
            if parse is parse_json:
                assert repr(found) == repr(expected)


def _standard(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError):
        return "no JSON"


def test_what_the_bounded_readers_take_is_what_the_standard_library_reads() -> None:
    Target(name="json", make=_make, check=_check, examples=1000).run()
