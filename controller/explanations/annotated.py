"""Which claims have Rootport's annotations, and what they say: as the watch shows it, never older than own writes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver import DRIVER_NAME

__all__ = ["ANNOTATIONS", "MESSAGE", "REASON", "Annotated", "AnnotatedClaims"]

REASON: Final = f"{DRIVER_NAME}/pending-reason"
MESSAGE: Final = f"{DRIVER_NAME}/pending-message"
ANNOTATIONS: Final = (REASON, MESSAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    """What a claim's annotations say.

    Attributes:
        uid: The claim's.
        version: The claim's resource version.
        said: The annotations among :data:`ANNOTATIONS`.
    """

    uid: str
    version: int
    said: Mapping[str, str]


class AnnotatedClaims:
    """Claims by ``namespace/name``; only those with annotations take memory. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, Annotated] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        """Grows whenever what a claim says is different."""
        return self._revision

    def see(self, metadata: Mapping[str, Any]) -> None:
        """A claim's metadata as the watch shows it, or as the API server answered to an own write."""
        all_said = metadata.get("annotations") or {}
        said = {key: all_said[key] for key in ANNOTATIONS if key in all_said}
        key = f"{metadata['namespace']}/{metadata['name']}"
        version = int(metadata["resourceVersion"])  # whole numbers that grow (KEP-5504)
        with self._lock:
            known = self._claims.get(key)
            if known is not None and known.uid == metadata["uid"] and known.version > version:
                return  # an own write has come by since
            if said != (known.said if known else {}):
                self._revision += 1
            if said or known is not None:
                self._claims[key] = Annotated(uid=metadata["uid"], version=version, said=said)

    def forget(self, key: str) -> None:
        """The claim is gone."""
        with self._lock:
            self._claims.pop(key, None)

    def said(self, key: str) -> Mapping[str, str]:
        """The claim's annotations; empty where it has none."""
        with self._lock:
            known = self._claims.get(key)
            return {} if known is None else known.said

    def all(self) -> tuple[str, ...]:
        """The claims that have some."""
        with self._lock:
            return tuple(key for key, known in self._claims.items() if known.said)
