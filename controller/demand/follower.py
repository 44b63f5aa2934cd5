"""Looks for the GPUs whose mode should change for pending claims, as long as this controller leads."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Final, Protocol

from controller.demand.turns import DemandPace, TrackedPod, Turns
from controller.explanations.shared_state import SharedClusterState
from controller.modes.wishes import NodeWishes, Wishes
from driver.budget import Budget, SpentError
from driver.explain.judge.waiting import waiting_pod
from driver.explain.known.cluster import ClaimState, PodState
from driver.explain.known.published import with_rules
from driver.explain.known.state import ClusterState
from driver.model.managed_nodes import GATE
from driver.modes.demand import DemandRound, PodWish
from driver.modes.hypothesis import NodeGpus, Waiting
from driver.modes.memory import DemandMemory
from driver.modes.rule import Layout
from driver.modes.supply import InventoryGpus

__all__ = ["DemandFollower", "GpuSupply"]

_LOG: Final = logging.getLogger(__name__)
_CLAIMS_SHOWN: Final = 4
_ON_THE_WALL: Final = 2.5
"""A round may take so many times its CPU time on the clock, because other threads use the CPU as well."""
_MOST_QUEUED: Final = 1000
"""Changes of the cluster; more are applied in pieces by the thread that explains."""

_Known = tuple[PodState, Sequence[ClaimState | None], Waiting | None]


class GpuSupply(Protocol):
    """What the nodes' GPUs are, and could be, published as."""

    @property
    def layout(self) -> Layout:
        """The cluster's layout."""

    @property
    def rules(self) -> Sequence[object]:
        """The policies: other objects whenever they have changed."""

    def gpus_of(self, node: str) -> InventoryGpus | None:
        """Return a node's GPUs; None where nothing can be published for it."""


class DemandFollower:
    """Sets the wishes of pods that wait. Its only thread is that of :meth:`run`.

    Args:
        cluster: The state of the cluster.
        is_synced: Whether everything was read once.
        pace: How often it looks.
        clock: Monotonic seconds.
        cpu_clock: CPU seconds of the thread.
    """

    def __init__(
        self,
        cluster: SharedClusterState,
        *,
        is_synced: Callable[[], bool],
        pace: DemandPace | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._cluster = cluster
        self._is_synced = is_synced
        self._pace = pace or DemandPace()
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._turns = Turns(self._pace)
        self._memory: DemandMemory | None = None
        self._rules: Sequence[object] = ()
        self._classes: Sequence[object] = ()
        self._known: dict[str, _Known] = {}

    def start(
        self, stop: threading.Event, *, supply: GpuSupply, wishes: Wishes, yield_to_slices: Callable[[], None]
    ) -> threading.Thread:
        """Start the thread.

        Args:
            stop: Ends it.
            supply: What the nodes' GPUs could be published as.
            wishes: Gets the wishes.
            yield_to_slices: Waits until nothing more urgent is due.
        """
        thread = threading.Thread(
            target=self.run, args=(stop, supply, wishes, yield_to_slices), name="demand", daemon=True
        )
        thread.start()
        return thread

    def run(
        self, stop: threading.Event, supply: GpuSupply, wishes: Wishes, yield_to_slices: Callable[[], None]
    ) -> None:
        """Look for wishes until stopped; no failure ends it."""
        pause_s = self._pace.period_s
        while not stop.wait(pause_s):
            pause_s = self._pace.period_s
            try:
                if not self._is_synced() or self._cluster.queued > _MOST_QUEUED:
                    continue
                yield_to_slices()
                began = self._clock()
                self.look(supply, wishes, stopped=stop.is_set)
                pause_s = max(self._pace.period_s, self._pace.rest * (self._clock() - began))
            except Exception:  # noqa: BLE001 - a mistake of ours must not end the thread, nor this process
                _LOG.exception("unexpected error; the modes of GPUs follow pending claims again in a while")
                pause_s = self._pace.retry_s

    def look(self, supply: GpuSupply, wishes: Wishes, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Look once at the pods that wait, and set the wishes."""
        layout = supply.layout
        if layout is Layout.FULL:
            self._turns.track((), self._clock())
            wishes.set({})
            return
        with self._cluster.use() as state:
            found = self._round(state, layout, supply, stopped)
        wishes.set(found)

    def _round(
        self, state: ClusterState, layout: Layout, supply: GpuSupply, stopped: Callable[[], bool]
    ) -> Mapping[str, NodeWishes]:
        now = self._clock()
        self._turns.track(_waiting(state), now)
        self._forget_old(state, supply)
        memory = self._memory
        if memory is None:
            memory = self._memory = DemandMemory(state, lambda node: self._gpus_of(state, supply, node))
        budget = Budget(self._pace.round_s, wall_s=self._pace.round_s * _ON_THE_WALL, stopped=stopped)
        with budget.in_force(), DemandRound(memory, layout, [node.node for node in state.nodes.values()]) as this:
            self._keep(state, this, now)
            self._find(state, this, now, budget)
            return this.wishes()

    def _keep(self, state: ClusterState, this: DemandRound, now: float) -> None:
        """Keep the wishes of the round before, as far as they still make sense."""
        for item in self._turns.with_wish(now):
            wish = item.wish
            if wish is None:
                continue
            kept: PodWish | None = None
            try:
                waiting = self._waiting(state, item.pod)
                kept = None if waiting is None else this.keep(waiting, wish)
            except SpentError:
                this.assume(item.pod.uid, wish)
                kept = wish
            except Exception:  # noqa: BLE001 - one pod's failure must not end the work on the others
                self._failed(item, now)
                continue
            self._turns.wished(item, kept, now)

    def _find(self, state: ClusterState, this: DemandRound, now: float, budget: Budget) -> None:
        """Find wishes for other pods. Namespaces that have used their share of the time come after the others."""
        used: defaultdict[str, float] = defaultdict(float)
        in_time = False
        try:
            in_time = self._take_turns(state, this, now, budget, used)
        finally:
            self._turns.end_round(used, in_time=in_time)

    def _take_turns(
        self, state: ClusterState, this: DemandRound, now: float, budget: Budget, used: defaultdict[str, float]
    ) -> bool:
        """Return whether there was time for all."""
        groups = self._turns.without_wish(now, is_beyond_help=lambda item: self._is_beyond_help(state, item.pod))
        share_s = self._pace.round_s / max(1, len({item.pod.namespace for group in groups for item in group}))
        unserved: list[TrackedPod] = []

        def fits(waiting: Waiting, item: TrackedPod) -> None:
            if not this.fits(waiting):
                unserved.append(item)

        def find(waiting: Waiting, item: TrackedPod) -> None:
            wish = this.find(waiting)
            if self._turns.wished(item, wish, now) and wish is not None:
                _log(waiting, wish, this)

        for group in groups:
            unserved.clear()
            for pods, look in ((group, fits), (unserved, find)):
                for item in _in_turn(pods, used, share_s):
                    if budget.is_spent:
                        return False
                    began = self._cpu_clock()
                    self._turn(state, item, look, now, budget)
                    used[item.pod.namespace] += self._cpu_clock() - began
        return True

    def _turn(
        self,
        state: ClusterState,
        item: TrackedPod,
        look: Callable[[Waiting, TrackedPod], None],
        now: float,
        budget: Budget,
    ) -> None:
        left_s = budget.left_s
        item.looked_at = now
        try:
            with budget.part(self._pace.pod_s).in_force():
                waiting = self._waiting(state, item.pod)
                if waiting is not None and self._turns.may_look(item, waiting.kind, now):
                    look(waiting, item)
        except SpentError:
            if left_s >= self._pace.pod_s:
                self._turns.took_too_long(item, now)
        except Exception:  # noqa: BLE001 - one pod's failure must not end the work on the others
            self._failed(item, now)

    def _failed(self, item: TrackedPod, now: float) -> None:
        _LOG.exception("unexpected error; the modes of GPUs follow this pod again later", extra={"pod": item.pod.key})
        self._turns.put_off(item, now)

    def _waiting(self, state: ClusterState, pod: PodState) -> Waiting | None:
        """Return what a pod waits for, remembered until that changes; None where no devices of ours would help."""
        known = self._remembered(state, pod)
        if known is None:
            waiting = waiting_pod(state, pod)
            if waiting is not None and not waiting.may_need_gpus:
                waiting = None
            known = self._known[pod.uid] = (pod, _claims(state, pod), waiting)
        return known[2]

    def _is_beyond_help(self, state: ClusterState, pod: PodState) -> bool:
        known = self._remembered(state, pod)
        return known is not None and known[2] is None

    def _remembered(self, state: ClusterState, pod: PodState) -> _Known | None:
        known = self._known.get(pod.uid)
        return known if known and known[0] is pod and _are_same(known[1], _claims(state, pod)) else None

    def _forget_old(self, state: ClusterState, supply: GpuSupply) -> None:
        rules, classes = supply.rules, tuple(state.classes.values())
        if self._memory is not None and not _are_same(rules, self._rules):
            self._memory.forget()
        if not _are_same(classes, self._classes):
            self._known.clear()
        self._rules, self._classes = rules, classes
        self._known = {uid: known for uid in self._turns.uids if (known := self._known.get(uid)) is not None}

    @staticmethod
    def _gpus_of(state: ClusterState, supply: GpuSupply, node: str) -> NodeGpus | None:
        gpus = supply.gpus_of(node)
        if gpus is not None:
            gpus.with_rules = lambda item: with_rules(item, state.taint_rules.values())
        return gpus


def _waiting(state: ClusterState) -> list[PodState]:
    """Return the pods that kube-scheduler, or placement, tries to place, and that name claims or extended resources."""
    pods = (state.pod(key) for key in state.pod_keys())
    return [
        pod
        for pod in pods
        if pod is not None
        and pod.is_waiting
        and all(gate == GATE for gate in pod.gates)
        and (pod.claims or pod.containers)
    ]


def _claims(state: ClusterState, pod: PodState) -> Sequence[ClaimState | None]:
    return [state.claim(f"{pod.namespace}/{entry.claim}") for entry in pod.claims]


def _in_turn(pods: Sequence[TrackedPod], used: Mapping[str, float], share_s: float) -> Iterator[TrackedPod]:
    """Yield pods in order, those of namespaces last that have used up their share by then."""
    last: list[TrackedPod] = []
    for item in pods:
        if used.get(item.pod.namespace, 0.0) < share_s:
            yield item
        else:
            last.append(item)
    yield from last


def _are_same(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


def _log(waiting: Waiting, wish: PodWish, this: DemandRound) -> None:
    for gpu in sorted(wish.gpus):
        _LOG.info(
            "a GPU is to change for pending claims",
            extra={
                "pod": waiting.key,
                "claims": ", ".join(claim.metadata.name for claim in waiting.claims[:_CLAIMS_SHOWN]),
                "node": wish.node,
                "gpu": gpu,
                "from": this.modes(wish.node, gpu),
                "to": this.modes(wish.node, gpu, wish.gpus[gpu]),
            },
        )
