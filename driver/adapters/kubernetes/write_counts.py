"""Counts the writes to the API server, by kind and verb."""

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
    """The writes since the process started.

    Attributes:
        sent: The writes that were sent, failed ones included.
        failed: The writes that were refused, or got no answer.
    """

    sent: Mapping[WriteKey, int]
    failed: Mapping[WriteKey, int]


class WriteCounter:
    """Counts the writes of one or several :class:`driver.adapters.kubernetes.api.KubernetesApi`. Thread-safe."""

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
        """Return the counts; both have the same kinds and verbs."""
        with self._lock:
            return WriteCounts(sent=dict(self._sent), failed=dict(self._failed))
