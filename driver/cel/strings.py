"""The functions of strings: CEL's own, cel-go's strings library (version 2) and Kubernetes' find and findAll.

Source of the rules: cel-go v0.29.2, common/types/string.go and ext/strings.go; k8s.io/apiserver v0.37.2,
pkg/cel/library/regex.go. Positions count characters, not bytes. Regular expressions are RE2, as in Go.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from driver.cel.meter import OBJECT, LimitReachedError, Meter
from driver.cel.operators import Implementation
from driver.cel.values import IntType, Value, fail, integer

__all__ = ["STRINGS", "Pattern", "PatternTooLargeError", "compile_pattern"]

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
_OPTIONS.never_capture = True  # groups are never asked for, and cost time and memory
# RE2 keeps to it with the program and the states that it remembers; some 20,000 instructions fit in.
_OPTIONS.max_mem = 256 * 1024
_PATTERNS: Final = 128
_LONGEST_PATTERN: Final = 10 * 1024  # as long as an expression; a longer one is only made by one
# Measured: where nothing can be remembered, a byte of the text takes 5 to 10 ns for each instruction.
_INSTRUCTIONS_PER_STEP: Final = 100
_INSTRUCTIONS_MADE_PER_STEP: Final = 8
_STEPS_PER_MATCH: Final = 16
_TRANSLATED_PER_STEP: Final = 8
_COMPARED_PER_STEP: Final = 1024


class PatternTooLargeError(Exception):
    """The regular expression is larger than what Rootport evaluates; Go may accept it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression with what it takes to use it."""

    compiled: Any
    size: int

    def search(self, meter: Meter, text: str) -> str | None:
        """Return the first match."""
        self.charge_copy(meter, text)
        match = self.compiled.search(text)
        return match.group() if match else None

    def charge_copy(self, meter: Meter, text: str) -> None:
        """Charge for compiling, for the copy of a text in UTF-8 that RE2 gets, and for one pass over it."""
        meter.memory(OBJECT + len(text) * (1 if text.isascii() else 4))
        # Counted whether it was remembered or not: an answer must not depend on that.
        steps = self.size // _INSTRUCTIONS_MADE_PER_STEP
        meter.work(steps + (1 + len(text)) * self.size // _INSTRUCTIONS_PER_STEP)

    def charge(self, meter: Meter, length: int) -> None:
        """Charge for one more pass over a text."""
        meter.work((1 + length) * self.size // _INSTRUCTIONS_PER_STEP)


@lru_cache(maxsize=_PATTERNS)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a regular expression.

    Raises:
        CELEvalError: RE2 does not accept it.
        PatternTooLargeError: It is too large.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise PatternTooLargeError(f"longer than {_LONGEST_PATTERN} characters")
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeError) as error:
        text = error.args[0] if error.args else error
        shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        if shown.startswith("pattern too large"):
            raise PatternTooLargeError("of too many instructions, its repetitions written out") from None
        raise fail(f"error parsing regexp {pattern[:60]!r}: {shown}") from None
    finally:
        re2.purge()  # it remembers 128 more of its own, and the latest ones in both places
    # Groups with a name are captured nevertheless.
    return Pattern(compiled, (compiled.programsize + 16) * (1 + compiled.groups))


def _pattern(meter: Meter, pattern: str) -> Pattern:
    """Compile a regular expression that may have been made while the evaluation ran."""
    meter.work(16 + len(pattern) // 4)
    try:
        return compile_pattern(pattern)
    except PatternTooLargeError as error:
        raise LimitReachedError(f"has a regular expression {error}") from None


def _matches(meter: Meter, text: str, pattern: str) -> Value:
    return _pattern(meter, pattern).search(meter, text) is not None


def _find(meter: Meter, text: str, pattern: str) -> Value:
    return _pattern(meter, pattern).search(meter, text) or ""


def _find_all(meter: Meter, text: str, pattern: str, count: IntType = IntType(-1)) -> Value:  # noqa: B008 - immutable
    found: list[Value] = []
    if count == IntType(0):
        return found
    end = -1
    compiled = _pattern(meter, pattern)
    compiled.charge_copy(meter, text)
    for match in compiled.compiled.finditer(text):
        # The search for the next one may go through all of the rest.
        compiled.charge(meter, len(text) - match.end())
        # Go drops an empty match that touches the match before it.
        if match.start() == match.end() == end:
            continue
        meter.work(_STEPS_PER_MATCH)
        meter.elements(1)
        meter.text(match.end() - match.start(), text)
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


def _charge_search(meter: Meter, text: str, part: str) -> None:
    """Charge for the search of a part: CPython compares up to a hundred characters at a place, or scans once."""
    meter.work(len(text) * (16 + min(len(part), 100)) // _COMPARED_PER_STEP)


def _contains(meter: Meter, text: str, part: str) -> Value:
    _charge_search(meter, text, part)
    return part in text


def _index_of(meter: Meter, text: str, part: str, offset: IntType | None = None) -> Value:
    start = int(offset or 0)
    if not part:
        return integer(start)
    if start < 0:
        raise fail(f"index out of range: {start}")
    _charge_search(meter, text, part)
    return integer(text.find(part, start))


def _last_index_of(meter: Meter, text: str, part: str, offset: IntType | None = None) -> Value:
    if not part:
        return integer(len(text)) if offset is None else offset
    # From the end, CPython compares all of the part at each place.
    meter.work(len(text) * (16 + len(part)) // _COMPARED_PER_STEP)
    if offset is None:
        return integer(text.rfind(part))
    end = int(offset)
    if end < 0:
        raise fail(f"index out of range: {end}")
    return integer(text.rfind(part, 0, end + len(part)) if end < len(text) else -1)


def _replace(meter: Meter, text: str, old: str, new: str, count: IntType | None = None) -> Value:
    _charge_search(meter, text, old)
    times = (text.count(old) if old else len(text) + 1) if count is None or int(count) < 0 else int(count)
    times = min(times, len(text) + 1)
    meter.text(len(text) + times * len(new), text, new)
    # Python's replace agrees with Go's, the empty string between all characters included.
    return text.replace(old, new, times)


def _split(meter: Meter, text: str, separator: str, most: IntType | None = None) -> Value:
    limit = -1 if most is None else int(most)
    if limit == 0:
        return []
    _charge_search(meter, text, separator)
    count = text.count(separator) + 1 if separator else len(text)
    meter.elements(count if limit < 0 else min(count, limit))
    meter.text(len(text), text)
    if separator:
        return list[Value](text.split(separator, limit - 1 if limit > 0 else -1))
    return list[Value](text if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]])


def _join(meter: Meter, parts: list[Value], separator: str = "") -> Value:
    meter.elements(len(parts))
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, str):
            raise fail("join: invalid input: not a string")
        texts.append(part)
    meter.text(sum(map(len, texts)) + len(separator) * len(texts), separator, *texts)
    return separator.join(texts)


def _substring(meter: Meter, text: str, start: IntType, end: IntType | None = None) -> Value:
    first, last = int(start), len(text) if end is None else int(end)
    if end is not None and first > last:
        raise fail(f"invalid substring range. start: {first}, end: {last}")
    for index in (first, last):
        if not 0 <= index <= len(text):
            raise fail(f"index out of range: {index}")
    meter.text(last - first, text)
    return text[first:last]


def _translated(table: dict[int, Any], growth: int = 1) -> Callable[[Meter, str], str]:
    """Return a function that replaces some characters, each by a text at most ``growth`` times as long."""

    def translated(meter: Meter, text: str) -> str:
        meter.text(growth * len(text), text)
        if not text.isascii():  # otherwise it is quick
            meter.work(len(text) // _TRANSLATED_PER_STEP)
        return text.translate(table)

    return translated


def _trim(meter: Meter, text: str) -> Value:
    meter.text(len(text), text)
    return text.strip(_SPACE)


def _quote(meter: Meter, text: str) -> Value:
    meter.text(2 * len(text) + 2, text)
    return f'"{_QUOTE(meter, text)}"'


_QUOTE: Final = _translated(_QUOTED, growth=2)

STRINGS: Final[dict[str, Implementation]] = {
    "contains_string": _contains,
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
    "string_lower_ascii": _translated(_LOWER),
    "string_upper_ascii": _translated(_UPPER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "list_join": _join,
    "list_join_string": _join,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": _trim,
    "strings_quote": _quote,
}
"""The implementation of each overload of the strings' functions."""
