"""Placement as a part of the controller: started by the publisher on the leader alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from controller.explanations.informers import ExplanationInformers
from controller.placement.claim_reconciler import ClaimReconciler
from controller.placement.context import PlacementContext
from controller.placement.counts import PlacementCounter, PlacementCounts
from controller.placement.events import PlacementEvents
from controller.placement.gate_opener import GateOpener
from controller.placement.known import KnownCluster
from controller.placement.loop import PlacementLoop
from controller.placement.managed_nodes import SETTLE_S, ManagedNodes
from controller.placement.pod_reconciler import PodReconciler
from controller.placement.pods import transform_pod
from controller.placement.unplaced import UnplacedPods
from controller.placement.writer import ClaimWriter
from driver.adapters.kubernetes.api import KubernetesApi
from driver.allocator.features import Features

__all__ = ["PlacementService"]


class PlacementService:
    """Places pods as long as this controller leads. Start it on the elected leader alone.

    Args:
        api: The API server.
        policy: The name of the policy.
        identity: The identity in the leader Lease.
        instance: The reporting instance of Events.
        may_write: Returns whether this process leads for sure.
        features: The feature gates of the cluster; None for Kubernetes' defaults.
        settle_s: How long devices must have been tainted before they are allocated.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        policy: str,
        identity: str,
        instance: str,
        may_write: Callable[[], bool],
        features: Features | None = None,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._api = api
        self._policy = policy
        self._identity = identity
        self._may_write = may_write
        self._known = KnownCluster(api.skipped, features)
        self._informers = ExplanationInformers(api, self._known, pods=transform_pod, of_pods="")
        self._counter = PlacementCounter()
        self._unplaced = UnplacedPods()
        self._events = PlacementEvents(api, instance=instance)
        self._is_labelled: Callable[[str], bool] = lambda _node: False
        self._may_be_written: Callable[[str], bool] = lambda _node: False
        # What says so is known later: when this is started.
        self._nodes = ManagedNodes(
            lambda node: self._is_labelled(node),  # noqa: PLW0108
            may_be_written=lambda node: self._may_be_written(node),  # noqa: PLW0108
            settle_s=settle_s,
        )

    @property
    def handler(self) -> KnownCluster:
        """The handler of the events of :class:`~controller.cluster.informers.ClusterInformers`."""
        return self._known

    @property
    def counts(self) -> PlacementCounts:
        """What was counted until now."""
        return self._counter.so_far()

    def why_not(self, pod_uid: str) -> str:
        """Return why a pod fits nowhere, as it was decided last; empty where it does, or nothing was decided."""
        return self._unplaced.why(pod_uid)

    def is_tainted(self, node: str) -> bool:
        """Return whether a node's devices are to have the taint of managed nodes."""
        return self._nodes.is_tainted(node)

    def is_leaving(self, node: str) -> bool:
        """Return whether a node keeps the taint for a moment, although its label is gone."""
        return not self._is_labelled(node) and self._nodes.is_tainted(node)

    def start(
        self,
        stop: threading.Event,
        *,
        is_synced: Callable[[], bool],
        is_labelled: Callable[[str], bool],
        pools: Callable[[], Collection[str]],
    ) -> list[threading.Thread]:
        """Start the threads; the last but one writes allocations.

        Args:
            stop: Ends them.
            is_synced: Whether claims, nodes and slices have been read once.
            is_labelled: Returns whether a Node has the label of managed nodes.
            pools: Returns the names of the nodes with slices of this driver.
        """
        self._is_labelled = is_labelled

        def has_other_devices() -> bool:
            names = pools()
            return not names or not all(map(is_labelled, names))

        context = PlacementContext(
            self._known, policy=self._policy, counts=self._counter, events=self._events, unplaced=self._unplaced
        )
        writer = ClaimWriter(
            self._api, self._known.records, self._nodes, identity=self._identity, may_write=self._may_write
        )
        claims = ClaimReconciler(context, writer, identity=self._identity)
        self._may_be_written = claims.may_be_written
        gates = GateOpener(context, writer)
        pods = PodReconciler(context, claims, gates, writer, has_other_devices=has_other_devices, stop=stop)
        loop = PlacementLoop(
            context, pods=pods, gates=gates, claims=claims, writer=writer, nodes=self._nodes, stop=stop
        )
        threads = self._informers.start(stop)
        worker = threading.Thread(
            target=loop.run,
            args=(lambda: is_synced() and self._informers.are_synced,),
            name="placement",
            daemon=True,
        )
        events = threading.Thread(target=self._events.run, args=(stop,), name="placement-events", daemon=True)
        worker.start()
        events.start()
        return [*threads, worker, events]

    def close(self) -> None:
        """Let the loop notice that it is to stop."""
        self._known.woken.set()
