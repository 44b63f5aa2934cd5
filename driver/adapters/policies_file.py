"""Reads an administrator's policies (:class:`~driver.api.policies.PoliciesDocument`) from a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from driver.adapters.input_file import path_name, read_input
from driver.adapters.yaml_documents import printable, read_documents
from driver.api.policies import API_VERSION, WRONG, PoliciesDocument
from driver.api.validation.errors import shown
from driver.errors import InputError

__all__ = ["parse_policies", "read_policies"]

P = TypeVar("P", bound=PoliciesDocument)

# The API server's own limit for a ConfigMap.
_LIMIT: Final = 1024**2


def read_policies(path: Path, kind: type[P]) -> P:
    """Read the file.

    Args:
        path: The file.
        kind: Which policies it must hold.

    Raises:
        InputError: It cannot be read, is not YAML, or is not a valid object of that kind: all mistakes, each with file,
            line and field.
    """
    what = f"a file of {kind.KIND}"
    data = read_input(path, _LIMIT, what)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path_name(path)}: not UTF-8 text: {error.reason}", hint=f"name {what}") from error
    return parse_policies(text, path_name(path), kind)


def parse_policies(text: str, source: str, kind: type[P]) -> P:
    """Read the object from a file's text.

    Args:
        text: YAML.
        source: The file's name in messages.
        kind: Which policies it must hold.

    Raises:
        InputError: As for :func:`read_policies`.
    """
    documents = list(read_documents(text, source))
    if len(documents) != 1:
        raise InputError(
            f"{source}: expected one {kind.KIND} object of apiVersion {API_VERSION}, not {len(documents)}",
            hint="`policies: []` in it means the defaults",
        )
    [document] = documents
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        details = error.errors(include_url=False)
        # A list whose items are all wrong is to pydantic a list without items as well.
        inner = {item["loc"][:-1] for item in details}
        told = [item for item in details if item["type"] != "too_short" or item["loc"] not in inner]
        told.sort(key=lambda item: document.line(item["loc"]))
        raise InputError.of_all([document.error(item["loc"], _message(item)) for item in told]) from error


def _message(details: ErrorDetails) -> str:
    match details["type"]:
        case "extra_forbidden":
            return "unknown field"
        case "missing":
            return "is required"
        case "tuple_type":
            return "expected a list"
        case "too_short":
            return "must not be empty"
        case "model_type":
            return "expected an object"
        case _:
            message = f"{details['msg'][:1].lower()}{details['msg'][1:]}"
            value = details["input"]
            if details["type"] == WRONG or not isinstance(value, str | int | float):
                return message
            return f"{message}, not {shown(value) if isinstance(value, str) else printable(str(value))}"
