"""Whom to explain when: pods whose claims are pending, one after the other, as long as nothing more urgent is due."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from controller.explanations.mirror import Mirror
from controller.explanations.records import Outcome
from controller.explanations.writer import OutcomeWriter
from driver.adapters.kubernetes.errors import ApiServerError
from driver.errors import InputError
from driver.explain.cluster import PodState
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.state import ClusterState
from driver.explain.summary import summary

__all__ = ["ExplanationLoop", "Pace"]

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 0.2
_AT_ONCE: Final = 100  # changes; between them slices may become due
_TIDIED_A_ROUND: Final = 100  # anybody may annotate claims, again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often, and how much at a time.

    Attributes:
        settle_s: So long after the last change nothing is explained...
        round_s: ...unless a round is due by this; and between the starts of two rounds there is at least as much.
        wait_s: How long a pod's claims may be pending before anybody is told: the scheduler needs a moment.
        longest_s: A round that takes longer is ended; the next one goes on where it was.
        idle_s: After so long a round is made although nothing changed: for what was too early in the last one.
        per_s: Explanations a second; each is followed by a pause as long as it took, at least.
        retry_s: After a round that ended with a write that failed; doubled each time until one goes well.
        longest_retry_s: The most of that.
    """

    settle_s: float = 2.0
    round_s: float = 10.0
    wait_s: float = 5.0
    longest_s: float = 30.0
    idle_s: float = 30.0
    per_s: float = 5.0
    retry_s: float = 5.0
    longest_retry_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    generation: int
    outcome: Outcome | None


class ExplanationLoop:
    """Makes rounds over the pods with pending claims. For one thread, that of :meth:`run`.

    Args:
        mirror: What is known of the cluster.
        explain: Explains a pod by the state that it is given; :class:`~driver.errors.InputError` where it is gone.
        writer: Writes the outcomes.
        go_first: Waits until nothing more urgent is due.
        stop: Ends everything.
        pace: How often.
        timed: Times a round.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        mirror: Mirror,
        *,
        explain: Callable[[ClusterState, ObjectRef], Explanation],
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
        self._known: dict[str, _Known] = {}  # by the pod's UID
        self._since: dict[str, float] = {}  # when a pod was first seen with pending claims, by its UID
        self._last = ""  # the key of the pod that was looked at last
        self._tidied = ""  # the key of the claim that was tidied last; empty where none was left over
        self._begun = clock()
        self._started: float | None = None
        self._generation = -1
        self._failures = 0

    def run(self, is_synced: Callable[[], bool]) -> None:
        """Make rounds until stopped; nothing that fails ends it."""
        while not is_synced():
            if self._stop.wait(_TICK_S):
                return
        while not self._stop.wait(_TICK_S):
            try:
                self._take_over()
                if self._started is None:
                    self._inherit()
                if self._is_due():
                    is_first = self._started is None
                    with self._timed():
                        self.round()
                    self._failures = 0
                    if is_first:
                        _keep_what_is_read()
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

    def round(self) -> None:
        """Look once at each pod with pending claims.

        Raises:
            ApiServerError: Something could not be written; the next round goes on behind the pod whose turn it was.
        """
        now = self._started = self._clock()
        with self._mirror.use() as state:
            self._generation = state.generation
            pods = _waiting_pods(state)
        self._since = {pod.uid: self._since.get(pod.uid, now) for pod in pods}
        self._known = {uid: known for uid, known in self._known.items() if uid in self._since}
        self._tidy()
        due = [pod for pod in pods if now - self._since[pod.uid] >= self._pace.wait_s]
        # Where the last round had to end early, its rest comes first.
        first = next((place for place, pod in enumerate(due) if pod.key > self._last), 0)
        for pod in (*due[first:], *due[:first]):
            self._go_first()
            if self._stop.is_set() or self._clock() - now > self._pace.longest_s:
                return
            self._last = pod.key
            outcome = self._outcome(pod)
            if outcome is not None:
                self._writer.write(outcome)
        self._last = ""

    def _is_due(self) -> bool:
        pace, quiet_s = self._pace, self._mirror.quiet_for_s
        if self._started is None:
            return quiet_s >= pace.settle_s or self._clock() - self._begun >= pace.round_s
        since = self._clock() - self._started
        if since < pace.round_s:
            return False
        if self._last or self._tidied:
            return True  # the last round had no end
        with self._mirror.use() as state:
            has_changed = state.generation != self._generation
        if has_changed:
            return quiet_s >= pace.settle_s or since >= 2 * pace.round_s
        return since >= pace.idle_s or self._was_early()

    def _was_early(self) -> bool:
        """Whether the last round came too early for some pod."""
        started = self._started or 0.0
        return any(started - at < self._pace.wait_s for at in self._since.values())

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

    def _outcome(self, pod: PodState) -> Outcome | None:
        """What is to be said of the pod; None where it, or its claims, are gone by now or cannot be explained."""
        began = self._clock()
        with self._mirror.use() as state:
            known = self._known.get(pod.uid)
            if known is not None and known.generation == state.generation:
                return known.outcome
            outcome = self._explained(state, pod)
            self._known[pod.uid] = _Known(generation=state.generation, outcome=outcome)
        took = self._clock() - began
        self._stop.wait(max(took, 1.0 / self._pace.per_s - took))
        return outcome

    def _explained(self, state: ClusterState, pod: PodState) -> Outcome | None:
        found = state.pod(pod.key)
        if found is None or found.uid != pod.uid or not (claims := _pending_claims(state, found)):
            return None
        ref = pod.ref
        try:
            explanation = self._explain(state, ref)
        except InputError as error:
            _LOG.info("cannot be explained", extra={"pod": pod.key, "error": str(error)})
            return None
        except Exception:  # noqa: BLE001 - one pod's must not end the work on the others
            _LOG.exception("explaining failed", extra={"pod": pod.key})
            return None
        return Outcome(pod=ref, claims=claims, reason=explanation.reason, message=summary(explanation))

    def _tidy(self) -> None:
        """Remove the annotations of claims that are allocated, or that no pod waits for any more: some each round."""
        done: list[tuple[str, str]] = []
        claims: set[str] = set()
        with self._mirror.use() as state:
            for key in self._mirror.annotated.all():
                claim = state.claim(key)
                if claim is None:
                    continue
                if claim.allocated or not any(map(_is_waiting, state.pods_of(key))):
                    done.append((key, claim.uid))
            for key in state.pending():
                claim = state.claim(key)
                if claim is not None:
                    claims.add(claim.uid)
        done.sort()
        first = next((place for place, (key, _) in enumerate(done) if key > self._tidied), 0)
        for key, uid in (*done[first:], *done[:first])[:_TIDIED_A_ROUND]:
            self._go_first()
            self._tidied = key
            self._writer.clear(key, uid)
        if len(done) <= _TIDIED_A_ROUND:
            self._tidied = ""
        self._writer.forget_all_but(self._since, claims)


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
    """Keys and UIDs of the pod's claims that are not allocated, each once."""
    found: dict[str, str] = {}
    for entry in pod.claims:
        claim = state.claim(f"{pod.namespace}/{entry.claim}") if entry.claim else None
        if claim is not None and not claim.allocated and not claim.deleting:
            found[claim.key] = claim.uid
    return tuple(found.items())
