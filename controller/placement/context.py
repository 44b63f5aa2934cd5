"""What the reconcilers share: the queue of pods, pending bindings, what failed; for the one thread of the loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from controller.placement.counts import PlacementCounter
from controller.placement.events import PlacementEvents
from controller.placement.failures import FailedNodes
from controller.placement.jobs import Jobs
from controller.placement.known import KnownCluster
from controller.placement.next_step import Reason
from controller.placement.pace import Pace
from controller.placement.pending_bindings import PendingBinding, PendingBindings, assume_claims
from controller.placement.pod_queue import PodQueue
from controller.placement.retries import Retries
from controller.placement.unplaced import UnplacedPods
from driver.explain.known.state import ClusterState
from driver.placement.decision import Decision
from driver.placement.placer import Placer

__all__ = ["CLAIM", "PlacementContext"]

_LOG: Final = logging.getLogger(__name__)

CLAIM: Final = "claim "
"""Before the key of a claim among retries, where pods have theirs; no key has a space."""
_MOST_TOLD: Final = 8
_BACKING_OFF: Final = "resting "  # likewise
_BACK_OFF_S: Final = 10.0
"""So long a claim that lost its allocation gets none, where kube-scheduler may be binding a pod with the former one.

It would reserve the claim on the new node for a pod that it binds to the former one: after a conflict it only looks
whether the claim is allocated (bindClaim in k8s.io/kubernetes v1.37.2, dynamicresources.go). If it finds no allocation,
it fails as it should."""


class PlacementContext:
    """What the reconcilers and the loop share.

    Args:
        known: The cluster, as the informers show it.
        policy: The name of the policy.
        counts: Counts decisions, for metrics.
        events: Writes Events for the owners of pods.
        unplaced: Keeps why pods fit nowhere; None for one that nobody else asks.
        clock: Monotonic seconds.

    Attributes:
        known: The cluster, as the informers show it; what is written is taken in there as well.
        counts: Counts decisions, how long they take, and allocations that are taken back.
        events: Writes Events for the owners of pods.
        unplaced: Keeps for each pod that fits nowhere why that is so.
        clock: Returns monotonic seconds; all waits are counted by it.
        state: The cluster's state: one object for good, which changes in the loop's thread alone.
        placer: Decides.
        queue: The pods that are due.
        bindings: What was allocated for pods that are not bound yet.
        failed: Where pods could not be.
        pace: How often each pod may be placed.
        retries: The pods and claims that are looked at again later.
        jobs: The writes under way.
    """

    def __init__(
        self,
        known: KnownCluster,
        *,
        policy: str,
        counts: PlacementCounter,
        events: PlacementEvents,
        unplaced: UnplacedPods | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = known
        self.counts = counts
        self.events = events
        self.unplaced = unplaced or UnplacedPods()
        self.clock = clock
        with known.use() as state:
            self.state: ClusterState = state
            self.placer = Placer(state, policy=policy)
        self.queue = PodQueue()
        self.bindings = PendingBindings()
        self.failed = FailedNodes()
        self.pace = Pace()
        self.retries = Retries(clock)
        self.jobs = Jobs(known.woken)

    def enqueue(self, key: str) -> None:
        """Queue a pod if it waits, and is not held; forget it if it does not wait."""
        pod = self.known.waiting.get(key)
        if pod is not None:
            if not self.retries.is_held(key):
                self.queue.add(pod)
        else:
            self.queue.remove(key)
            self.retries.forget(key)

    def end_bindings(self) -> None:
        """Forget the pending bindings of pods that are bound, or gone."""
        for binding in list(self.bindings):
            pod = self.state.pod(binding.decision.pod)
            if pod is not None and pod.uid == binding.pod_uid and pod.is_waiting:
                continue
            self.bindings.drop(binding.pod_uid)
            self.failed.forget(binding.pod_uid)
            self.pace.forget(binding.pod_uid)
            if pod is None or pod.uid != binding.pod_uid or not pod.node:
                self.forget(binding.decision)

    def claim_changed(self, key: str) -> None:
        """Notice that kube-scheduler has deallocated a claim: the pod could not be there after all."""
        if self.known.records.get(key) is None:
            self.retries.forget(CLAIM + key)
        binding = self.bindings.of_claim(key)
        if binding is None or self.jobs.is_busy((key,)):
            return
        record = self.known.records.get(key)
        if record is not None and (record.is_allocated or record.version <= binding.claims[key]):
            return
        self.drop_binding(binding)
        if record is not None:
            if sum(pod.is_waiting for pod in self.state.pods_of(key)) > 1:
                self.back_off(key)  # another one may be on its way to where it was
            avoided_s = self.failed.add(binding.pod_uid, binding.node, Reason.SCHEDULER, self.clock())
            self.counts.took_back(Reason.SCHEDULER.value)
            self.tell_taken_back(key, binding.node, Reason.SCHEDULER)
            _LOG.info(
                "kube-scheduler could not place a pod where its claims were",
                extra={"pod": binding.decision.pod, "node": binding.node, "avoided_s": round(avoided_s)},
            )

    def tell_taken_back(self, claim: str, node: str, reason: Reason) -> None:
        """Tell the pods that wait for a claim that it was taken back."""
        for pod in self.state.pods_of(claim)[:_MOST_TOLD]:
            if pod.is_waiting:
                self.events.taken_back((pod.key, pod.uid), claim, node, reason)

    def back_off(self, key: str) -> None:
        """Leave a claim without an allocation for a while."""
        self.retries.failed(_BACKING_OFF + key, first_s=_BACK_OFF_S, limit_s=_BACK_OFF_S)

    def is_backing_off(self, key: str) -> bool:
        """Return whether a claim is to get no allocation yet."""
        return self.retries.is_held(_BACKING_OFF + key)

    def drop_binding(self, binding: PendingBinding) -> None:
        """Forget a pending binding of which a claim is not allocated any more."""
        self.bindings.drop(binding.pod_uid)
        self.forget(binding.decision)

    def forget(self, decision: Decision) -> None:
        """Let a pod take no place any more; those of its claims that are allocated hold what they hold."""
        self.placer.forget(decision)
        held = [claim.key for claim in decision.claims if self.is_allocated(claim.key, claim.uid)]
        assume_claims(self.state, decision, held)

    def is_allocated(self, key: str, uid: str) -> bool:
        """Return whether a claim is allocated, as far as is known of the API server."""
        record = self.known.records.get(key)
        return record is not None and record.uid == uid and record.is_allocated
