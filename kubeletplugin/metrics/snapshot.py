"""The facts that the plugin's metrics are made of, as of one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from driver.health.readings import GpuReading, NicReading
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from kubeletplugin.claims.timed import OperationCounts
from kubeletplugin.metrics.pod_resources import ClaimKey, PodContainer
from kubeletplugin.metrics.shares import Share

__all__ = ["NodeSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """A node at one moment.

    Attributes:
        node: Its name.
        version: The plugin's.
        inventory: What it has; None before the first discovery.
        health: The faults of its devices.
        gpus: The latest readings of GPUs; of those that were read.
        nics: Likewise of NICs.
        shares: The shares of its devices that prepared claims have.
        prepared_claims: The number of prepared claims; None if that, and with it the shares, is not known.
        containers: The containers of each claim; empty if the kubelet does not report them.
        operations: The durations and errors of the kubelet's calls.
        internal_errors: The number of unexpected errors, by part of the plugin.
    """

    node: str
    version: str
    inventory: Inventory | None
    operations: OperationCounts
    health: NodeHealth = field(default_factory=NodeHealth)
    gpus: tuple[GpuReading, ...] = ()
    nics: tuple[NicReading, ...] = ()
    shares: tuple[Share, ...] = ()
    prepared_claims: int | None = 0
    containers: Mapping[ClaimKey, Sequence[PodContainer]] = field(default_factory=dict)
    internal_errors: Mapping[str, int] = field(default_factory=dict)
