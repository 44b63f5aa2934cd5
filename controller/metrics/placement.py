"""The metric families of placement."""

from __future__ import annotations

from collections.abc import Iterator

from controller.placement.counts import PlacementCounts
from driver.status.metric_family import Family, family

__all__ = ["placement_families"]


def placement_families(counts: PlacementCounts) -> Iterator[Family]:
    """Yield all families of placement."""
    yield family(
        "counter",
        "rootport_placement_decisions_total",
        "Decisions about pods on managed nodes, by what came of them; a pod that fits nowhere is decided again.",
        ("outcome",),
        (((outcome,), float(count)) for outcome, count in counts.decisions.items()),
    )
    yield family(
        "counter",
        "rootport_placement_deallocations_total",
        "Allocations for pods on managed nodes that were taken back before the pod was bound, by why.",
        ("reason",),
        (((reason,), float(count)) for reason, count in counts.taken_back.items()),
    )
    yield family(
        "gauge",
        "rootport_placement_waiting_pods",
        "Pods with claims that have no node yet.",
        (),
        [((), float(counts.waiting))],
    )
    yield family(
        "histogram",
        "rootport_placement_allocation_duration_seconds",
        "From the creation of a claim to its allocation on a managed node.",
        (),
        [((), counts.allocating)],
    )
    yield family(
        "histogram",
        "rootport_placement_decision_duration_seconds",
        "How long a decision about a pod takes.",
        (),
        [((), counts.deciding)],
    )
    yield family(
        "gauge",
        "rootport_placement_fragmented_gpus",
        "How many of the free GPUs of all nodes typical pods cannot use: the fragmentation that policies keep small.",
        (),
        [((), counts.fragmentation_in_all / 1000)],
    )
    yield family(
        "gauge",
        "rootport_placement_node_fragmented_gpus",
        "The same of a node; of the thousand nodes where it is most.",
        ("node",),
        (((node,), value / 1000) for node, value in sorted(counts.fragmentation.items())),
    )
