"""Takes a snapshot of the plugin's parts at each scrape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver import __version__
from driver.errors import RootportError
from driver.model.inventory import Inventory
from driver.status.metric_family import Family
from kubeletplugin.claims.timed import OperationCounts
from kubeletplugin.health import HealthMonitor
from kubeletplugin.internal_errors import InternalError, guarded, internal_errors
from kubeletplugin.metrics.families import node_families
from kubeletplugin.metrics.pod_resources import ClaimKey, PodContainer
from kubeletplugin.metrics.shares import Share, shares_of
from kubeletplugin.metrics.snapshot import NodeSnapshot
from kubeletplugin.state.entry import Entry

__all__ = ["NodeMetrics"]

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMetrics:
    """The source of the plugin's metrics; each of its parts is safe to use from any thread.

    Attributes:
        node: The node's name.
        inventory: Returns the latest inventory; None before the first discovery.
        health: Holds the health of the devices.
        entries: Returns the prepared claims that hold devices; raises RootportErrors.
        containers: Returns the containers of each claim.
        operations: Returns the durations and errors of the kubelet's calls.
        internal_errors: Returns the number of unexpected errors, by part of the plugin.
    """

    node: str
    inventory: Callable[[], Inventory | None]
    health: HealthMonitor
    entries: Callable[[], Collection[Entry]]
    containers: Callable[[], Mapping[ClaimKey, Sequence[PodContainer]]]
    operations: Callable[[], OperationCounts]
    internal_errors: Callable[[], Mapping[str, int]] = internal_errors

    def families(self) -> Iterator[Family]:
        """Return all families, as of now."""
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
