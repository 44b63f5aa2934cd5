"""Which claims have Rootport's annotations, and what they say: as the watch shows it, never older than own writes.

Whoever owns a claim can write anything into them. So what is taken over is only what Rootport could have written.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver import DRIVER_NAME
from driver.explain.reasons import Reason
from driver.explain.tell.summary import NOTE_BYTES, shortened

__all__ = ["ANNOTATIONS", "MESSAGE", "REASON", "UNKNOWN", "Annotated", "AnnotatedClaims", "own_annotations"]

REASON: Final = f"{DRIVER_NAME}/pending-reason"
MESSAGE: Final = f"{DRIVER_NAME}/pending-message"
ANNOTATIONS: Final = (REASON, MESSAGE)
UNKNOWN: Final = "Unknown"
"""Stands for a reason that is none of :class:`~driver.explain.reasons.Reason`: somebody else wrote it."""

_LOOKED_AT: Final = 4 * NOTE_BYTES
_REASONS: Final = {str(reason): str(reason) for reason in Reason}


def own_annotations(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What an object's annotations say among :data:`ANNOTATIONS`: a known reason, and a short printable message."""
    annotations = metadata.get("annotations") or {}
    said = {}
    if REASON in annotations:
        said[REASON] = _REASONS.get(annotations[REASON], UNKNOWN)
    if MESSAGE in annotations:
        said[MESSAGE] = shortened(str(annotations[MESSAGE])[:_LOOKED_AT], NOTE_BYTES)
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    """What a claim's annotations say.

    Attributes:
        uid: The claim's.
        version: The claim's resource version.
        said: Of :func:`own_annotations`.
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
        said = own_annotations(metadata)
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
        """What the claim's annotations say (:func:`own_annotations`); empty where it has none."""
        with self._lock:
            known = self._claims.get(key)
            return {} if known is None else known.said

    def all(self) -> tuple[str, ...]:
        """The claims that have some."""
        with self._lock:
            return tuple(key for key, known in self._claims.items() if known.said)
