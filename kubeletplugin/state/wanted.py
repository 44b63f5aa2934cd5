"""Notes which claims the kubelet wants prepared, while they are read from the API server without the state's lock.

The kubelet gives a call up when its pod is deleted, and may have the claim unprepared, by this instance or another,
while the call still waits for the API: preparing it after that would hold its devices for good. So the call goes on
only if the note is still there: unprepare removes it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from driver.adapters.files.durable_files import entries, os_errors_as_node_errors
from driver.api.claim_reference import ClaimReference
from driver.plan import check_claim_uid

__all__ = ["WantedClaims"]


class WantedClaims:
    """An empty file for each claim, named by its UID.

    Args:
        folder: The folder of these files; made where missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, claim: ClaimReference) -> None:
        """Note that the kubelet wants a claim prepared.

        Raises:
            InputError: The claim's UID could not come from Kubernetes.
            NodeError: It could not be noted.
        """
        path = self._path(claim.uid)
        with os_errors_as_node_errors(f"claim {claim}: {path} cannot be made"):
            try:
                _touch(path)
            except FileNotFoundError:
                self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
                _touch(path)

    def has(self, claim: ClaimReference) -> bool:
        """Whether the kubelet still wants the claim: False where it was unprepared since :meth:`add`."""
        return os.path.exists(self._path(claim.uid))  # noqa: PTH110 - paths are text here

    def remove(self, claim: ClaimReference) -> None:
        """Forget what :meth:`add` noted.

        Raises:
            NodeError: It could not be removed.
        """
        path = self._path(claim.uid)
        with os_errors_as_node_errors(f"claim {claim}: {path} cannot be removed"), suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - as above

    def uids(self) -> frozenset[str]:
        """Return the UIDs of the claims that are noted.

        Raises:
            NodeError: The folder could not be read.
        """
        with os_errors_as_node_errors(f"{self.folder} cannot be read"):
            return frozenset(path.name for path in entries(self.folder))

    def remove_older(self, than: float) -> None:
        """Remove the notes that were made before a time, in seconds since the epoch.

        Raises:
            NodeError: One could not be removed.
        """
        with os_errors_as_node_errors(f"{self.folder} cannot be cleaned"):
            for path in entries(self.folder):
                if path.lstat().st_mtime < than:
                    path.unlink(missing_ok=True)

    def _path(self, claim_uid: str) -> str:
        check_claim_uid(claim_uid)  # so that what follows is one part of a path
        return f"{self.folder}/{claim_uid}"


def _touch(path: str) -> None:
    """Make the file, or bring the time of one that is there up to date."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.utime(descriptor)
    finally:
        os.close(descriptor)
