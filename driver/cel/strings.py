"""The functions of strings: CEL's own, cel-go's strings library (version 2) and Kubernetes' find and findAll.

Source of the rules: cel-go v0.26.0, common/types/string.go and ext/strings.go; k8s.io/apiserver v0.36.3,
pkg/cel/library/regex.go. Positions count characters, not bytes. Regular expressions are RE2, as in Go.
"""

from __future__ import annotations

import string
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from driver.cel.meter import Meter
from driver.cel.operators import Implementation
from driver.cel.values import IntType, Value, fail, integer

__all__ = ["STRINGS", "compile_pattern"]

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
# Go's unicode.IsSpace; Python's strip() would take the separators U+001C to U+001F as well.
_SPACE: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """The compiled regular expression.

    Raises:
        CELEvalError: It is none that RE2 takes.
    """
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeError) as error:
        text = error.args[0] if error.args else error
        shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        raise fail(f"error parsing regexp {pattern[:60]!r}: {shown}") from None


def _matches(_meter: Meter, text: str, pattern: str) -> Value:
    return compile_pattern(pattern).search(text) is not None


def _find(_meter: Meter, text: str, pattern: str) -> Value:
    match = compile_pattern(pattern).search(text)
    return match.group() if match else ""


def _find_all(meter: Meter, text: str, pattern: str, count: IntType = IntType(-1)) -> Value:  # noqa: B008 - immutable
    found: list[Value] = []
    if count == IntType(0):
        return found
    end = -1
    for match in compile_pattern(pattern).finditer(text):
        # Go drops an empty match that touches the match before it.
        if match.start() == match.end() == end:
            continue
        meter.work(1)
        found.append(match.group())
        end = match.end()
        if len(found) == int(count):
            break
    return found


def _char_at(_meter: Meter, text: str, index: IntType) -> Value:
    at = int(index)
    if not 0 <= at <= len(text):
        raise fail(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(_meter: Meter, text: str, part: str, offset: IntType | None = None) -> Value:
    start = int(offset or 0)
    if not part:
        return integer(start)
    if start < 0:
        raise fail(f"index out of range: {start}")
    return integer(text.find(part, start))


def _last_index_of(_meter: Meter, text: str, part: str, offset: IntType | None = None) -> Value:
    if not part:
        return integer(len(text)) if offset is None else offset
    if offset is None:
        return integer(text.rfind(part))
    end = int(offset)
    if end < 0:
        raise fail(f"index out of range: {end}")
    return integer(text.rfind(part, 0, end + len(part)) if end < len(text) else -1)


def _replace(meter: Meter, text: str, old: str, new: str, count: IntType | None = None) -> Value:
    times = (text.count(old) if old else len(text) + 1) if count is None or int(count) < 0 else int(count)
    times = min(times, len(text) + 1)
    meter.text(len(text) + times * len(new))
    # Python's replace agrees with Go's, the empty string between all characters included.
    return text.replace(old, new, times)


def _split(meter: Meter, text: str, separator: str, count: IntType | None = None) -> Value:
    limit = -1 if count is None else int(count)
    if limit == 0:
        return []
    if separator:
        parts = text.split(separator, limit - 1 if limit > 0 else -1)
    else:
        parts = list(text) if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]]
    meter.work(len(parts))
    return list[Value](parts)


def _join(meter: Meter, parts: list[Value], separator: str = "") -> Value:
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, str):
            raise fail("join: invalid input: not a string")
        texts.append(part)
    meter.text(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _substring(_meter: Meter, text: str, start: IntType, end: IntType | None = None) -> Value:
    first, last = int(start), len(text) if end is None else int(end)
    if end is not None and first > last:
        raise fail(f"invalid substring range. start: {first}, end: {last}")
    for index in (first, last):
        if not 0 <= index <= len(text):
            raise fail(f"index out of range: {index}")
    return text[first:last]


STRINGS: Final[dict[str, Implementation]] = {
    "contains_string": lambda _meter, text, part: part in text,
    "starts_with_string": lambda _meter, text, part: text.startswith(part),
    "ends_with_string": lambda _meter, text, part: text.endswith(part),
    "matches": _matches,
    "matches_string": _matches,
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
    "string_char_at_int": _char_at,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of,
    "string_lower_ascii": lambda _meter, text: text.translate(_LOWER),
    "string_upper_ascii": lambda _meter, text: text.translate(_UPPER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "list_join": _join,
    "list_join_string": _join,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": lambda _meter, text: text.strip(_SPACE),
    "strings_quote": lambda _meter, text: f'"{text.translate(_QUOTED)}"',
}
"""What each overload of a function of strings does."""
