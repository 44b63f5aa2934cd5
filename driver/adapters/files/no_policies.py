"""Recognizes a file of policies without any policy, as an installation has at first, without the models of policies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from driver.adapters.files.input_file import path_name, read_text
from driver.adapters.files.yaml_documents import read_documents
from driver.api import API_VERSION
from driver.errors import InputError

__all__ = ["MAX_BYTES", "NoPolicies", "file_version"]

MAX_BYTES: Final = 1024**2
"""The most that a file of policies holds: the API server's own limit for a ConfigMap."""


class NoPolicies:
    """Knows whether a file still has no policies in it; reads it again when it has changed. Not thread-safe.

    The plugin asks this first: the models of policies take 10 MiB on every node, and most clusters keep the defaults.

    Args:
        path: The file.
        kind: The kind of policies that is expected.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path = path
        self._kind = kind
        self._version: object = None
        self._holds = False

    def holds(self) -> bool:
        """Return True if the file is valid and its list of policies is empty; False if it must be read by its model."""
        version = file_version(self._path)
        if version is None:
            return False
        if version != self._version:
            self._version, self._holds = version, self._read()
        return self._holds

    def _read(self) -> bool:
        try:
            found = list(read_documents(read_text(self._path, MAX_BYTES, self._kind), path_name(self._path)))
        except InputError:
            return False
        empty = {"apiVersion": API_VERSION, "kind": self._kind}
        return len(found) == 1 and found[0].data in (empty, empty | {"policies": []})


def file_version(path: Path) -> object:
    """Identify a file's version; a ConfigMap's file is a link to a folder that is swapped. None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
