"""Turns a snapshot of the controller into Prometheus' metric families, whose names are an interface: see the docs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.conversion.counts import Conversions
from controller.metrics.nodes import node_families
from controller.metrics.placement import placement_families
from controller.placement.counts import PlacementCounts
from driver.adapters.kubernetes.skipped import SkipReason
from driver.adapters.kubernetes.write_counts import WriteCounts
from driver.status.metric_family import Distribution, Family, family
from driver.status.overview import NodeOverview

__all__ = ["ControllerSnapshot", "controller_families"]

_WRITE: Final = ("resource", "verb")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSnapshot:
    """A controller at one moment.

    Attributes:
        version: Its version.
        leads: Whether it is the leader; only the leader knows nodes and claims.
        nodes: The nodes.
        pending: How many claims are pending, by reason.
        put_off: How many pods wait for long to be explained because that takes very long.
        writes: The writes to the API server.
        skipped: How many objects were left out, by kind and reason.
        passes: How long reconciliations and explanations took, by name.
        conversions: The pods that were converted, and their templates; None if this controller converts none.
        placement: What placement has done; None if this controller places nothing.
    """

    version: str
    leads: bool
    nodes: Iterable[NodeOverview]
    pending: Mapping[str, int]
    put_off: int
    writes: WriteCounts
    skipped: Mapping[tuple[str, SkipReason], int]
    passes: Mapping[str, Distribution]
    conversions: Conversions | None = None
    placement: PlacementCounts | None = None


def controller_families(snapshot: ControllerSnapshot) -> Iterator[Family]:
    """Yield all of a controller's families, each once; those of which nothing is known have no samples."""
    yield from node_families(snapshot.nodes)
    yield family(
        "gauge",
        "rootport_pending_claims",
        "Claims that wait for devices, by why: the reason that explain gives.",
        ("reason",),
        (((reason,), float(count)) for reason, count in sorted(snapshot.pending.items())),
    )
    yield family(
        "gauge",
        "rootport_explanations_put_off",
        "Pods whose claims take so long to explain that it is tried again after minutes only.",
        (),
        [((), float(snapshot.put_off))],
    )
    writes = snapshot.writes
    yield family(
        "counter",
        "rootport_api_writes_total",
        "Writes that were sent to the API server, by kind and verb; those that failed too.",
        _WRITE,
        ((key, float(count)) for key, count in sorted(writes.sent.items())),
    )
    yield family(
        "counter",
        "rootport_api_write_errors_total",
        "Writes that the API server refused, or did not answer. A conflict counts; it is tried again.",
        _WRITE,
        ((key, float(count)) for key, count in sorted(writes.failed.items())),
    )
    yield family(
        "counter",
        "rootport_api_objects_skipped_total",
        "Versions of objects from the API server that were left out: too large, unreadable, or not processed.",
        ("resource", "reason"),
        ((key, float(count)) for key, count in sorted(snapshot.skipped.items())),
    )
    yield family(
        "histogram",
        "rootport_pass_duration_seconds",
        "How long a pass took: over the slices or Device objects of one node, or the explanation of one pod.",
        ("pass",),
        (((name,), found) for name, found in snapshot.passes.items()),
    )
    if snapshot.conversions is not None:
        yield from _conversion_families(snapshot.conversions)
    if snapshot.placement is not None:
        yield from placement_families(snapshot.placement)
    yield family(
        "gauge",
        "rootport_leader",
        "Whether this controller is the leader: 1 or 0.",
        (),
        [((), 1.0 if snapshot.leads else 0.0)],
    )
    yield family(
        "gauge",
        "rootport_controller_info",
        "The controller; always 1.",
        ("version",),
        [((snapshot.version,), 1.0)],
    )


def _conversion_families(found: Conversions) -> Iterator[Family]:
    yield family(
        "counter",
        "rootport_pod_conversions_total",
        "Pods that were reviewed to be converted, by what came of it; failed ones could not get their templates.",
        ("outcome",),
        (((outcome,), float(count)) for outcome, count in sorted(found.pods.items())),
    )
    yield family(
        "counter",
        "rootport_claim_conversions_total",
        "Claims with a percentage that were reviewed, by what came of it; noted ones keep one, with a warning.",
        ("outcome",),
        (((outcome,), float(count)) for outcome, count in sorted(found.claims.items())),
    )
    yield family(
        "counter",
        "rootport_converted_templates_created_total",
        "ResourceClaimTemplates that were created for converted pods.",
        (),
        [((), float(found.created))],
    )
    yield family(
        "counter",
        "rootport_converted_templates_collected_total",
        "ResourceClaimTemplates of converted pods that were deleted because no pod named them any more.",
        (),
        [((), float(found.collected))],
    )
