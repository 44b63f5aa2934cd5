"""Writes and removes the CDI spec files that :mod:`driver.plan` decides on, and nothing else.

A runtime sees a whole file or none: it reads ``*.json`` and ``*.yaml`` of the folder whenever that changes, so a file
is made under another suffix and renamed (container-device-interface v1.1.1, pkg/cdi/spec-dirs.go and cache.go). Each
function is idempotent, also after a crash at any instruction.

Nothing is synced to disk. Only a power cut can lose or empty a file for that; the plugin's checkpoint has each file's
content, and its start writes again what is not as it should be, before any container starts
(docs/design/checkpoint.md).
"""

from __future__ import annotations

from pathlib import Path

from driver.adapters.files.durable_files import (
    entries,
    file_holds,
    os_errors_as_node_errors,
    remove_file,
    remove_temporary_files,
    replace_file,
)
from driver.api.claim_reference import ClaimReference
from driver.plan import claim_uid_of, spec_file_name

__all__ = ["claim_uids", "remove_leftovers", "remove_spec", "spec_path", "write_spec"]


def spec_path(claim_uid: str, directory: Path) -> Path:
    """Return where a claim's spec file is.

    Raises:
        InputError: ``claim_uid`` could not come from Kubernetes.
    """
    return directory / spec_file_name(claim_uid)


def write_spec(claim: ClaimReference, content: bytes, directory: Path) -> Path:
    """Write a claim's spec file. A file that has the same content already is left as it is.

    Args:
        claim: The claim.
        content: The file's content.
        directory: The runtime's folder for dynamic specs (``/var/run/cdi``), or any other; created if missing.

    Returns:
        The file's path.

    Raises:
        InputError: The claim's UID could not come from Kubernetes.
        NodeError: The file could not be written; the former file is still there, and no half-written one.
    """
    path = spec_path(claim.uid, directory)
    with os_errors_as_node_errors(f"claim {claim}: the CDI spec {path} cannot be written"):
        if not file_holds(path, content):
            try:
                replace_file(path, content, sync=False)
            except FileNotFoundError:
                directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                replace_file(path, content, sync=False)
    return path


def remove_spec(claim_uid: str, directory: Path) -> None:
    """Remove a claim's spec file. A file that is not there is fine.

    Raises:
        InputError: ``claim_uid`` could not come from Kubernetes.
        NodeError: The file could not be removed.
    """
    path = spec_path(claim_uid, directory)
    with os_errors_as_node_errors(f"claim with UID {claim_uid}: the CDI spec {path} cannot be removed"):
        remove_file(path, sync=False)


def claim_uids(directory: Path) -> tuple[str, ...]:
    """Return the UIDs of the claims that have a spec file in the folder, sorted.

    Raises:
        NodeError: The folder could not be read; one that is not there holds none.
    """
    with os_errors_as_node_errors(f"the CDI folder {directory} cannot be read"):
        uids = (claim_uid_of(path.name) for path in entries(directory))
        return tuple(sorted(uid for uid in uids if uid is not None))


def remove_leftovers(directory: Path) -> tuple[Path, ...]:
    """Remove the temporary files of writes that a crash cut short, and return them.

    Must not run while another call writes to the folder: its file would be taken for a leftover.

    Raises:
        NodeError: The folder could not be read, or a file not be removed.
    """
    return remove_temporary_files(directory, lambda name: claim_uid_of(name) is not None)
