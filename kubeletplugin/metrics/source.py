"""Joins what the parts of the plugin know to one snapshot, each time that somebody scrapes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from driver import __version__
from driver.errors import RootportError
from driver.health.readings import GpuReading, NicReading
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.status.metric_family import Family
from kubeletplugin.claims.timed import OperationCounts
from kubeletplugin.internal_errors import InternalError, guarded, internal_errors
from kubeletplugin.metrics.families import node_families
from kubeletplugin.metrics.pod_resources import ClaimKey, PodContainer
from kubeletplugin.metrics.shares import Share, shares_of
from kubeletplugin.metrics.snapshot import NodeSnapshot
from kubeletplugin.state.entry import Entry

__all__ = ["HealthFacts", "NodeMetrics"]

_LOG: Final = logging.getLogger(__name__)


class HealthFacts(Protocol):
    """What :class:`kubeletplugin.health.HealthMonitor` knows."""

    def readings(self) -> tuple[tuple[GpuReading, ...], tuple[NicReading, ...]]:
        """The latest readings of GPUs and of NICs."""
        ...

    def health(self) -> NodeHealth:
        """What is wrong with the node's devices."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMetrics:
    """Where the plugin's metrics come from; each part is safe to ask from any thread.

    Attributes:
        node: The node's name.
        inventory: What discovery found last; None before the first look.
        health: What is known of the health of devices.
        entries: The prepared claims that hold devices; raises RootportErrors.
        containers: Which containers have which claims.
        operations: What the kubelet's calls took.
        internal_errors: How many errors that nobody expected there were, by part of the plugin.
    """

    node: str
    inventory: Callable[[], Inventory | None]
    health: HealthFacts
    entries: Callable[[], Collection[Entry]]
    containers: Callable[[], Mapping[ClaimKey, Sequence[PodContainer]]]
    operations: Callable[[], OperationCounts]
    internal_errors: Callable[[], Mapping[str, int]] = internal_errors

    def families(self) -> Iterator[Family]:
        """All families, as of now."""
        return node_families(self._snapshot())

    def _snapshot(self) -> NodeSnapshot:
        inventory = self.inventory()
        gpus, nics = self.health.readings()
        entries: Collection[Entry] | None
        shares: tuple[Share, ...] = ()
        try:
            with guarded("metrics", "the prepared claims"):
                entries = self.entries()
                shares = shares_of(entries, inventory)
        except RootportError as error:
            # What is prepared is not known then; the rest is, and somebody wants to be alarmed by it.
            _LOG.warning("prepared claims are not in the metrics", extra={"error": str(error)})
            entries = None
        return NodeSnapshot(
            node=self.node,
            version=__version__,
            inventory=inventory,
            operations=self.operations(),
            health=self.health.health(),
            gpus=gpus,
            nics=nics,
            shares=shares,
            prepared_claims=None if entries is None else len(entries),
            containers=self._containers() if shares else {},
            internal_errors=self.internal_errors(),
        )

    def _containers(self) -> Mapping[ClaimKey, Sequence[PodContainer]]:
        try:
            with guarded("metrics", "the kubelet's answer on containers"):
                return self.containers()
        except InternalError:
            return {}
