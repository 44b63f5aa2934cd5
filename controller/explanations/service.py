"""Explanations as a part of the controller: what the publisher starts, and what HTTP asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from controller.explanations.loop import ExplanationLoop, Pace
from controller.explanations.mirror import BusyError, Mirror
from controller.explanations.names import hide_names
from controller.explanations.pending import PendingClaim, PendingClaims
from controller.explanations.pieces import ON_DEMAND, ROUTINE, Pieces, Size
from controller.explanations.turns import Turns
from controller.explanations.watches import ExplanationWatches
from controller.explanations.write_pace import WritePace
from controller.explanations.writer import OutcomeWriter
from driver.adapters.kubernetes.api import KubernetesApi
from driver.errors import InputError
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState

__all__ = ["Explanations"]

_ASK_AGAIN: Final = "ask again in a moment: it goes on where it was"

_WRITES_PER_S: Final = 10.0
_WRITES_AT_ONCE: Final = 100
_WRITES_AT_ONCE_EACH: Final = 50  # for a namespace
_MOST_WAITING: Final = 1000  # changes, a second's work


class Explanations:
    """Explains pending claims as long as this controller leads. :meth:`start` it on the elected leader alone.

    Args:
        api: The API server.
        instance: Who reports, in Events.
        all_names: Whether Events and annotations may name claims and pods of other namespaces.
        pace: How often, and how much at a time.
        pending_changed: Called when other claims are pending, or for other reasons.
        timed: Times a round over the pending claims.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        instance: str,
        all_names: bool,
        pace: Pace | None = None,
        pending_changed: Callable[[], None] = lambda: None,
        timed: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._api = api
        self._instance = instance
        self._all_names = all_names
        self._pace = pace
        self._timed = timed
        self._mirror = Mirror(skipped=api.skipped)
        self._pending = PendingClaims(self._mirror, changed=pending_changed)
        self._watches = ExplanationWatches(api, self._mirror)
        self._turns = Turns()
        self._pieces: Pieces | None = None
        self._loop: ExplanationLoop | None = None
        self._others_are_synced: Callable[[], bool] = lambda: False

    @property
    def listener(self) -> Mirror:
        """What the watches of :class:`~controller.cluster.view.ClusterView` feed."""
        return self._mirror

    @property
    def pending(self) -> tuple[PendingClaim, ...]:
        """The pending claims, as they were a second ago."""
        return self._pending.now

    @property
    def pending_problem(self) -> str:
        """Why it is not known yet which claims are pending; empty where it is."""
        return "" if self._pending.is_known else "the cluster is being read: ask again in a moment"

    @property
    def put_off(self) -> int:
        """How many pods wait for minutes before they are looked at again, because that takes very long."""
        return self._loop.put_off if self._loop is not None else 0

    @property
    def problem(self) -> str:
        """Why nothing can be explained here and now; empty where it can."""
        if self._pieces is None:
            return "this controller does not lead: ask another one"
        # Whoever asks takes over what is waiting, at one go; at the start that is the loop's work, in pieces.
        is_read = self._is_synced() and self._mirror.waiting <= _MOST_WAITING
        return "" if is_read else "the cluster is being read: ask again in a moment"

    def start(
        self, stop: threading.Event, *, is_synced: Callable[[], bool], go_first: Callable[[], None]
    ) -> list[threading.Thread]:
        """Begin, in threads of their own; the last of them is the one that writes.

        Args:
            stop: Ends them.
            is_synced: Whether the watches of others have fed everything once.
            go_first: Waits until nothing more urgent is due.
        """
        self._others_are_synced = is_synced
        self._pieces = Pieces(self._mirror, stop)
        pace = WritePace(stop, per_s=_WRITES_PER_S, at_once=_WRITES_AT_ONCE, at_once_each=_WRITES_AT_ONCE_EACH)
        writer = OutcomeWriter(
            self._api,
            self._mirror.annotated,
            instance=self._instance,
            pause=pace.wait,
        )
        loop = self._loop = ExplanationLoop(
            self._mirror,
            explain=self._explain_for_all,
            writer=writer,
            go_first=go_first,
            stop=stop,
            pace=self._pace,
            timed=self._timed,
        )
        worker = threading.Thread(target=loop.run, args=(self._is_synced,), name="explanations", daemon=True)
        pending = threading.Thread(
            target=self._pending.run, args=(stop, self._is_synced), name="pending-claims", daemon=True
        )
        threads = self._watches.start(stop)
        pending.start()
        worker.start()
        return [*threads, pending, worker]

    def explain(self, subject: ObjectRef, *, all_names: bool) -> Explanation:
        """Explain a ResourceClaim or a Pod, as the cluster is now. For any thread, while :attr:`problem` is empty.

        Those who ask take turns, and what is still to be taken over of the cluster's changes goes first.

        Args:
            subject: The object.
            all_names: Whether whoever asks may know the names of other namespaces' claims and pods.

        Raises:
            BusyError: Too many ask at once.
            InputError: There is no such object; with names that are alike only for who may know all names.
        """
        with self._turns.turn(subject.namespace):
            if not all_names:
                with self._mirror.use(wait_s=ON_DEMAND.wait_s) as state:
                    if not _is_there(state, subject):
                        raise InputError(f"there is no {subject}")
            found = self._explained(subject, ON_DEMAND, all_names=all_names)
        return replace(found, notes=(*found.notes, _ASK_AGAIN)) if found.is_cut else found

    def _explain_for_all(self, subject: ObjectRef) -> Explanation:
        return self._explained(subject, ROUTINE, all_names=self._all_names)

    def _explained(self, subject: ObjectRef, size: Size, *, all_names: bool) -> Explanation:
        if self._pieces is None:
            raise BusyError("this controller does not lead: ask another one")
        found = self._pieces.explain(subject, size)
        if all_names:
            return found
        return hide_names(found, namespace=subject.namespace, others=self._mirror.namespaces)

    def _is_synced(self) -> bool:
        return self._others_are_synced() and self._watches.are_synced


def _is_there(state: ClusterState, subject: ObjectRef) -> bool:
    key = f"{subject.namespace}/{subject.name}"
    kind, found = (Kind.POD, state.pod(key)) if subject.kind == "Pod" else (Kind.CLAIM, state.claim(key))
    return found is not None or state.left_out.why(kind, key) != ""
