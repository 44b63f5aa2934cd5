"""Counts what the controller does, and joins that with what it knows for each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from controller.conversion.counts import ConversionCounter
from controller.metrics.families import ControllerSnapshot, controller_families
from controller.placement.counts import PlacementCounts
from driver import __version__
from driver.adapters.http.durations import Durations
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.adapters.kubernetes.write_counts import WriteCounter
from driver.status.metric_family import Family
from driver.status.overview import NodeOverview

__all__ = ["PASSES", "ControllerCounts", "ControllerMetrics", "CountedClaim", "pending_by_reason"]

PASSES: Final = ("slices", "devices", "explain")
"""The names of the work that is timed; a label of a metric, so they stay."""

_NO_POD: Final = "WaitingForPod"  # as explain names it (driver.explain.reasons)
_NOT_YET: Final = "NotExplained"


class CountedClaim(Protocol):
    """The counted part of :class:`controller.explanations.pending_claims.PendingClaim`.

    A protocol, so that a controller without explanations does not load them.
    """

    @property
    def reason(self) -> str:
        """Why it is pending; empty if that is not known yet."""
        ...

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods that wait for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerCounts:
    """What is counted all the time.

    Attributes:
        writes: Counts the writes to the API server.
        skipped: Counts the objects that are left out.
        passes: Times the work of :data:`PASSES`.
        conversions: Counts the pods that are converted, and their templates; None if none are.
    """

    writes: WriteCounter = field(default_factory=WriteCounter)
    skipped: SkippedObjects = field(default_factory=SkippedObjects)
    passes: Durations = field(default_factory=lambda: Durations(PASSES))
    conversions: ConversionCounter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMetrics:
    """The sources of the controller's metrics. Each of them is thread-safe.

    Attributes:
        counts: What is counted.
        leads: Returns whether it is the leader.
        nodes: Returns the nodes; none while it does not lead.
        pending: Returns the pending claims; none while it does not lead.
        put_off: Returns how many pods wait for long to be explained because that takes very long.
        placement: Returns what placement has counted; None if this controller places nothing.
    """

    counts: ControllerCounts
    leads: Callable[[], bool]
    nodes: Callable[[], Iterable[NodeOverview]]
    pending: Callable[[], Iterable[CountedClaim]]
    put_off: Callable[[], int]
    placement: Callable[[], PlacementCounts | None] = lambda: None

    def families(self) -> Iterator[Family]:
        """Return all families, as of now."""
        snapshot = ControllerSnapshot(
            version=__version__,
            leads=self.leads(),
            nodes=self.nodes(),
            pending=pending_by_reason(self.pending()),
            put_off=self.put_off(),
            writes=self.counts.writes.so_far(),
            skipped=self.counts.skipped.so_far(),
            passes=self.counts.passes.so_far(),
            conversions=self.counts.conversions.so_far() if self.counts.conversions else None,
            placement=self.placement(),
        )
        return controller_families(snapshot)


def pending_by_reason(claims: Iterable[CountedClaim]) -> Mapping[str, int]:
    """Count the pending claims by reason.

    Claims that are not explained yet count as NotExplained, those that no pod waits for as WaitingForPod.
    """
    return Counter(claim.reason or (_NOT_YET if claim.pods else _NO_POD) for claim in claims)
