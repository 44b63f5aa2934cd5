"""Explains the pods that wait for claims, one after the other, as long as nothing more urgent is due."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from controller.explanations.fair_sharing import FairShares
from controller.explanations.pending_pods import Pace, PendingPod, pending_claims, waiting_pods
from controller.explanations.reports import PendingReport
from controller.explanations.shared_state import SharedClusterState
from controller.explanations.stale_annotations import StaleAnnotations
from controller.explanations.unmade_claims import is_without_claim
from controller.explanations.writer import ReportWriter
from driver.adapters.kubernetes.errors import ApiServerError
from driver.backoff import delay_s
from driver.errors import InputError
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.tell.summary import NOTE_BYTES, summary

__all__ = ["ExplanationLoop"]

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 0.2
_CHANGES_AT_ONCE: Final = 100  # between them slices may become due
_STALE_A_ROUND: Final = 100  # users may annotate claims, again and again
_STALE_S: Final = 2.0  # as long as pods wait to be explained
_LISTING_S: Final = 1e-4  # for each pod: with 10,000 of them, the due ones are listed once a second
_FEW: Final = 4  # so many more attempts are made without a long wait


class ExplanationLoop:
    """Explains the pods that wait for claims. For one thread, that of :meth:`run`.

    Namespaces share its time: however many pods and claims one of them has, and however long these take, a pod of
    another one comes after the explanation, or the few writes, under way.

    Args:
        cluster: The state of the cluster.
        explain: Explains a pod; raises :class:`~driver.errors.InputError` if it is gone.
        writer: Writes the reports.
        yield_to_slices: Waits until nothing more urgent is due.
        stop: Ends everything.
        pace: How often pods are explained.
        timed: Times an explanation.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        cluster: SharedClusterState,
        *,
        explain: Callable[[ObjectRef], Explanation],
        writer: ReportWriter,
        yield_to_slices: Callable[[], None],
        stop: threading.Event,
        pace: Pace | None = None,
        timed: Callable[[], AbstractContextManager[object]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._explain = explain
        self._writer = writer
        self._yield_to_slices = yield_to_slices
        self._stop = stop
        self._pace = pace or Pace()
        self._timed = timed
        self._clock = clock
        self._pods: dict[str, PendingPod] = {}  # by UID
        self._due: dict[str, deque[PendingPod]] = {}  # by namespace
        self._shares = FairShares()
        self._listed_at: int | None = None  # the cluster's generation
        self._list_again = 0.0
        self._stale = StaleAnnotations()
        self._clean_up_again = 0.0
        self._failures = 0
        self._put_off = 0

    @property
    def put_off(self) -> int:
        """How many pods wait for long because explaining them takes very long. Thread-safe."""
        return self._put_off

    def run(self, is_synced: Callable[[], bool]) -> None:
        """Explain pods until stopped; no failure ends it."""
        while not is_synced():
            if self._stop.wait(_TICK_S):
                return
        has_begun = False
        while not self._stop.wait(_TICK_S):
            try:
                self._apply_changes()
                if not has_begun:
                    self._assume_reported()
                self._work()
                if not has_begun:
                    _freeze_garbage_collector()
                    has_begun = True
            except ApiServerError as error:
                self._failures += 1
                wait_s = delay_s(self._failures, first_s=self._pace.retry_s, limit_s=self._pace.longest_retry_s)
                _LOG.warning(
                    "pending claims are told of later", extra={"error": str(error), "retry_in_s": round(wait_s, 1)}
                )
                self._stop.wait(wait_s)
            except Exception:  # noqa: BLE001 - a mistake of ours must not end all explanations, nor this process
                _LOG.exception("unexpected error; pending claims are looked at again")
                self._stop.wait(self._pace.retry_s)

    def _work(self) -> None:
        """Process all pods that are due.

        Raises:
            ApiServerError: Something could not be written; it is tried again later.
        """
        while not self._stop.is_set():
            self._list()
            self._clean_up()
            if not self._due:
                return
            namespace = self._shares.next(self._due)
            ready = self._due[namespace]
            pod = ready.popleft()
            if not ready:
                del self._due[namespace]
            began = self._clock()
            self._yield_to_slices()
            try:
                self._process(pod)
            finally:
                self._shares.charge(namespace, self._clock() - began)

    def _list(self) -> None:
        """List the pods that are due."""
        now = self._clock()
        if now < self._list_again:
            return
        with self._cluster.use() as state:
            generation = state.generation
            pods = waiting_pods(state) if generation != self._listed_at else None
        self._listed_at = generation
        if pods is not None:
            known = self._pods
            self._pods = {pod.uid: known.get(pod.uid) or PendingPod(pod, now) for pod in pods}
            for pod in pods:
                self._pods[pod.uid].pod = pod
            self._cluster.unmade.retain(self._pods)
        quiet_s = self._cluster.quiet_for_s
        due = [
            item
            for item in self._pods.values()
            if item.is_due(self._pace, now=now, generation=generation, quiet_s=quiet_s)
        ]
        # Pods that were never processed come first, then the one that was processed longest ago.
        due.sort(key=lambda item: (-1.0 if item.processed_at is None else item.processed_at, item.pod.key))
        self._due = {}
        for item in due:
            self._due.setdefault(item.pod.namespace, deque()).append(item)
        self._put_off = sum(item.not_before > now for item in self._pods.values())
        self._list_again = now + _LISTING_S * len(self._pods)

    def _apply_changes(self) -> None:
        """Apply what has changed, in pieces: after a start that is the whole cluster."""
        self._yield_to_slices()
        while not self._stop.is_set() and self._cluster.apply_changes(_CHANGES_AT_ONCE):
            self._yield_to_slices()

    def _assume_reported(self) -> None:
        with self._cluster.use() as state:
            for pod in waiting_pods(state):
                for key, _ in pending_claims(state, pod):
                    self._writer.assume_reported(pod.uid, key)

    def _process(self, pending: PendingPod) -> None:
        """Explain a pod, unless nothing has changed since the last time, and write what is new."""
        began = pending.processed_at = self._clock()
        with self._cluster.use() as state:
            generation = state.generation
            found = state.pod(pending.pod.key)
            pod = found if found is not None and found.uid == pending.pod.uid else None
            claims = pending_claims(state, pod) if pod is not None else ()
            is_unmade = pod is not None and is_without_claim(state, pod)
        if pending.left:
            pending.left = tuple(claim for claim in pending.left if claim in claims)
            if pending.left:
                self._write(pending, pending.left)
            return
        if generation == pending.generation:
            self._write(pending, claims)
            return
        explanation = self._explained(pending) if claims or is_unmade else None
        took = self._clock() - began
        if explanation is None or not self._is_unfinished(pending, explanation):
            pending.generation = generation
            pending.report = None if explanation is None else self._report(pending, explanation, claims)
            if is_unmade and pending.report is not None:
                self._cluster.unmade.put(pending.pod.uid, pending.report.listed)
            self._write(pending, claims)
        self._stop.wait(max(took, 1.0 / self._pace.per_s - took))

    def _write(self, pending: PendingPod, claims: tuple[tuple[str, str], ...]) -> None:
        """Write the report for these claims of the pod, or as many as are written at a time."""
        pending.left = ()
        if pending.report is not None and not self._stop.is_set():
            pending.is_unwritten = True
            pending.left = self._writer.write(replace(pending.report, claims=claims))
            pending.is_unwritten = False
            self._failures = 0

    def _explained(self, pending: PendingPod) -> Explanation | None:
        """Return the pod's explanation; None if it is gone by now or cannot be explained."""
        try:
            with self._timed():
                return self._explain(pending.pod.ref)
        except InputError as error:
            _LOG.info("cannot be explained", extra={"pod": pending.pod.key, "error": str(error)})
        except Exception:  # noqa: BLE001 - one pod's failure must not end the work on the others
            _LOG.exception("explaining failed", extra={"pod": pending.pod.key})
        return None

    def _is_unfinished(self, pending: PendingPod, explanation: Explanation) -> bool:
        """Return whether a few more attempts will finish it: each goes on where the one before ended."""
        if self._stop.is_set():
            return True
        unknown = explanation.nodes_unknown if explanation.is_cut else 0
        before = explanation.nodes if pending.unknown is None else pending.unknown
        pending.unfinished = pending.unfinished + 1 if 0 < unknown <= _FEW * (before - unknown) else 0
        pending.unfinished %= _FEW + 1
        pending.unknown = unknown if pending.unfinished else None
        return pending.unfinished > 0

    def _report(
        self, pending: PendingPod, explanation: Explanation, claims: tuple[tuple[str, str], ...]
    ) -> PendingReport:
        later = self._put_off_if_cut(pending, explanation)
        message = summary(explanation, max_bytes=NOTE_BYTES - len(later.encode())) + later
        return PendingReport(pod=pending.pod.ref, claims=claims, reason=explanation.reason, message=message)

    def _put_off_if_cut(self, pending: PendingPod, explanation: Explanation) -> str:
        """Put a pod off if its explanation did not fit the budget: the next will not either.

        Returns:
            A sentence that says when it is explained again; empty if it is not put off.
        """
        if not explanation.is_cut:
            pending.over_budget = 0
            return ""
        pending.over_budget += 1
        wait_s = delay_s(
            pending.over_budget, first_s=self._pace.over_budget_s, limit_s=self._pace.longest_over_budget_s
        )
        pending.not_before = self._clock() + wait_s
        pending.generation = -1
        self._put_off += 1
        _LOG.warning(
            "explaining takes too long; the pod is looked at again later",
            extra={"pod": pending.pod.key, "nodes_unknown": explanation.nodes_unknown, "retry_in_s": round(wait_s, 1)},
        )
        return f" To explain it takes very long: Rootport looks again in {round(wait_s / 60)} minutes."

    def _clean_up(self) -> None:
        """Remove the annotations of claims that are allocated, or that no pod waits for any more: some each round."""
        now = self._clock()
        if now < self._clean_up_again:
            return
        self._clean_up_again = now + self._pace.round_s
        stale: dict[str, str] = {}
        claims: set[str] = set()
        with self._cluster.use() as state:
            for key in self._cluster.annotated.claims():
                claim = state.claim(key)
                if claim is None:
                    continue
                if claim.allocated or not any(pod.is_waiting for pod in state.pods_of(key)):
                    stale[key] = claim.uid
            for key in state.pending():
                claim = state.claim(key)
                if claim is not None:
                    claims.add(claim.uid)
        longest_s = _STALE_S if self._pods else self._pace.round_s
        for key in self._stale.next(stale, _STALE_A_ROUND):
            if self._clock() - now > longest_s:
                break
            self._yield_to_slices()
            self._stale.attempted(key)
            self._writer.clear(key, stale[key])
        self._writer.forget_all_but(self._pods, claims)


def _freeze_garbage_collector() -> None:
    """Exempt what stays from garbage collection: for a cluster of 5,000 nodes it takes most of a second each time."""
    gc.collect()
    gc.freeze()
