"""Places a pod, or opens its gate: the next step of one pod, and what came of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from controller.placement.claim_reconciler import ClaimReconciler
from controller.placement.context import PlacementContext
from controller.placement.gate_opener import GateOpener
from controller.placement.jobs import Job
from controller.placement.next_step import PodStep, Reason, pod_step
from controller.placement.pending_bindings import PendingBinding, restored_binding
from controller.placement.pods import WaitingPod
from controller.placement.records import ClaimRecord
from controller.placement.writer import AllocationOutcome, ClaimWriter, Result
from driver.explain.known.cluster import EXTENDED_CLAIM, PodState
from driver.model.managed_nodes import GATE
from driver.placement.decision import Decision, Placement

__all__ = ["PodReconciler"]

_LOG: Final = logging.getLogger(__name__)
_SOON_S: Final = 0.2
_BACK_OFF_S: Final = 1.0
_SLOW_S: Final = 20.0
_MOST_TRIES: Final = 60  # one a second
_UNSETTLED: Final = "has become managed only now"
_UNFENCED: Final = "an allocation by an earlier leader may still come there"
_FAILED: Final = "kube-scheduler could not place it there"


class PodReconciler:
    """Takes the next steps of the pods that wait. For one thread.

    Args:
        context: What is shared with the rest of the loop.
        claims: Takes claims back.
        gates: Opens gates.
        writer: Writes.
        has_other_devices: Returns whether there are devices of ours that kube-scheduler allocates.
        stop: Ends everything.

    Attributes:
        unsettled: The managed nodes where nothing may be allocated yet.
        unfenced: The nodes where an earlier leader's allocation may still come.
    """

    def __init__(
        self,
        context: PlacementContext,
        claims: ClaimReconciler,
        gates: GateOpener,
        writer: ClaimWriter,
        *,
        has_other_devices: Callable[[], bool],
        stop: threading.Event,
    ) -> None:
        self.unsettled: frozenset[str] = frozenset()
        self.unfenced: frozenset[str] = frozenset()
        self._context = context
        self._claims = claims
        self._gates = gates
        self._writer = writer
        self._has_other_devices = has_other_devices
        self._stop = stop

    def reconcile(self, waiting: WaitingPod) -> None:
        """Take the next step of a pod: wait, place it, or open its gate."""
        pod = self._context.state.pod(waiting.key)
        if pod is None or pod.uid != waiting.uid or not pod.is_waiting:
            return
        if not pod.claims and GATE in waiting.gates:
            self._gates.nominate(waiting, pod, avoid=dict.fromkeys(self.unsettled, _UNSETTLED))
            return
        entries = [entry for entry in pod.claims if not entry.needs_none and entry.name != EXTENDED_CLAIM]
        keys = [f"{pod.namespace}/{entry.claim}" for entry in entries]
        if self._context.jobs.is_busy((pod.key, *keys)):
            self._context.retries.at(pod.key, _SOON_S)
            return
        records = [
            self._context.known.records.get(key) if entry.claim else None
            for key, entry in zip(keys, entries, strict=True)
        ]
        match pod_step(waiting.gates, records):
            case PodStep.WAIT:
                self._restore_binding(waiting, records)
            case PodStep.UNGATE:
                self._restore_binding(waiting, records)
                self._gates.open(waiting)
            case PodStep.PLACE if any(self._context.is_backing_off(key) for key in keys):
                self._context.retries.at(pod.key, _BACK_OFF_S)
            case PodStep.PLACE:
                self._place(waiting, pod, [record for record in records if record is not None])

    def _restore_binding(self, pod: WaitingPod, records: list[ClaimRecord | None]) -> None:
        """Follow a pod whose claims an earlier leader has allocated, as those that this one allocates."""
        ours = [record for record in records if record is not None and record.is_ours and not record.is_reserved]
        if ours and self._context.bindings.get(pod.uid) is None:
            binding = restored_binding(pod.key, pod.uid, ours[0].pool, {record.key: record.version for record in ours})
            self._context.placer.assume(binding.decision)
            self._context.bindings.add(binding)

    def _place(self, waiting: WaitingPod, pod: PodState, records: list[ClaimRecord]) -> None:
        began = self._context.clock()
        wait_s = self._context.pace.wait_s(pod.uid, began)
        if wait_s:
            self._context.retries.at(pod.key, wait_s)
            return
        failed = self._context.failed.of(pod.uid, began)
        avoid = dict.fromkeys(self.unsettled, _UNSETTLED) | dict.fromkeys(self.unfenced, _UNFENCED)
        avoid |= dict.fromkeys(failed, _FAILED)
        decision = self._context.placer.place(pod, avoid=avoid)
        self._context.counts.took(self._context.clock() - began)
        if decision.chosen is not None:
            self._context.unplaced.forget(pod.uid)
            self._allocate(waiting, decision, decision.chosen, failed)
            return
        claims = [self._context.state.claim(record.key) for record in records]
        if any(claim is None for claim in claims) or all(claim is not None and claim.allocated for claim in claims):
            self._context.retries.at(pod.key, _SOON_S)  # what the API server answered is not in the state yet
            return
        if not decision.claims:
            # Devices of other drivers alone, or a mistake in a claim: kube-scheduler gives these, or tells of it.
            self._gates.open(waiting)
            self._context.retries.failed(pod.key, first_s=1.0, limit_s=30.0, is_held=False)
            return
        self._context.counts.decided("nowhere")
        self._context.unplaced.record(pod.uid, decision.why)
        partial = [record for record in records if self._is_for_alone(record, pod)]
        for record in partial:
            self._claims.take_back(record, Reason.PARTIAL)
        _LOG.debug("a pod fits nowhere", extra={"pod": pod.key, "why": decision.why})
        if decision.took_too_long:
            # It takes as long each time, and meanwhile no other pod is placed.
            self._context.retries.failed(pod.key, first_s=_SLOW_S, limit_s=600.0)
        else:
            self._context.retries.failed(pod.key, first_s=0.5 if partial else 1.0, limit_s=30.0, is_held=False)
        if GATE in waiting.gates and not partial and self._has_other_devices():
            self._gates.open(waiting)

    def _is_for_alone(self, record: ClaimRecord, pod: PodState) -> bool:
        """Return whether a claim is allocated by us, unused, and no other pod waits for it, which might take it."""
        if not record.is_ours or record.is_reserved:
            return False
        return not any(item.is_waiting and item.uid != pod.uid for item in self._context.state.pods_of(record.key))

    def _allocate(
        self, waiting: WaitingPod, decision: Decision, chosen: Placement, failed: Mapping[str, Reason]
    ) -> None:
        self._context.placer.assume(decision)
        self._context.pace.placed(decision.pod_uid, self._context.clock())

        def work() -> tuple[AllocationOutcome, tuple[Result, str]]:
            outcome, ungated = self._writer.allocate(decision, chosen, failed), (Result.DONE, "")
            if outcome.result is Result.DONE and GATE in waiting.gates:
                # Or kube-scheduler would look at all nodes, to find the one that the claims leave.
                ungated = self._writer.nominate(waiting.key, waiting.uid, chosen.node)
            return outcome, ungated

        def on_done(found: tuple[AllocationOutcome, tuple[Result, str]] | None) -> None:
            # After a mistake of ours nobody knows how far it came.
            all_claims = tuple(claim.key for claim in decision.claims)
            outcome, ungated = found or (AllocationOutcome(Result.UNKNOWN, {}, in_doubt=all_claims), None)
            self._finish_allocation(decision, chosen, outcome)
            if outcome.result is Result.DONE and GATE in waiting.gates:
                self._gates.opened(waiting, ungated)

        self._context.jobs.start(Job((waiting.key, *(claim.key for claim in decision.claims)), work, on_done))

    def _finish_allocation(self, decision: Decision, chosen: Placement, outcome: AllocationOutcome) -> None:
        pod = decision.pod
        if outcome.result is Result.DONE:
            self._context.bindings.add(PendingBinding(decision, chosen.node, dict(outcome.allocated)))
            self._context.retries.forget(pod)
            self._context.counts.decided("placed")
            for key in outcome.allocated:
                self._count_age(key)
            self._context.events.placed(decision, chosen)
            _LOG.info("placed", extra={"pod": pod, "node": chosen.node, "why": decision.why})
            for key in outcome.allocated:
                self._context.claim_changed(key)  # it may have been deallocated since
            if self._context.bindings.get(decision.pod_uid) is None:
                self._context.enqueue(pod)  # that change came while the pod was busy
            return
        if outcome.in_doubt:
            self._context.counts.decided("unknown")
            self._resolve_doubt(decision, outcome.in_doubt)
            return
        label = "refused" if outcome.result is Result.REFUSED else "changed"
        self._context.counts.decided(label)
        level = logging.WARNING if outcome.result is Result.REFUSED else logging.DEBUG
        _LOG.log(level, "not placed", extra={"pod": pod, "result": outcome.result.value, "error": outcome.error})
        self._context.forget(decision)
        first_s, limit_s = (5.0, 600.0) if outcome.result is Result.REFUSED else (0.1, 10.0)
        self._context.retries.failed(pod, first_s=first_s, limit_s=limit_s)

    def _resolve_doubt(self, decision: Decision, keys: tuple[str, ...], tries: int = 1) -> None:
        """Find out whether claims were allocated, or make sure that they will not be; until then they count as such."""

        def on_done(result: tuple[Result, str] | None) -> None:
            # After a minute no request is under way any more, whatever keeps the claims from being written.
            if (result is None or result[0] is not Result.DONE) and tries < _MOST_TRIES:
                self._resolve_doubt(decision, keys, tries + 1)
                return
            self._context.forget(decision)
            self._context.retries.failed(decision.pod, first_s=_SOON_S, limit_s=600.0)

        def work() -> tuple[Result, str]:
            self._stop.wait(1.0)
            for key in keys:
                result = self._writer.fence(key)
                if result[0] is not Result.DONE:
                    return result
            return Result.DONE, ""

        self._context.jobs.start(Job((decision.pod, *(claim.key for claim in decision.claims)), work, on_done))

    def _count_age(self, key: str) -> None:
        record = self._context.known.records.get(key)
        if record is not None and record.created:
            age = datetime.now(UTC) - datetime.fromisoformat(record.created)
            self._context.counts.allocated(age.total_seconds())
