"""Counts what the controller does, and joins it with what it knows, each time that somebody scrapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from controller.metrics.families import ControllerSnapshot, controller_families
from driver import __version__
from driver.adapters.http.durations import Durations
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.adapters.kubernetes.write_counts import WriteCounter
from driver.status.metric_family import Family
from driver.status.overview import NodeOverview

__all__ = ["PASSES", "ControllerCounts", "ControllerMetrics", "Pending", "pending_by_reason"]

PASSES: Final = ("slices", "devices", "explain")
"""The names of the passes that are timed."""

_NO_POD: Final = "WaitingForPod"  # as explain names it (driver.explain.reasons)
_NOT_YET: Final = "NotExplained"


class Pending(Protocol):
    """What counts of :class:`controller.explanations.pending.PendingClaim`."""

    @property
    def reason(self) -> str:
        """Why it is pending; empty where that was not found yet."""
        ...

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods that wait for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerCounts:
    """What is counted all the time.

    Attributes:
        writes: Listens to the clients of the API server.
        skipped: Gets the objects that the clients of the API server leave out.
        passes: How long the passes of :data:`PASSES` take.
    """

    writes: WriteCounter = field(default_factory=WriteCounter)
    skipped: SkippedObjects = field(default_factory=SkippedObjects)
    passes: Durations = field(default_factory=lambda: Durations(PASSES))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMetrics:
    """Where the controller's metrics come from; each part is safe to ask from any thread.

    Attributes:
        counts: What it did.
        leads: Whether it is the leader.
        nodes: The nodes; none while it does not lead.
        pending: The pending claims; none while it does not lead.
        put_off: How many pods wait for long to be explained because that takes very long.
    """

    counts: ControllerCounts
    leads: Callable[[], bool]
    nodes: Callable[[], Iterable[NodeOverview]]
    pending: Callable[[], Iterable[Pending]]
    put_off: Callable[[], int] = lambda: 0

    def families(self) -> Iterator[Family]:
        """All families, as of now."""
        snapshot = ControllerSnapshot(
            version=__version__,
            leads=self.leads(),
            nodes=self.nodes(),
            pending=pending_by_reason(self.pending()),
            put_off=self.put_off(),
            writes=self.counts.writes.so_far(),
            skipped=self.counts.skipped.so_far(),
            passes=self.counts.passes.so_far(),
        )
        return controller_families(snapshot)


def pending_by_reason(claims: Iterable[Pending]) -> Mapping[str, int]:
    """How many claims are pending for which reason.

    One that was not explained yet has a reason of ours; one that no pod waits for is never explained.
    """
    return Counter(claim.reason or (_NOT_YET if claim.pods else _NO_POD) for claim in claims)
