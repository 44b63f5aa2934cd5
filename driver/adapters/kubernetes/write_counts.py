"""Counts what is written to the API server, by kind and verb, until somebody asks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.request import Request

__all__ = ["WriteCounter", "WriteCounts", "WriteKey"]

WriteKey: TypeAlias = tuple[str, str]
"""The kind as RBAC names it, such as ``devices.rootport.dev/status``, and the verb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCounts:
    """What was counted since the process was started.

    Attributes:
        sent: Writes that were sent, those that failed included.
        failed: Of these, those that were refused, or to which no answer came.
    """

    sent: Mapping[WriteKey, int]
    failed: Mapping[WriteKey, int]


class WriteCounter:
    """Listens to :class:`driver.adapters.kubernetes.api.KubernetesApi`, or to several. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = Counter[WriteKey]()
        self._failed = Counter[WriteKey]()

    def __call__(self, request: Request, error: ApiServerError | None) -> None:
        """Count a write."""
        kind = f"{request.resource}/{request.subresource}" if request.subresource else str(request.resource)
        key = (kind, request.verb)
        with self._lock:
            self._sent[key] += 1
            self._failed[key] += 0 if error is None else 1

    def so_far(self) -> WriteCounts:
        """What was counted until now; both have the same kinds and verbs."""
        with self._lock:
            return WriteCounts(sent=dict(self._sent), failed=dict(self._failed))
