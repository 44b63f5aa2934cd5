"""Measures how long the kubelet's calls take and counts those that fail, for the metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.adapters.http.durations import Durations
from driver.api.claim_reference import ClaimReference
from driver.errors import RootportError
from driver.status.metric_family import Distribution
from kubeletplugin.service import ClaimPrepared, ClaimService

__all__ = ["OPERATIONS", "OperationCounts", "TimedClaims"]

OPERATIONS: Final = ("prepare", "unprepare")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCounts:
    """Counts since the process was started, by operation.

    Attributes:
        durations: One for each claim of a call: how long the call took that had it.
        errors: How many claims of calls got an error for an answer.
    """

    durations: Mapping[str, Distribution]
    errors: Mapping[str, int]


class TimedClaims:
    """A :class:`ClaimService` whose calls are counted.

    Args:
        claims: Does the work.
        clock: Monotonic seconds.
    """

    def __init__(self, claims: ClaimService, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._claims = claims
        self._clock = clock
        self._durations = Durations(OPERATIONS)
        self._lock = threading.Lock()
        self._errors = Counter(dict.fromkeys(OPERATIONS, 0))

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        """As :meth:`ClaimService.prepare`."""
        began = self._clock()
        answers = self._claims.prepare(claims)
        self._count("prepare", began, answers)
        return answers

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        """As :meth:`ClaimService.unprepare`."""
        began = self._clock()
        answers = self._claims.unprepare(claims)
        self._count("unprepare", began, answers)
        return answers

    def so_far(self) -> OperationCounts:
        """Return the counts until now."""
        with self._lock:
            return OperationCounts(durations=self._durations.so_far(), errors=dict(self._errors))

    def _count(self, operation: str, began: float, answers: Mapping[str, ClaimPrepared | RootportError | None]) -> None:
        self._durations.add(operation, self._clock() - began, times=len(answers))
        failed = sum(isinstance(answer, RootportError) for answer in answers.values())
        with self._lock:
            self._errors[operation] += failed
