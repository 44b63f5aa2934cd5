"""What else the leader does besides slices and Device objects, as the publisher starts it.

Protocols, so that a controller that does without a part does not load it: explanations bring the allocator and CEL.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from controller.cluster.event_forwarder import ClusterEventHandler
from controller.cluster.inventories import StoredInventory
from controller.cluster.pod_index import PodDevices
from controller.modes.wishes import Wishes
from controller.slices.supply import PublishableGpus

__all__ = ["BackgroundWork", "CollectorWork", "CompatibilityWork", "DemandWork"]


class BackgroundWork(Protocol):
    """What explains pending claims: :class:`controller.explanations.service.Explanations`."""

    @property
    def handler(self) -> ClusterEventHandler:
        """The handler of the informers' events."""

    def start(
        self, stop: threading.Event, *, is_synced: Callable[[], bool], yield_to_slices: Callable[[], None]
    ) -> list[threading.Thread]:
        """Start threads; the last of them is the one that writes."""


class DemandWork(Protocol):
    """What makes modes of GPUs follow pending claims: :class:`controller.demand.follower.DemandFollower`."""

    def start(
        self,
        stop: threading.Event,
        *,
        supply: PublishableGpus,
        wishes: Wishes,
        yield_to_slices: Callable[[], None],
    ) -> threading.Thread:
        """Start the thread."""


class CompatibilityWork(Protocol):
    """What writes what other systems' tools read: :class:`controller.compatibility.service.Compatibility`."""

    def pod_changed(self, uid: str) -> None:
        """Take note that the devices of the pod with this UID have changed."""

    def node_changed(self, node: str) -> None:
        """Take note that a node's inventory has changed."""

    def start(
        self,
        stop: threading.Event,
        *,
        is_synced: Callable[[], bool],
        pod: Callable[[str], PodDevices | None],
        inventory: Callable[[str], StoredInventory | None],
        yield_to_slices: Callable[[], None],
    ) -> list[threading.Thread]:
        """Start the threads."""

    def close(self) -> None:
        """End the work once the writes under way are done."""


class CollectorWork(Protocol):
    """What deletes templates that no pod names: :class:`controller.conversion.collector.TemplateCollector`."""

    def start(self, stop: threading.Event) -> threading.Thread:
        """Start the thread."""
