"""The rule that chooses the layout of GPUs for the whole cluster.

Where the figures come from: docs/dev/performance.md. In Kubernetes 1.36 and older, kube-scheduler's cost for a pod
grows with the square of the nodes once any slice has counters (k8s.io/dynamic-resource-allocation v0.36.3,
structured/internal/incubating: GatherPools takes slices with counters as relevant for every node). From 1.37 on it
grows with the devices of the slices and the counters that they consume.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["MOST_NODES_BACK_TO_FULL", "MOST_NODES_FULL", "Choice", "Layout", "choose"]

MOST_NODES_FULL: Final = 16
"""The most Nodes of a cluster that has every device published."""

MOST_NODES_BACK_TO_FULL: Final = 12
"""The most Nodes at which a cluster that was larger has that again: a Node that comes and goes changes nothing."""

_FIRST_LEAN: Final = 37  # Kubernetes 1.37
_FIRST_COUNTERS: Final = 35  # before, counters and their consumers had to be in one slice (KEP-4815)
_DROPPED: Final = "CountersDropped"


class Layout(StrEnum):
    """How the devices of GPUs are published."""

    FULL = "full"
    """Every device that the policies offer, at once; counters make those of a GPU exclude each other."""

    LEAN = "lean"
    """Each GPU in the mode in which it is used, or in the first one that it is offered in; some free ones in all."""

    ONE = "one"
    """Each GPU in one mode at a time, which follows the pending claims; no counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The layout for the cluster, and why.

    Attributes:
        layout: The layout.
        reason: Why, in one CamelCase word.
        message: Why, for a person.
        has_counters: Whether the API server keeps counters: what is published by this choice has to go by that.
    """

    layout: Layout
    reason: str
    message: str
    has_counters: bool = True


def choose(
    *,
    minor: Callable[[], int],
    has_counters: bool,
    nodes: int,
    former: Layout | None = None,
    override: Layout | None = None,
) -> Choice:
    """Choose the layout.

    Args:
        minor: Returns the API server's minor version: 37 of Kubernetes 1.37. Called only where that matters.
        has_counters: Whether the API server keeps counters in slices of their own (Kubernetes 1.35, and feature gate
            DRAPartitionableDevices).
        nodes: How many Nodes the cluster has.
        former: The layout until now; None at the start.
        override: The layout that the administrator has set; None for none.
    """
    if not has_counters:
        ignored = f"; --gpu-layout {override} is ignored" if override not in (None, Layout.ONE) else ""
        return Choice(
            layout=Layout.ONE,
            reason=_DROPPED,
            message=f"{_no_counters(minor())}{ignored}",
            has_counters=False,
        )
    if override is not None:
        return Choice(layout=override, reason="Configured", message=f"--gpu-layout is {override}")
    most = MOST_NODES_FULL if former in (None, Layout.FULL) else MOST_NODES_BACK_TO_FULL
    if nodes <= most:
        return Choice(
            layout=Layout.FULL, reason="SmallCluster", message=f"the cluster has at most {MOST_NODES_FULL} Nodes"
        )
    size = f"the cluster has, or had, more than {MOST_NODES_FULL} Nodes"
    if minor() >= _FIRST_LEAN:
        return Choice(
            layout=Layout.LEAN,
            reason="LargeCluster",
            message=f"{size}, and kube-scheduler's cost grows with the devices and counters in the slices",
        )
    return Choice(
        layout=Layout.ONE,
        reason="CountersSlowScheduler",
        message=f"{size}; before Kubernetes 1.37 what counters cost kube-scheduler grows with the square of the Nodes",
    )


def _no_counters(minor: int) -> str:
    if minor < _FIRST_COUNTERS:
        return (
            "each GPU is published in one mode at a time: Kubernetes 1.34 does not take the counters "
            "that would keep the modes apart as Rootport publishes them; 1.35 does, with its feature gate "
            "DRAPartitionableDevices on"
        )
    return (
        "the API server drops the counters that would keep the modes of a GPU apart; its feature gate "
        "DRAPartitionableDevices is off"
    )
