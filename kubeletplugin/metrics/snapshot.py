"""All that the plugin's metrics are made of, as of one moment."""

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
        inventory: What it has; None before the first look at the hardware.
        health: What is wrong with its devices.
        gpus: The latest readings of GPUs; of those that were read.
        nics: Likewise of NICs.
        shares: What prepared claims have of its devices.
        prepared_claims: How many claims are prepared; None where that, and the shares with it, is not known.
        containers: Which containers have which claims; nothing where the kubelet does not tell.
        operations: What the kubelet's calls took.
        internal_errors: How many errors that nobody expected there were, by part of the plugin.
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
