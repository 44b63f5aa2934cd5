"""What pydantic says of an object, in the words of Kubernetes' API: no type of Python is named to a user."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails, core_schema

from driver.api.validation.errors import shown_value

__all__ = ["in_words", "known_fields", "unknown_field"]

_LIST: Final = "expected a list"
_OBJECT: Final = "expected an object"
_STRING: Final = "expected a string"
_BOOL: Final = "expected true or false"
_WHOLE: Final = "expected a whole number"
_NUMBER: Final = "expected a number"
_TIME: Final = "expected a time, such as 2026-01-31T12:00:00Z"

_OF_PYDANTIC: Final = frozenset(get_args(core_schema.ErrorType))
_WITHOUT_VALUE: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "unknown field",
    "none_required": "must not be set",
    **dict.fromkeys(
        ("tuple_type", "list_type", "set_type", "frozen_set_type", "iterable_type", "iteration_error", "deque_type"),
        _LIST,
    ),
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type", "arguments_type"),
        _OBJECT,
    ),
}
_WITH_VALUE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("string_type", "string_unicode"), _STRING),
    **dict.fromkeys(("bool_type", "bool_parsing"), _BOOL),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type", "decimal_parsing", "finite_number"), _NUMBER),
    **dict.fromkeys(
        (
            *("date_type", "date_parsing", "datetime_type", "datetime_parsing", "datetime_from_date_parsing"),
            *("time_type", "time_parsing", "timezone_naive", "timezone_aware"),
        ),
        _TIME,
    ),
}
_WITH_CONTEXT: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "greater_than": lambda context: f"must be greater than {context['gt']}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']}",
    "less_than": lambda context: f"must be less than {context['lt']}",
    "less_than_equal": lambda context: f"must be at most {context['le']}",
    "multiple_of": lambda context: f"must be a multiple of {context['multiple_of']}",
    "too_short": lambda context: _at_least(context["min_length"], "items"),
    "too_long": lambda context: f"must have at most {context['max_length']} items",
    "string_too_short": lambda context: _at_least(context["min_length"], "characters"),
    "string_too_long": lambda context: f"must have at most {context['max_length']} characters",
    "string_pattern_mismatch": lambda context: f"must match {context['pattern']}",
    "int_parsing_size": lambda _: "is too large a number",
    # What our own validators say.
    "value_error": lambda context: str(context["error"]),
    "assertion_error": lambda context: str(context["error"]),
}
_LENGTHS: Final = frozenset({"too_short", "too_long", "string_too_long", "value_error", "assertion_error"})


def in_words(details: ErrorDetails) -> str:
    """One of a ``ValidationError``'s errors as a message without its field.

    Args:
        details: The error with its context; where its input is there, the message shows it if that is short.
    """
    kind = details["type"]
    if kind not in _OF_PYDANTIC:
        return details["msg"]  # one of our own
    if kind in _WITHOUT_VALUE:
        return _WITHOUT_VALUE[kind]
    context = details.get("ctx", {})
    if kind in {"literal_error", "enum"}:
        expected = f"expected {context['expected']}"
        return f"{_scalar(details)} is not known: {expected}" if _scalar(details) else expected
    made = _WITH_CONTEXT.get(kind)
    message = made(context) if made is not None else _WITH_VALUE.get(kind, "is not valid here")
    value = "" if kind in _LENGTHS else _scalar(details)
    return f"{message}, not {value}" if value else message


def unknown_field(name: object, known: Sequence[str]) -> str:
    """The message for a field that is not among the ``known`` ones of its object, which may be none."""
    near = difflib.get_close_matches(str(name), known, n=1)
    if near:
        return f"unknown field; did you mean {near[0]}?"
    return f"unknown field; known here: {', '.join(sorted(known))}" if known else "unknown field"


def known_fields(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The field names that a model knows at a place, read from its JSON schema."""
    schema = _json_schema(model)
    here: Any = schema
    for step in (None, *loc):
        if step is not None:
            here = (
                here.get("items", here.get("additionalProperties", {}))
                if isinstance(step, int)
                else (here.get("properties", {}).get(step) or here.get("additionalProperties") or {})
            )
        while isinstance(here, dict):
            if "$ref" in here:
                here = schema["$defs"][here["$ref"].rpartition("/")[2]]
            elif "anyOf" in here:
                here = next((option for option in here["anyOf"] if option.get("type") != "null"), {})
            else:
                break
        if not isinstance(here, dict):
            return []
    return list(here.get("properties", {}))


def _at_least(count: int, what: str) -> str:
    return "must not be empty" if count == 1 else f"must have at least {count} {what}"


def _scalar(details: ErrorDetails) -> str:
    """The input; empty where it is a list or an object."""
    value = details.get("input")
    return shown_value(value) if isinstance(value, str | int | float) else ""


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)
