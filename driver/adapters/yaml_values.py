"""Reads large YAML and JSON that programs wrote, such as ``kubectl get -o yaml``, as plain values.

Four times as fast as :mod:`driver.adapters.yaml_documents`, which is for what people write: lines are not kept, and a
scalar that is not quoted is a JSON number, ``true``, ``false``, ``null``, or else a string (kubectl quotes all others).
Nothing recurses or expands: depth is bounded, and aliases and tags, which kubectl never writes, are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import yaml

from driver.errors import InputError

__all__ = ["read_values"]

_MAX_DEPTH: Final = 64
_MISSING: Final = object()
_SPACE: Final = re.compile(r"\s*")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_values(text: str, source: str, *, is_json: bool = False) -> Iterator[Any]:
    """The documents of a YAML stream, or of JSON values one after the other; empty ones are left out.

    Args:
        text: What was read.
        source: The file's name, for messages.
        is_json: It says that it is JSON: a mistake is told as one of JSON.

    Raises:
        InputError: It is no YAML (or JSON), nested deeper than 64 levels, or has aliases or tags; names the line.
    """
    values = None
    begin = _end_of_space(text, 0)
    if is_json or text[begin : begin + 1] in ("{", "["):
        try:
            values = _json_values(text)
        except json.JSONDecodeError as error:
            # What begins like JSON may still be YAML in flow style: YAML has the last word, and the better message.
            if is_json:
                cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
                problem = "it ends in the middle: was kubectl interrupted?" if cut else error.msg
                raise InputError(f"{source}:{error.lineno}: not valid JSON: {problem}") from error
        except (ValueError, RecursionError):
            values = None  # a number of thousands of digits, or too deep: YAML can take the one, and names the other
    yield from (value for value in (_yaml_values(text, source) if values is None else values) if value is not None)


def _json_values(text: str) -> list[Any]:
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
    """The mappings and sequences that have begun and not ended."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: list[tuple[Any, Any]] = []  # with the field that its next value is for

    def take(self, event: Any) -> Any:
        """The value of a document that ends with this event, else ``_MISSING``."""
        match event:
            case yaml.ScalarEvent():
                self._refuse_tag(event)
                return self._add(event, _plain(event.value) if event.implicit[0] else event.value)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._refuse_tag(event)
                if len(self._open) >= _MAX_DEPTH:
                    raise self._error(event, f"nested deeper than {_MAX_DEPTH} levels")
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

    def _error(self, event: Any, message: str) -> InputError:
        where = f"{self._source}:{event.start_mark.line + 1}"
        return InputError(f"{where}: {message}", hint="is this a dump of kubectl?")


@lru_cache(maxsize=65_536)  # the same few values stand in many devices; equal strings are then one
def _plain(text: str) -> Any:
    if text in ("", "~"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, bool | int | float) else text
