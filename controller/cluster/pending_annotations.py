"""The claims with Rootport's annotations: as the watch shows them, never older than this process's own writes.

A claim's owner can write anything into them. So only what Rootport could have written is read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver import DRIVER_NAME
from driver.explain.reasons import Reason
from driver.explain.tell.summary import NOTE_BYTES, shortened

__all__ = ["ANNOTATIONS", "MESSAGE", "REASON", "UNKNOWN", "AnnotatedClaims", "own_annotations"]

REASON: Final = f"{DRIVER_NAME}/pending-reason"
MESSAGE: Final = f"{DRIVER_NAME}/pending-message"
ANNOTATIONS: Final = (REASON, MESSAGE)
UNKNOWN: Final = "Unknown"
"""Stands for a reason that is none of :class:`~driver.explain.reasons.Reason`, and so is not Rootport's."""

_MOST_READ: Final = 4 * NOTE_BYTES
_REASONS: Final = {str(reason): str(reason) for reason in Reason}


def own_annotations(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return an object's :data:`ANNOTATIONS`: a known reason, and a short printable message."""
    annotations = metadata.get("annotations") or {}
    own = {}
    if REASON in annotations:
        own[REASON] = _REASONS.get(annotations[REASON], UNKNOWN)
    if MESSAGE in annotations:
        own[MESSAGE] = shortened(str(annotations[MESSAGE])[:_MOST_READ], NOTE_BYTES)
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class _Annotated:
    uid: str
    version: int
    annotations: Mapping[str, str]


class AnnotatedClaims:
    """Claims by ``namespace/name``; only those with annotations take memory. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, _Annotated] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        """A number that grows whenever a claim's annotations change."""
        return self._revision

    def observe(self, metadata: Mapping[str, Any]) -> None:
        """Take in a claim's metadata, as the watch shows it, or as the API server answered a write of this process."""
        own = own_annotations(metadata)
        key = f"{metadata['namespace']}/{metadata['name']}"
        version = int(metadata["resourceVersion"])  # whole numbers that grow (KEP-5504)
        with self._lock:
            known = self._claims.get(key)
            if known is not None and known.uid == metadata["uid"] and known.version > version:
                return  # older than an own write
            if own != (known.annotations if known else {}):
                self._revision += 1
            if own or known is not None:
                self._claims[key] = _Annotated(uid=metadata["uid"], version=version, annotations=own)

    def forget(self, key: str) -> None:
        """Forget a claim that is gone."""
        with self._lock:
            self._claims.pop(key, None)

    def annotations(self, key: str) -> Mapping[str, str]:
        """Return the claim's :func:`own_annotations`; none if it has none."""
        with self._lock:
            known = self._claims.get(key)
            return {} if known is None else known.annotations

    def claims(self) -> tuple[str, ...]:
        """Return the keys of the claims that have some."""
        with self._lock:
            return tuple(key for key, known in self._claims.items() if known.annotations)
