"""Reads a resource map (:class:`~driver.api.resource_map.ResourceMap`) from a YAML file."""

from __future__ import annotations

from pathlib import Path

from driver.adapters.files.input_file import path_name, read_text
from driver.adapters.files.no_policies import MAX_BYTES
from driver.adapters.files.validated import validated
from driver.adapters.files.yaml_documents import read_documents
from driver.api import API_VERSION
from driver.api.resource_map import ResourceMap
from driver.convert import Settings
from driver.convert.resource_map import map_problems, settings_of
from driver.errors import InputError

__all__ = ["parse_resource_map", "read_resource_map"]


def read_resource_map(path: Path) -> Settings:
    """Read a resource map from a file.

    Args:
        path: The file.

    Raises:
        InputError: The file cannot be read, is not YAML, or is no valid ResourceMap: all mistakes of form, and if there
            are none, all others, each with file, line and field.
    """
    return parse_resource_map(read_text(path, MAX_BYTES, f"a file with a {ResourceMap.KIND}"), path_name(path))


def parse_resource_map(text: str, source: str) -> Settings:
    """Parse a resource map from a file's text.

    Args:
        text: The YAML text.
        source: The file's name in messages.

    Raises:
        InputError: As for :func:`read_resource_map`.
    """
    documents = list(read_documents(text, source))
    if len(documents) != 1:
        raise InputError(
            f"{source}: expected one {ResourceMap.KIND} of apiVersion {API_VERSION}, not {len(documents)} objects",
            hint="`resources: []` in it maps nothing",
        )
    [document] = documents
    resource_map = validated(document, ResourceMap)
    problems = [document.error(loc, message) for loc, message in map_problems(resource_map)]
    if problems:
        raise InputError.of_all(problems)
    return settings_of(resource_map)
