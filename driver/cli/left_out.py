"""Notes on the files that a command was given and passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver.adapters.files.input_file import path_name
from driver.adapters.manifests.claims import Manifests
from driver.wording import plural

__all__ = ["machine_descriptions", "passed_over"]

_MACHINE_VERSION: Final = "rootport.dev/v1alpha1"


def passed_over(given: Manifests, command: str) -> Iterator[str]:
    """Return notes on files that were not looked at, as they hold no manifests of the user's.

    Args:
        given: What was read.
        command: The command of rootport that reads them.
    """
    if described := machine_descriptions(given):
        name, is_one = described[0], len(described) == 1
        which = f"{name} is no manifest" if is_one else f"{name} and {len(described) - 1} more are no manifests"
        yield f"machine description {which}: --topology takes {'it' if is_one else 'them'}"
    if given.not_manifests:
        yield f"{plural(given.not_manifests, 'file')} in the folders without an object of Kubernetes"
    if given.patches:
        files = plural(given.patches, "patch file")
        yield f"{files} of kustomizations not looked at: `kustomize build DIR | rootport {command} -` reads the result"
    if given.own_folders:
        first, *more = given.own_folders
        others = f" and {len(more)} more" if more else ""
        yield f"not looked at: what simulate --out wrote in {path_name(first)}{others}; name such a folder to read it"


def machine_descriptions(given: Manifests) -> list[str]:
    """Return the files of the objects that ``--topology`` takes."""
    return [
        document.source
        for document in given.documents
        if document.kind == "Machine" and document.data.get("apiVersion") == _MACHINE_VERSION
    ]
