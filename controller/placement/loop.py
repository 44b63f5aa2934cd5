"""Places the pods that wait, takes back what is not used, and opens gates: one thread decides, a few write."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from controller.placement.claim_reconciler import ClaimReconciler
from controller.placement.context import CLAIM, PlacementContext
from controller.placement.gate_opener import GateOpener
from controller.placement.known import Changes
from controller.placement.managed_nodes import ManagedNodes
from controller.placement.pod_reconciler import PodReconciler
from controller.placement.writer import ClaimWriter, Result

__all__ = ["PlacementLoop"]

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 0.2
_CHANGES_AT_ONCE: Final = 200
_PASS_S: Final = 0.25  # then changes are taken in again
_RECONCILE_S: Final = 0.5
_IDLE_S: Final = 2.0
_FENCE_S: Final = 60.0  # longer than any request may take; what is left then costs nodes, not all placement
_FRAGMENTATION_S: Final = 30.0
_FREED_AT_ONCE: Final = 20  # pods that fit nowhere are tried at once when something has become free


class PlacementLoop:
    """Places pods. All that is here but :meth:`run` is for its thread.

    Args:
        context: What is shared with the rest of the loop.
        pods: Takes the next steps of pods.
        gates: Opens gates.
        claims: Looks after claims.
        writer: Writes.
        nodes: The managed nodes.
        stop: Ends everything.
    """

    def __init__(
        self,
        context: PlacementContext,
        *,
        pods: PodReconciler,
        gates: GateOpener,
        claims: ClaimReconciler,
        writer: ClaimWriter,
        nodes: ManagedNodes,
        stop: threading.Event,
    ) -> None:
        self._context = context
        self._pods = pods
        self._gates = gates
        self._claims = claims
        self._writer = writer
        self._nodes = nodes
        self._stop = stop
        self._reconcile_again = 0.0
        self._measure_again = 0.0
        self._measured = -1

    def run(self, is_synced: Callable[[], bool]) -> None:
        """Place pods until stopped; no failure ends it."""
        while not is_synced() or self._context.known.apply(_CHANGES_AT_ONCE):
            if self._stop.wait(0.0 if is_synced() else _TICK_S):
                return
        self._fence_predecessors()
        _LOG.info("placement begins", extra={"waiting": len(self._context.known.waiting)})
        while not self._stop.is_set():
            self._context.known.woken.clear()
            try:
                self._pass()
            except Exception:  # noqa: BLE001 - a mistake of ours must not end placement, nor this process
                _LOG.exception("unexpected error; pods are placed again in a moment")
                self._stop.wait(1.0)
            self._context.known.woken.wait(self._idle_s())
        self._context.jobs.close()

    def _idle_s(self) -> float:
        """Return how long nothing is due unless something changes."""
        if self._context.known.queued or (len(self._context.queue) and self._context.jobs.has_room):
            return 0.0
        return (
            _RECONCILE_S
            if self._context.retries or self._pods.unsettled or self._context.known.records.unused()
            else _IDLE_S
        )

    def _fence_predecessors(self) -> None:
        """Make sure that no earlier leader's allocation is still under way, before anything is decided."""
        end = self._context.clock() + _FENCE_S
        left = [record.key for record in self._context.known.records.unused() if record.is_intent]
        while left and not self._stop.is_set() and self._context.clock() < end:
            failed = []
            for key in left:
                result, error = self._writer.fence(key)
                if result is not Result.DONE:
                    failed.append(key)
                    _LOG.warning(
                        "a claim of the leader before is looked at again", extra={"claim": key, "error": error}
                    )
            left = failed
            if left:
                self._stop.wait(1.0)
        if left:
            nodes = sorted(self._claims.unfenced())
            _LOG.error(
                "claims of the leader before cannot be written; their nodes are left out until they can",
                extra={"claims": ", ".join(left[:20]), "nodes": ", ".join(nodes[:20])},
            )

    def _pass(self) -> None:
        self._context.jobs.finish()
        changes = self._context.known.take_changes()
        began = self._context.clock()
        with self._context.known.use():
            self._take_in(changes)
            while self._context.jobs.has_room and self._context.clock() - began < _PASS_S and not self._stop.is_set():
                pod = self._context.queue.pop()
                if pod is None:
                    break
                at = self._context.clock()
                try:
                    self._pods.reconcile(pod)
                except Exception:  # noqa: BLE001 - one pod's failure must not end the work on the others
                    _LOG.exception("placing failed; the pod is looked at again later", extra={"pod": pod.key})
                    self._context.counts.decided("failed")
                    self._context.retries.failed(pod.key, first_s=5.0, limit_s=600.0)
                self._context.queue.charge(pod.namespace, self._context.clock() - at)
            if self._context.clock() >= self._reconcile_again:
                self._reconcile_again = self._context.clock() + _RECONCILE_S
                self._claims.reconcile()
                self._measure()

    def _take_in(self, changes: Changes) -> None:
        """Take in what has changed: who is due, and which bindings have ended."""
        self._count_bound(changes)
        for key in changes.claims:
            self._context.claim_changed(key)
            for pod in self._context.state.pods_of(key):
                self._context.enqueue(pod.key)
        for key in changes.pods:
            waiting = self._context.known.waiting.get(key)
            if waiting is not None:
                self._gates.observe(waiting)
            self._context.enqueue(key)
        if changes.pods:
            self._context.end_bindings()
        self._pods.unfenced = self._claims.unfenced()
        unsettled = self._nodes.unsettled(self._context.state)
        if changes.frees or unsettled != self._pods.unsettled:
            self._pods.unsettled = unsettled
            for key in self._context.retries.first(_FREED_AT_ONCE):
                self._context.enqueue(key)
        for key in self._context.retries.due():
            if not key.startswith(CLAIM):  # claims are looked at anyway
                self._context.enqueue(key)
        self._context.counts.waiting = len(self._context.known.waiting)

    def _count_bound(self, changes: Changes) -> None:
        for key, wire in changes.bound.items():
            try:
                self._context.placer.put_bound_pod(key, wire)
            except Exception:  # noqa: BLE001 - the other pods must not suffer
                _LOG.exception("a pod cannot be counted on its node", extra={"pod": key})

    def _measure(self) -> None:
        now = self._context.clock()
        if now >= self._measure_again and self._measured != self._context.state.generation:
            self._measure_again, self._measured = now + _FRAGMENTATION_S, self._context.state.generation
            self._context.counts.fragmented(self._context.placer.fragmentation())
