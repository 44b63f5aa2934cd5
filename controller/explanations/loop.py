"""Whom to explain when: pods whose claims are pending, one after the other, as long as nothing more urgent is due."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

from controller.explanations.mirror import Mirror
from controller.explanations.records import Outcome
from controller.explanations.tidying import Tidying
from controller.explanations.turns import Shares
from controller.explanations.writer import OutcomeWriter
from driver.adapters.kubernetes.errors import ApiServerError
from driver.errors import InputError
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.known.cluster import PodState
from driver.explain.known.state import ClusterState
from driver.explain.tell.summary import NOTE_BYTES, summary

__all__ = ["ExplanationLoop", "Pace"]

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 0.2
_AT_ONCE: Final = 100  # changes; between them slices may become due
_TIDIED_A_ROUND: Final = 100  # anybody may annotate claims, again and again
_TIDY_S: Final = 2.0  # as long as pods wait to be explained
_LISTING_S: Final = 1e-4  # a pod: with 10,000 of them, who is due is found out once a second
_FEW: Final = 4  # attempts more: so many are made without a long wait
_CLAIMS_OF_A_POD: Final = 64  # that are annotated; a pod may name a thousand


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often, and how much at a time.

    Attributes:
        settle_s: So long after the last change nothing is explained anew...
        round_s: ...unless it was twice as long ago; and between two looks at one pod there is at least as much.
        wait_s: How long a pod's claims may be pending before anybody is told: the scheduler needs a moment.
        idle_s: After so long a pod is looked at although nothing changed: its Event may be due again.
        per_s: Explanations a second; each is followed by a pause as long as it took, at least.
        dear_s: A pod whose explanation takes longer than one may take is looked at again after so long, whatever
            changes meanwhile; doubled each time.
        longest_dear_s: The most of that.
        retry_s: After a write that failed; doubled each time until one goes well.
        longest_retry_s: The most of that.
    """

    settle_s: float = 2.0
    round_s: float = 10.0
    wait_s: float = 5.0
    idle_s: float = 30.0
    per_s: float = 20.0
    dear_s: float = 300.0
    longest_dear_s: float = 3600.0
    retry_s: float = 5.0
    longest_retry_s: float = 300.0


@dataclass(slots=True, eq=False)
class _Waiting:
    """A pod with pending claims.

    Attributes:
        pod: The pod, as it was when pods were listed last.
        since: When it was first seen so.
        looked_at: When it was looked at last; None where it was not yet.
        generation: What the cluster was then.
        outcome: What was found.
        is_unwritten: That could not be written.
        left: The claims whose annotations are to be written in the next turns; empty where it could not be written.
        unfinished: How many attempts were made that came so far that a few more will come to the end.
        unknown: Of how many nodes nothing was known after the last of these.
        dear: How often, one after the other, it took longer than an explanation may take.
        not_before: When it may be looked at again.
    """

    pod: PodState
    since: float
    looked_at: float | None = None
    generation: int = -1
    outcome: Outcome | None = None
    is_unwritten: bool = False
    left: tuple[tuple[str, str], ...] = ()
    unfinished: int = 0
    unknown: int | None = None
    dear: int = 0
    not_before: float = 0.0


class ExplanationLoop:
    """Looks at the pods with pending claims. For one thread, that of :meth:`run`.

    Namespaces share its time: however many pods and claims one of them has, and however long these take, a pod of
    another one is looked at after the explanation, or the few writes, under way.

    Args:
        mirror: What is known of the cluster.
        explain: Explains a pod; :class:`~driver.errors.InputError` where it is gone.
        writer: Writes the outcomes.
        go_first: Waits until nothing more urgent is due.
        stop: Ends everything.
        pace: How often.
        timed: Times an explanation.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        mirror: Mirror,
        *,
        explain: Callable[[ObjectRef], Explanation],
        writer: OutcomeWriter,
        go_first: Callable[[], None],
        stop: threading.Event,
        pace: Pace | None = None,
        timed: Callable[[], AbstractContextManager[object]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mirror = mirror
        self._explain = explain
        self._writer = writer
        self._go_first = go_first
        self._stop = stop
        self._pace = pace or Pace()
        self._timed = timed
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}  # by the pod's UID
        self._due: dict[str, deque[_Waiting]] = {}  # by namespace
        self._shares = Shares()
        self._listed_at: int | None = None  # the cluster's generation
        self._list_again = 0.0
        self._tidying = Tidying()
        self._tidy_again = 0.0
        self._failures = 0
        self._put_off = 0

    @property
    def put_off(self) -> int:
        """How many pods wait for long because explaining them takes very long. For any thread."""
        return self._put_off

    def run(self, is_synced: Callable[[], bool]) -> None:
        """Look at pods until stopped; nothing that fails ends it."""
        while not is_synced():
            if self._stop.wait(_TICK_S):
                return
        has_begun = False
        while not self._stop.wait(_TICK_S):
            try:
                self._take_over()
                if not has_begun:
                    self._inherit()
                self._work()
                if not has_begun:
                    _keep_what_is_read()
                    has_begun = True
            except ApiServerError as error:
                delay = min(self._pace.retry_s * 2**self._failures, self._pace.longest_retry_s)
                self._failures = min(self._failures + 1, 10)
                _LOG.warning(
                    "pending claims are told of later", extra={"error": str(error), "retry_in_s": round(delay, 1)}
                )
                self._stop.wait(delay)
            except Exception:  # noqa: BLE001 - a mistake of ours must not end all explanations, nor this process
                _LOG.exception("unexpected error; pending claims are looked at again")
                self._stop.wait(self._pace.retry_s)

    def _work(self) -> None:
        """Look at all pods that are due.

        Raises:
            ApiServerError: Something could not be written; it is tried again later.
        """
        while not self._stop.is_set():
            self._list()
            self._tidy()
            if not self._due:
                return
            namespace = self._shares.next(self._due)
            ready = self._due[namespace]
            waiting = ready.popleft()
            if not ready:
                del self._due[namespace]
            began = self._clock()
            self._go_first()
            try:
                self._look_at(waiting)
            finally:
                self._shares.charge(namespace, self._clock() - began)

    def _list(self) -> None:
        """Find out who is due."""
        now = self._clock()
        if now < self._list_again:
            return
        with self._mirror.use() as state:
            generation = state.generation
            pods = _waiting_pods(state) if generation != self._listed_at else None
        self._listed_at = generation
        if pods is not None:
            known = self._waiting
            self._waiting = {pod.uid: known.get(pod.uid) or _Waiting(pod, now) for pod in pods}
            for pod in pods:
                self._waiting[pod.uid].pod = pod
        quiet_s = self._mirror.quiet_for_s
        due = [item for item in self._waiting.values() if self._is_due(item, now, generation, quiet_s)]
        # Who was never looked at comes first, then who was not for longest.
        due.sort(key=lambda item: (-1.0 if item.looked_at is None else item.looked_at, item.pod.key))
        self._due = {}
        for item in due:
            self._due.setdefault(item.pod.namespace, deque()).append(item)
        self._put_off = sum(item.not_before > now for item in self._waiting.values())
        self._list_again = now + _LISTING_S * len(self._waiting)

    def _is_due(self, item: _Waiting, now: float, generation: int, quiet_s: float) -> bool:
        pace = self._pace
        if item.left:
            return True
        if now < item.not_before:
            return False
        if item.unfinished:
            return True
        if item.looked_at is None:
            return now - item.since >= pace.wait_s
        since = now - item.looked_at
        if since < pace.round_s:
            return False
        if item.is_unwritten or since >= pace.idle_s:
            return True
        return generation != item.generation and (quiet_s >= pace.settle_s or since >= 2 * pace.round_s)

    def _take_over(self) -> None:
        """Read what has changed, in pieces: after a start that is the whole cluster."""
        self._go_first()
        while not self._stop.is_set() and self._mirror.take_over(_AT_ONCE):
            self._go_first()

    def _inherit(self) -> None:
        with self._mirror.use() as state:
            for pod in _waiting_pods(state):
                for key, _ in _pending_claims(state, pod):
                    self._writer.inherit(pod.uid, key)

    def _look_at(self, waiting: _Waiting) -> None:
        """Explain a pod, unless nothing has changed since the last time, and write what is new."""
        began = waiting.looked_at = self._clock()
        with self._mirror.use() as state:
            generation = state.generation
            found = state.pod(waiting.pod.key)
            claims = _pending_claims(state, found) if found is not None and found.uid == waiting.pod.uid else ()
        if waiting.left:
            waiting.left = tuple(claim for claim in waiting.left if claim in claims)
            if waiting.left:
                self._write(waiting, waiting.left)
            return
        if generation == waiting.generation:
            self._write(waiting, claims)
            return
        explanation = self._explained(waiting) if claims else None
        took = self._clock() - began
        if explanation is None or not self._is_unfinished(waiting, explanation):
            waiting.generation = generation
            waiting.outcome = None if explanation is None else self._outcome(waiting, explanation, claims)
            self._write(waiting, claims)
        self._stop.wait(max(took, 1.0 / self._pace.per_s - took))

    def _write(self, waiting: _Waiting, claims: tuple[tuple[str, str], ...]) -> None:
        """Write the outcome for these claims of the pod, as far as one turn goes."""
        waiting.left = ()
        if waiting.outcome is not None and not self._stop.is_set():
            waiting.is_unwritten = True
            waiting.left = self._writer.write(replace(waiting.outcome, claims=claims))
            waiting.is_unwritten = False
            self._failures = 0

    def _explained(self, waiting: _Waiting) -> Explanation | None:
        """None where the pod is gone by now or cannot be explained."""
        try:
            with self._timed():
                return self._explain(waiting.pod.ref)
        except InputError as error:
            _LOG.info("cannot be explained", extra={"pod": waiting.pod.key, "error": str(error)})
        except Exception:  # noqa: BLE001 - one pod's must not end the work on the others
            _LOG.exception("explaining failed", extra={"pod": waiting.pod.key})
        return None

    def _is_unfinished(self, waiting: _Waiting, explanation: Explanation) -> bool:
        """Whether a few more attempts will come to the end: each goes on where the one before was."""
        if self._stop.is_set():
            return True
        unknown = explanation.nodes_unknown if explanation.is_cut else 0
        before = explanation.nodes if waiting.unknown is None else waiting.unknown
        waiting.unfinished = waiting.unfinished + 1 if 0 < unknown <= _FEW * (before - unknown) else 0
        waiting.unfinished %= _FEW + 1
        waiting.unknown = unknown if waiting.unfinished else None
        return waiting.unfinished > 0

    def _outcome(self, waiting: _Waiting, explanation: Explanation, claims: tuple[tuple[str, str], ...]) -> Outcome:
        again = self._put_off_or_not(waiting, explanation)
        message = summary(explanation, max_bytes=NOTE_BYTES - len(again.encode())) + again
        return Outcome(pod=waiting.pod.ref, claims=claims, reason=explanation.reason, message=message)

    def _put_off_or_not(self, waiting: _Waiting, explanation: Explanation) -> str:
        """When the pod is looked at again, if that is not soon: what took too long once will do so again."""
        if not explanation.is_cut:
            waiting.dear = 0
            return ""
        pace = self._pace
        delay = min(pace.dear_s * 2**waiting.dear, pace.longest_dear_s)
        waiting.dear = min(waiting.dear + 1, 10)
        waiting.not_before = self._clock() + delay
        waiting.generation = -1
        self._put_off += 1
        _LOG.warning(
            "explaining takes too long; the pod is looked at again later",
            extra={"pod": waiting.pod.key, "nodes_unknown": explanation.nodes_unknown, "retry_in_s": round(delay, 1)},
        )
        return f" To explain it takes very long: Rootport looks again in {round(delay / 60)} minutes."

    def _tidy(self) -> None:
        """Remove the annotations of claims that are allocated, or that no pod waits for any more: some each round."""
        now = self._clock()
        if now < self._tidy_again:
            return
        self._tidy_again = now + self._pace.round_s
        done: dict[str, str] = {}
        claims: set[str] = set()
        with self._mirror.use() as state:
            for key in self._mirror.annotated.all():
                claim = state.claim(key)
                if claim is None:
                    continue
                if claim.allocated or not any(map(_is_waiting, state.pods_of(key))):
                    done[key] = claim.uid
            for key in state.pending():
                claim = state.claim(key)
                if claim is not None:
                    claims.add(claim.uid)
        longest_s = _TIDY_S if self._waiting else self._pace.round_s
        for key in self._tidying.chosen(done, _TIDIED_A_ROUND):
            if self._clock() - now > longest_s:
                break
            self._go_first()
            self._tidying.tried(key)
            self._writer.clear(key, done[key])
        self._writer.forget_all_but(self._waiting, claims)


def _keep_what_is_read() -> None:
    """Spare the collector what stays: to look through a cluster of 5,000 nodes takes it most of a second each time."""
    gc.collect()
    gc.freeze()


def _waiting_pods(state: ClusterState) -> list[PodState]:
    """Of each pending claim the first pod that waits for it, by key; several claims may have one."""
    found: dict[str, PodState] = {}
    for key in state.pending():
        pod = next((pod for pod in state.pods_of(key) if _is_waiting(pod)), None)
        if pod is not None:
            found[pod.key] = pod
    return [found[key] for key in sorted(found)]


def _is_waiting(pod: PodState) -> bool:
    return not (pod.node or pod.ended or pod.deleting)


def _pending_claims(state: ClusterState, pod: PodState) -> tuple[tuple[str, str], ...]:
    """Keys and UIDs of the pod's claims that are not allocated, each once, the first of them."""
    found: dict[str, str] = {}
    for entry in pod.claims:
        if len(found) == _CLAIMS_OF_A_POD:
            break
        claim = state.claim(f"{pod.namespace}/{entry.claim}") if entry.claim else None
        if claim is not None and not claim.allocated and not claim.deleting:
            found[claim.key] = claim.uid
    return tuple(found.items())
