"""Explanations as a part of the controller: started by the publisher, and asked by HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from controller.explanations.budgeted import ON_DEMAND, ROUTINE, BudgetedExplainer, ExplanationBudget
from controller.explanations.fair_sharing import RequestLimiter
from controller.explanations.informers import ExplanationInformers
from controller.explanations.loop import ExplanationLoop
from controller.explanations.pending_claims import PendingClaim, PendingClaims
from controller.explanations.pending_pods import Pace
from controller.explanations.redaction import hide_names
from controller.explanations.shared_state import BusyError, SharedClusterState
from controller.explanations.write_limits import WriteRateLimiter
from controller.explanations.writer import ReportWriter
from driver.adapters.kubernetes.api import KubernetesApi
from driver.allocator.features import Features
from driver.errors import InputError
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.known.placing import Placing
from driver.explain.known.state import ClusterState

__all__ = ["Explanations"]

_ASK_AGAIN: Final = "ask again in a moment: it goes on where it was"

_WRITES_PER_S: Final = 10.0
_BURST: Final = 100
_NAMESPACE_BURST: Final = 50
_MOST_QUEUED: Final = 1000  # changes, a second's work


class Explanations:
    """Explains pending claims as long as this controller leads. Start it on the elected leader alone.

    Args:
        api: The API server.
        instance: The reporting instance of Events.
        all_names: Whether Events and annotations may name claims and pods of other namespaces.
        features: The feature gates of the cluster; None for Kubernetes' defaults.
        placing: This controller, and the policy by which it places.
        why_not_placed: Returns why placement finds no node for a pod, by its UID; empty where it has not said so.
        pace: How often pods are explained.
        pending_changed: Called when the list of pending claims has changed.
        timed: Times an explanation.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        *,
        instance: str,
        all_names: bool,
        features: Features | None = None,
        placing: Placing | None = None,
        why_not_placed: Callable[[str], str] = lambda _pod_uid: "",
        pace: Pace | None = None,
        pending_changed: Callable[[], None] = lambda: None,
        timed: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._api = api
        self._instance = instance
        self._all_names = all_names
        self._pace = pace
        self._timed = timed
        self._cluster = SharedClusterState(
            skipped=api.skipped, features=features, placing=placing, why_not_placed=why_not_placed
        )
        self._pending = PendingClaims(self._cluster, changed=pending_changed)
        self._informers = ExplanationInformers(api, self._cluster)
        self._limiter = RequestLimiter()
        self._explainer: BudgetedExplainer | None = None
        self._loop: ExplanationLoop | None = None
        self._others_are_synced: Callable[[], bool] = lambda: False

    @property
    def handler(self) -> SharedClusterState:
        """The handler of the events of :class:`~controller.cluster.informers.ClusterInformers`."""
        return self._cluster

    def is_synced(self) -> bool:
        """Whether all that explanations are made from was read once."""
        return self._others_are_synced() and self._informers.are_synced

    @property
    def pending(self) -> tuple[PendingClaim, ...]:
        """The pending claims, as they were a second ago."""
        return self._pending.claims

    @property
    def pending_problem(self) -> str:
        """Why it is not known yet which claims are pending; empty if it is."""
        return "" if self._pending.is_known else "the cluster is being read: ask again in a moment"

    @property
    def put_off(self) -> int:
        """How many pods wait for minutes before they are explained again, because that takes very long."""
        return self._loop.put_off if self._loop is not None else 0

    @property
    def problem(self) -> str:
        """Why nothing can be explained here and now; empty if it can."""
        if self._explainer is None:
            return "this controller does not lead: ask another one"
        # A request applies all queued changes in one go; at the start that is the loop's work, in pieces.
        is_read = self.is_synced() and self._cluster.queued <= _MOST_QUEUED
        return "" if is_read else "the cluster is being read: ask again in a moment"

    def start(
        self, stop: threading.Event, *, is_synced: Callable[[], bool], yield_to_slices: Callable[[], None]
    ) -> list[threading.Thread]:
        """Start threads; the last of them is the one that writes.

        Args:
            stop: Ends them.
            is_synced: Whether the controller's other informers have read everything once.
            yield_to_slices: Waits until nothing more urgent is due.
        """
        self._others_are_synced = is_synced
        self._explainer = BudgetedExplainer(self._cluster, stop)
        limiter = WriteRateLimiter(stop, per_s=_WRITES_PER_S, burst=_BURST, namespace_burst=_NAMESPACE_BURST)
        writer = ReportWriter(
            self._api,
            self._cluster.annotated,
            instance=self._instance,
            pause=limiter.wait,
        )
        loop = self._loop = ExplanationLoop(
            self._cluster,
            explain=self._explain_routinely,
            writer=writer,
            yield_to_slices=yield_to_slices,
            stop=stop,
            pace=self._pace,
            timed=self._timed,
        )
        worker = threading.Thread(target=loop.run, args=(self.is_synced,), name="explanations", daemon=True)
        pending = threading.Thread(
            target=self._pending.run, args=(stop, self.is_synced), name="pending-claims", daemon=True
        )
        threads = self._informers.start(stop)
        pending.start()
        worker.start()
        return [*threads, pending, worker]

    def explain(self, subject: ObjectRef, *, all_names: bool) -> Explanation:
        """Explain a ResourceClaim or a Pod, as the cluster is now. Thread-safe, while :attr:`problem` is empty.

        Requests run one after the other, and each first applies the queued changes of the cluster.

        Args:
            subject: The object.
            all_names: Whether the caller may know the names of other namespaces' claims and pods.

        Raises:
            BusyError: Too many ask at once.
            InputError: There is no such object; with similar names only for callers who may know all names.
        """
        with self._limiter.slot(subject.namespace):
            if not all_names:
                with self._cluster.use(wait_s=ON_DEMAND.wait_s) as state:
                    if not _is_there(state, subject):
                        raise InputError(f"there is no {subject}")
            found = self._explained(subject, ON_DEMAND, all_names=all_names)
        return replace(found, notes=(*found.notes, _ASK_AGAIN)) if found.is_cut else found

    def _explain_routinely(self, subject: ObjectRef) -> Explanation:
        return self._explained(subject, ROUTINE, all_names=self._all_names)

    def _explained(self, subject: ObjectRef, budget: ExplanationBudget, *, all_names: bool) -> Explanation:
        if self._explainer is None:
            raise BusyError("this controller does not lead: ask another one")
        found = self._explainer.explain(subject, budget)
        if all_names:
            return found
        return hide_names(found, namespace=subject.namespace, others=self._cluster.namespaces)


def _is_there(state: ClusterState, subject: ObjectRef) -> bool:
    key = f"{subject.namespace}/{subject.name}"
    kind, found = (Kind.POD, state.pod(key)) if subject.kind == "Pod" else (Kind.CLAIM, state.claim(key))
    return found is not None or state.left_out.why(kind, key) != ""
