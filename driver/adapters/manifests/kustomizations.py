"""Finds the files that kustomizations name as patches: fragments of objects, which only kustomize completes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from driver.adapters.files.input_file import read_text
from driver.adapters.files.yaml_documents import read_documents
from driver.errors import InputError

__all__ = ["patch_files"]

_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The file names that kustomize recognizes (sigs.k8s.io/kustomize/api/konfig, RecognizedKustomizationFileNames)."""
_LISTS: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")
_MAX_BYTES: Final = 1024 * 1024
_MAX_BYTES_OF_ALL: Final = 16 * 1024 * 1024


def patch_files(folders: Iterable[Path]) -> frozenset[str]:
    """Return the real paths of the files that kustomizations in these folders name as patches.

    A kustomization that cannot be read names none, nor does one after 16 MiB of others.
    """
    found: set[str] = set()
    left = _MAX_BYTES_OF_ALL
    for folder in folders:
        for name in _NAMES:
            path = folder / name
            if left <= 0:
                break
            try:
                text = read_text(path, _MAX_BYTES, "a kustomization")
            except InputError:
                continue  # usually there is none
            left -= len(text)
            # Its problems are reported when it is read as a manifest.
            for document in read_documents(text, str(path), lambda _: None):
                found.update(os.path.realpath(folder / patch) for patch in _patches(document.data))
    return frozenset(found)


def _patches(kustomization: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the patches; a patch may also stand in the kustomization itself."""
    for field in _LISTS:
        listed = kustomization.get(field)
        for entry in listed if isinstance(listed, list) else ():
            path = entry.get("path") if isinstance(entry, Mapping) else entry
            if isinstance(path, str) and path.isprintable():
                yield path
