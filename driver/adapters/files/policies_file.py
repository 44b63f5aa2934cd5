"""Reads an administrator's policies (:class:`~driver.api.policies.PoliciesDocument`) from a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from driver.adapters.files.input_file import path_name, read_text
from driver.adapters.files.no_policies import MAX_BYTES
from driver.adapters.files.validated import validated
from driver.adapters.files.yaml_documents import read_documents
from driver.api import API_VERSION
from driver.api.policies import PoliciesDocument
from driver.errors import InputError

__all__ = ["parse_policies", "read_policies"]

P = TypeVar("P", bound=PoliciesDocument)


def read_policies(path: Path, kind: type[P]) -> P:
    """Read policies from a file.

    Args:
        path: The file.
        kind: The kind of policies that is expected.

    Raises:
        InputError: The file cannot be read, is not YAML, or is not a valid object of that kind: all mistakes, each with
            file, line and field.
    """
    return parse_policies(read_text(path, MAX_BYTES, f"a file of {kind.KIND}"), path_name(path), kind)


def parse_policies(text: str, source: str, kind: type[P]) -> P:
    """Parse policies from a file's text.

    Args:
        text: The YAML text.
        source: The file's name in messages.
        kind: The kind of policies that is expected.

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
    if document.kind == "ConfigMap":
        raise InputError(
            document.error(("kind",), f"a ConfigMap, not the {kind.KIND} in it"),
            hint="write the text that stands below its data into a file of its own",
        )
    return validated(document, kind)
