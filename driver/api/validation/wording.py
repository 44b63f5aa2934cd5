"""Pydantic's errors in the words of Kubernetes' API: no type of Python is named to a user.

A validator of our own raises ``PydanticCustomError(PLAIN_ERROR, …)``: its message says all, the value included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, core_schema

from driver.api.validation.errors import FieldError, path_step, shown_value, unknown_field, unknown_value

__all__ = ["PLAIN_ERROR", "field_errors", "first_error", "in_words", "known_fields"]

PLAIN_ERROR: Final = "plain"
"""The type of a validation error whose message says all."""

_QUOTED: Final = re.compile(r"'([^']+)'")
_NO_NAMES: Final[Mapping[str, str]] = {}

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
    "unexpected_keyword_argument": "unknown field",
    "missing_argument": "is required",
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
    "json_invalid": lambda context: f"is not JSON: {context['error']}",
    "union_tag_invalid": lambda context: f"expected one of {context['expected_tags']}",
    # What our own validators say.
    "value_error": lambda context: str(context["error"]),
    "assertion_error": lambda context: str(context["error"]),
}
_VALUE_NOT_SHOWN: Final = frozenset(
    {"too_short", "too_long", "string_too_long", "value_error", "assertion_error", "json_invalid", "union_tag_invalid"}
)


def field_errors(
    error: ValidationError,
    *,
    model: type[BaseModel] | None = None,
    names: Mapping[str, str] = _NO_NAMES,
    path: str = "",
    with_input: bool = True,
) -> tuple[FieldError, ...]:
    """Return every mistake with its field as Kubernetes writes it: ``spec.gpus[0].address``.

    Args:
        error: What pydantic raised.
        model: What was validated, for what may have been meant by what is not known (:func:`in_words`).
        names: How fields are called in the object that have another name in ``error``.
        path: Where the object stands in a larger one.
        with_input: Whether short values are shown.
    """
    details = error.errors(include_url=False, include_input=with_input)
    return tuple(FieldError(_path(detail["loc"], names, path), in_words(detail, model)) for detail in details)


def first_error(error: ValidationError, *, with_input: bool = True) -> str:
    """Return the first mistake in one line, with its field unless it is the object itself.

    Args:
        error: What pydantic raised.
        with_input: Whether a short value is shown.
    """
    first = error.errors(include_url=False, include_input=with_input)[0]
    path, message = _path(first["loc"], _NO_NAMES, ""), in_words(first)
    return f"{path}: {message}" if path else message


def in_words(details: ErrorDetails, model: type[BaseModel] | None = None) -> str:
    """Return one of a ``ValidationError``'s errors as a message without its field.

    Args:
        details: The error with its context; where its input is there, the message shows it if that is short.
        model: What was validated; an unknown field or value then says what may have been meant, which takes a while
            where there are thousands.
    """
    kind = details["type"]
    if kind not in _OF_PYDANTIC:
        return details["msg"]  # one of our own
    if kind == "extra_forbidden" and model is not None:
        return unknown_field(details["loc"][-1], known_fields(model, details["loc"][:-1]))
    if kind in _WITHOUT_VALUE:
        return _WITHOUT_VALUE[kind]
    context = details.get("ctx", {})
    if kind in {"literal_error", "enum"}:
        expected = str(context["expected"])
        if not _scalar(details):
            return f"expected {expected}"
        return unknown_value(details["input"], _QUOTED.findall(expected), expected, may_guess=model is not None)
    made = _WITH_CONTEXT.get(kind)
    message = made(context) if made is not None else _WITH_VALUE.get(kind, "is not valid here")
    value = "" if kind in _VALUE_NOT_SHOWN else _scalar(details)
    return f"{message}, not {value}" if value else message


def known_fields(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """Return the field names that a model knows at a place, read from its JSON schema."""
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


def _path(loc: Sequence[str | int], names: Mapping[str, str], path: str) -> str:
    """Return a field's path."""
    steps = (names.get(step, step) if isinstance(step, str) else step for step in loc)
    return (path + "".join(map(path_step, steps))).removeprefix(".")


def _at_least(count: int, what: str) -> str:
    return "must not be empty" if count == 1 else f"must have at least {count} {what}"


def _scalar(details: ErrorDetails) -> str:
    """Return the input as it is shown; empty where it is a list or an object."""
    value = details.get("input")
    return shown_value(value) if isinstance(value, str | int | float) else ""


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)
