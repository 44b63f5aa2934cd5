"""Reads large YAML and JSON that programs wrote, such as ``kubectl get -o yaml``, as plain values.

It is four times as fast as :mod:`driver.adapters.files.yaml_documents`, which reads what people write: lines are not
kept, and a scalar without quotes is a JSON number, ``true``, ``false``, ``null``, or else a string (kubectl quotes all
others).

Nothing recurses or expands: depth is bounded, and aliases and tags, which kubectl never writes, are refused. In JSON,
what is nested too deeply is left out: any user's claim may contain it, and would otherwise spoil the dump of a whole
cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import yaml

from driver.bounded_json import JsonError, parse_foreign_json, parse_json
from driver.errors import InputError

__all__ = ["read_values"]

_MAX_DEPTH: Final = 64
_MAX_PLAIN: Final = 400  # characters; a number that is longer is kept as text
_MISSING: Final = object()
_SPACE: Final = re.compile(r"\s*")
_BRACKET: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)  # or a string, in which it is none
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_values(text: str, source: str, *, notes: list[str], is_json: bool = False) -> Iterator[Any]:
    """Yield the documents of a YAML stream, or consecutive JSON values; empty ones are left out.

    Args:
        text: The stream.
        source: The file's name, for messages.
        notes: Gets a note for what was left out.
        is_json: Whether the file claims to be JSON, so that mistakes are reported as mistakes in JSON.

    Raises:
        InputError: The stream is no YAML (or JSON), nested deeper than 64 levels, or has aliases or tags. Names the
            line.
    """
    values = None
    begin = _end_of_space(text, 0)
    if is_json or text[begin : begin + 1] in ("{", "["):
        try:
            values, is_complete = _json_values(text)
            if not is_complete:
                notes.append(
                    f"{source}: left out: what no program can use, such as JSON nested hundreds of levels deep"
                )
        except json.JSONDecodeError as error:
            # What begins like JSON may still be YAML in flow style: YAML has the last word, and the better message.
            if is_json:
                cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
                problem = "it ends in the middle: was kubectl interrupted?" if cut else error.msg
                raise InputError(f"{source}:{error.lineno}: not valid JSON: {problem}") from error
        except (ValueError, RecursionError):
            values = None  # too deep, or with a number of thousands of digits, and no JSON: the YAML reader reports it
    yield from (value for value in (_yaml_values(text, source) if values is None else values) if value is not None)


def _json_values(text: str) -> tuple[list[Any], bool]:
    """Return the values, and whether they are complete."""
    for parts in ([text], _json_parts(text)):
        with suppress(JsonError):
            found = [_json_value(part) for part in parts]
            return [value for value, _ in found], not any(is_pruned for _, is_pruned in found)
    return _decoded_with_position(text), True


def _json_value(text: str) -> tuple[Any, bool]:
    data = text.encode()
    return parse_foreign_json(data, max_bytes=len(data))  # the file's size was bounded when it was read


def _json_parts(text: str) -> Iterator[str]:
    """Yield the texts of consecutive objects and lists."""
    begin = depth = 0
    for token in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0 and token[0][0] != '"':
            yield text[begin : token.end()]
            begin = token.end()
    if text[begin:].strip():
        yield text[begin:]


def _decoded_with_position(text: str) -> list[Any]:
    """Decode with the standard library's decoder, which reports where a mistake is."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    position = _end_of_space(text, 0)
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        values.append(value)
        position = _end_of_space(text, position)
    return values


def _end_of_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _yaml_values(text: str, source: str) -> Iterator[Any]:
    open_values = _OpenValues(source)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            value = open_values.take(event)
            if value is not _MISSING:
                yield value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise InputError(f"{where}: not valid YAML: {error.problem or error.context or 'malformed'}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{source}:{line}: not valid YAML: {error.reason}") from error


class _OpenValues:
    """The mappings and sequences that have begun and not ended yet."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: list[tuple[Any, Any]] = []  # with the field that its next value is for

    def take(self, event: Any) -> Any:
        """Take an event; return the value of the document that ends with it, else ``_MISSING``."""
        match event:
            case yaml.ScalarEvent():
                self._refuse_tag(event)
                return self._add(event, _plain(event.value) if event.implicit[0] else event.value)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._refuse_tag(event)
                if len(self._open) >= _MAX_DEPTH:
                    raise self._error(
                        event,
                        f"nested deeper than {_MAX_DEPTH} levels",
                        hint="is this a dump of kubectl? With -o json what is nested so deeply is left out",
                    )
                self._open.append(({} if isinstance(event, yaml.MappingStartEvent) else [], _MISSING))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                return self._add(event, self._open.pop()[0])
            case yaml.AliasEvent():
                raise self._error(event, "an alias, which kubectl does not write")
        return _MISSING

    def _add(self, event: Any, value: Any) -> Any:
        if not self._open:
            return value
        parent, field = self._open[-1]
        if isinstance(parent, list):
            parent.append(value)
        elif field is not _MISSING:
            parent[field] = value
            self._open[-1] = (parent, _MISSING)
        elif isinstance(event, yaml.ScalarEvent):
            # A name is the text that was written, also where it looks like a number or a truth value.
            self._open[-1] = (parent, event.value)
        else:
            raise self._error(event, "a field's name must be a string")
        return _MISSING

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag != "!":
            raise self._error(event, f"the tag {event.tag[:80]!r}, which kubectl does not write")

    def _error(self, event: Any, message: str, *, hint: str = "is this a dump of kubectl?") -> InputError:
        return InputError(f"{self._source}:{event.start_mark.line + 1}: {message}", hint=hint)


@lru_cache(maxsize=65_536)  # the same few values stand in many devices; equal strings are then one
def _plain(text: str) -> Any:
    if text in ("", "~"):
        return None
    try:
        value = parse_json(text, max_bytes=_MAX_PLAIN)
    except JsonError:
        return text
    return value if value is None or isinstance(value, bool | int | float) else text
