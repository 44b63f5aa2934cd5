"""Reads opaque parameters: they become a config, or every mistake in them.

A claim's author may write anything, so size and depth are bounded before anything walks the parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from driver.api import API_VERSION
from driver.api.strict import StrictError, read
from driver.api.validation.errors import FieldError, shown_value, unknown_value
from driver.config.kinds import KINDS, DeviceConfig

__all__ = ["MAX_DEPTH", "MAX_PARAMETERS_BYTES", "UnsupportedFieldError", "parse_config"]

MAX_PARAMETERS_BYTES: Final = 10 * 1024
"""The API server's own limit. Source: OpaqueParametersMaxLength in k8s.io/api v0.36.3, resource/v1/types.go."""

MAX_DEPTH: Final = 16
"""Far deeper than any kind; it keeps a hostile nesting from using up the stack."""

_HEADER: Final = ("apiVersion", "kind")


@dataclass(frozen=True, slots=True)
class UnsupportedFieldError(FieldError):
    """A field that Kubernetes knows, but not this version."""


def parse_config(parameters: object, where: str) -> DeviceConfig | tuple[FieldError, ...]:
    """Read the opaque parameters of one configuration entry.

    Args:
        parameters: JSON as Python data.
        where: The parameters' field path, for the errors.

    Returns:
        The config with its defaults, or all errors (at least one).
    """
    if problem := _bounds(parameters):
        return (FieldError(where, problem),)
    if not isinstance(parameters, dict):
        return (FieldError(where, f"expected an object with apiVersion {API_VERSION} and a kind"),)
    kind = parameters.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    errors = tuple(_header(parameters, where))
    if model is None:
        return errors
    try:
        written = {key: value for key, value in parameters.items() if key not in _HEADER}
        config = read(model, written, path=where, for_people=True)
    except StrictError as error:
        return errors + error.errors
    return errors or config


def _header(parameters: Mapping[str, object], where: str) -> Iterator[FieldError]:
    api_version, kind = (parameters.get(key) for key in _HEADER)
    if api_version != API_VERSION:
        found = "is required" if api_version is None else f"{shown_value(api_version)} is not known"
        yield FieldError(f"{where}.apiVersion", f"{found}: expected {API_VERSION}")
    if not isinstance(kind, str) or kind not in KINDS:
        expected = f"one of {', '.join(KINDS)}"
        found = f"is required: expected {expected}"
        if kind is not None:
            found = unknown_value(kind, tuple(KINDS), expected, may_guess=isinstance(kind, str))
        yield FieldError(f"{where}.kind", found)


def _bounds(parameters: object) -> str | None:
    """Return why the parameters are too large, too deep or no JSON; without recursion, and stopping at the limit."""
    too_large = f"has more than {MAX_PARAMETERS_BYTES} bytes of JSON, which is the API server's limit"
    left = MAX_PARAMETERS_BYTES
    stack: list[tuple[object, int]] = [(parameters, 1)]
    while stack:
        value, depth = stack.pop()
        left -= len(value) + 2 if isinstance(value, str) else 1
        if left < 0 or (isinstance(value, dict | list | tuple) and len(value) > left):
            return too_large
        if depth > MAX_DEPTH:
            return f"is nested more than {MAX_DEPTH} levels deep"
        if isinstance(value, dict):
            stack.extend((item, depth + 1) for pair in value.items() for item in pair)
            if not all(isinstance(key, str) for key in value):
                return "has a key that is not a string"
        elif isinstance(value, list | tuple):
            stack.extend((item, depth + 1) for item in value)
        elif isinstance(value, int) and value.bit_length() > 64:
            return "has a number of more than 64 bits"
        elif not isinstance(value, str | int | float | None):
            return f"has a value of type {type(value).__name__}, which JSON does not have"
    text = json.dumps(parameters, ensure_ascii=False, separators=(",", ":"))
    return too_large if len(text.encode(errors="surrogatepass")) > MAX_PARAMETERS_BYTES else None
