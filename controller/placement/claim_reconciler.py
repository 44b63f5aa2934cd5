"""Takes back what is allocated and not used, and clears what was written for it."""

from __future__ import annotations

import logging
from typing import Final

from controller.placement.context import CLAIM, PlacementContext
from controller.placement.failures import FIRST_S
from controller.placement.jobs import Job
from controller.placement.next_step import ClaimStep, Reason, claim_step
from controller.placement.records import ClaimRecord
from controller.placement.uses import ClaimUses
from controller.placement.writer import ClaimWriter, Result

__all__ = ["ClaimReconciler"]

_LOG: Final = logging.getLogger(__name__)
_LONGEST_HOLD_S: Final = 600.0
_BACKS_OFF: Final = (Reason.NODE_UNUSABLE, Reason.UNUSED, Reason.GIVEN_TWICE)
"""Reasons for which kube-scheduler may be binding a pod; for the others no pod that waits has all its claims."""


class ClaimReconciler:
    """Looks after the claims with the annotation. For one thread.

    Args:
        context: What is shared with the rest of the loop.
        writer: Writes.
        identity: This controller's.
    """

    def __init__(self, context: PlacementContext, writer: ClaimWriter, *, identity: str) -> None:
        self._context = context
        self._writer = writer
        self._identity = identity
        self._uses = ClaimUses(context.known.waiting, clock=context.clock)

    def reconcile(self) -> None:
        """Take back what is not used, and clear what was announced and not allocated."""
        unused = self._context.known.records.unused()
        for record in unused:
            if (
                self._context.jobs.is_busy((record.key,))
                or not self._context.jobs.has_room
                or self._context.retries.is_held(CLAIM + record.key)
            ):
                continue
            step, reason = claim_step(record, self._uses.of(record, self._context.state), own=self._identity)
            if step is ClaimStep.TAKE_BACK and reason is not None:
                self.take_back(record, reason)
            elif step is ClaimStep.CLEAR:
                self._clear(record)
        self._uses.retain({record.key for record in unused})

    def unfenced(self) -> frozenset[str]:
        """Return the nodes where an earlier leader's allocation may still come."""
        unused = self._context.known.records.unused()
        return frozenset(item.note.node for item in unused if item.note and self._is_of_others(item))

    def may_be_written(self, node: str) -> bool:
        """Return whether an allocation on a node has been announced, and may come. Thread-safe."""
        return any(
            record.is_intent
            and record.note is not None
            and record.note.node == node
            and (self._is_of_others(record) or self._context.jobs.is_busy((record.key,)))
            for record in self._context.known.records.unused()
        )

    def _is_of_others(self, record: ClaimRecord) -> bool:
        return record.is_intent and record.note is not None and record.note.by != self._identity

    def take_back(self, record: ClaimRecord, reason: Reason) -> None:
        """Take an allocation back, unless something is being written there, or was refused lately."""
        if self._context.jobs.is_busy((record.key,)) or self._context.retries.is_held(CLAIM + record.key):
            return
        if reason in _BACKS_OFF:
            self._context.back_off(record.key)

        def on_done(result: tuple[Result, str] | None) -> None:
            if not self._context.is_allocated(record.key, record.uid):
                self._context.counts.took_back(reason.value)
                self._finish_take_back(record, reason)
            self._done(record.key, result)

        self._context.jobs.start(Job((record.key,), lambda: self._writer.take_back(record), on_done))

    def _finish_take_back(self, record: ClaimRecord, reason: Reason) -> None:
        pod_uid = record.note.pod_uid if record.note is not None else ""
        _LOG.info("an allocation is taken back", extra={"claim": record.key, "node": record.pool, "why": reason.value})
        if reason is Reason.UNUSED:  # why a node is unusable is in the state: nothing is placed there until it is over
            wait_s = self._context.failed.add(pod_uid, record.pool, reason, self._context.clock())
            self._hold_pods(record.key, min(wait_s - FIRST_S, _LONGEST_HOLD_S))
        self._context.tell_taken_back(record.key, record.pool, reason)
        binding = self._context.bindings.of_claim(record.key)
        if binding is not None:
            self._context.drop_binding(binding)
            self._context.enqueue(binding.decision.pod)

    def _hold_pods(self, key: str, wait_s: float) -> None:
        """Let a claim's pods wait before they are placed again: else one that can run nowhere keeps others waiting."""
        for pod in self._context.state.pods_of(key) if wait_s > 0 else ():
            if pod.is_waiting:
                self._context.retries.failed(pod.key, first_s=wait_s, limit_s=wait_s)

    def _clear(self, record: ClaimRecord) -> None:
        def on_done(result: tuple[Result, str] | None) -> None:
            self._done(record.key, result)

        self._context.jobs.start(Job((record.key,), lambda: self._writer.clear(record), on_done))

    def _done(self, key: str, result: tuple[Result, str] | None) -> None:
        if result is not None and result[0] is Result.DONE:
            self._context.retries.forget(CLAIM + key)
            return
        error = result[1] if result is not None else ""
        wait_s = self._context.retries.failed(CLAIM + key, first_s=0.5, limit_s=300.0)
        _LOG.debug("a claim is looked at again", extra={"claim": key, "error": error, "retry_in_s": round(wait_s, 1)})
