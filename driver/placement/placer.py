"""Decides which node and which devices a pod gets.

Nodes are ranked by the policy (:mod:`driver.placement.engine`); the first one on which the pod may be
(:mod:`driver.placement.node_rules`) and on which the allocator finds its devices is the answer. Nothing is evaluated
twice: what refused a pod is remembered until the node changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from driver import DRIVER_NAME
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.allocator.ledger import holdings
from driver.allocator.on_node import random_uid
from driver.api.resource_v1 import AllocationResult
from driver.budget import Budget, SpentError
from driver.explain.known.cluster import ClaimState, PodState
from driver.explain.known.state import ClusterState
from driver.placement.asking import Asked, NotPlacedError, ask, ask_without_claims, rungs
from driver.placement.decision import Decision, Placement
from driver.placement.engine import Candidate, Engine
from driver.placement.fitting import Fitting
from driver.placement.mix import Mix
from driver.placement.node_rules.others import Others
from driver.placement.node_rules.room import no_room
from driver.placement.node_rules.static import RulesOfPod, StaticRules
from driver.placement.nodes import KnownNode, Nodes
from driver.placement.policies import POLICIES
from driver.placement.score import Score
from driver.placement.shapes import PodShape
from driver.placement.sizing import MANAGED_TOLERATION
from driver.placement.telling import why_none, why_only, why_this
from driver.placement.typical import TypicalPods, running_pods
from driver.wording import listed

__all__ = ["MANAGED_TOLERATION", "Placer"]

MAX_CPU_S: Final = 2.0
"""How long a decision may take. Real claims take milliseconds; what takes longer is made to."""

_LEARNING_S: Final = 10.0
"""How long to learn what runs; the rest is not typical then."""
_NO_SCORE: Final = Score((), ())
_NO_NODES: Final[Mapping[str, str]] = MappingProxyType({})
_TOO_LONG: Final = (
    "not evaluated: what its claims, its affinity or its spread constraints select takes very long to find out"
)
_MIXED: Final = "devices of other drivers that its claims select"


class Placer:
    """Places pods of one cluster, and changes nothing but what is assumed. Not thread-safe, as its state is not.

    Args:
        state: The cluster; may change between two calls.
        policy: The name of one of :data:`~driver.placement.policies.POLICIES`.
        managed_only: Whether only nodes count that are labelled as managed, and whose devices have the taint for it.
        features: The feature gates of the cluster; those of ``state`` by default.
        mix: The typical pods; by default those that have claims when it is first asked, and those that are decided
            about.
        new_share_id: Makes a UID for each share of a device; random by default, as in Kubernetes.
    """

    def __init__(
        self,
        state: ClusterState,
        *,
        policy: str = "pack",
        managed_only: bool = True,
        features: Features | None = None,
        mix: Mix | None = None,
        new_share_id: Callable[[], str] = random_uid,
    ) -> None:
        self._state = state
        self._policy = POLICIES[policy]
        self._features = features or state.features
        self._engine = Engine(self._policy, mix or Mix({}))
        self._nodes = Nodes(state, self._engine, managed_only=managed_only, features=self._features)
        self._fitting = Fitting(state, self._nodes, self._policy, new_share_id)
        self._managed_only = managed_only
        self._static = StaticRules()
        self._typical = TypicalPods(self._engine) if mix is None else None
        self._has_learnt = False

    def put_bound_pod(self, key: str, wire: Mapping[str, Any] | None) -> None:
        """Take over a pod that has a node, as the API server stores it; None forgets it.

        It is for all pods of all namespaces with ``spec.nodeName``, with claims or without: their CPU, memory, ports
        and labels decide where others fit. Pods with a node that ``state`` has when the placer is made are known. A pod
        whose claims are allocated on a node counts there before it is bound, and need not be put.

        Args:
            key: ``namespace/name``.
            wire: The pod. What is read of it: ``metadata`` name, namespace, labels, deletionTimestamp;
                ``spec.nodeName``, ``status.phase``, the statuses of containers (resources while they are resized); of
                ``spec`` what :data:`~driver.explain.known.needs_reading.NEEDS_SPEC` and
                :func:`~driver.explain.known.needs_reading.kept_needs` name. A pod that has ended takes nothing.

        Raises:
            UnreadableError: It is not what the API server would store.
        """
        self._nodes.put_pod(key, wire)

    def place(self, pod: PodState, *, avoid: Mapping[str, str] = _NO_NODES) -> Decision:
        """Decide where a pod goes. Nothing is changed, but that the pod counts as a typical one from now on.

        Args:
            pod: A pod that waits.
            avoid: By name, why nodes are not for it, where that is not in the state.
        """
        return self.ranked(pod, avoid=avoid, most=2)[0]

    def ranked(
        self, pod: PodState, *, avoid: Mapping[str, str] = _NO_NODES, most: int
    ) -> tuple[Decision, tuple[Placement, ...]]:
        """Decide as :meth:`place`, and return the best places as well.

        Args:
            pod: A pod that waits.
            avoid: As there.
            most: How many places to return at most; at least 2.
        """
        self._follow()
        try:
            asked = ask(self._state, pod, self._features, tolerates=self._managed_only)
        except NotPlacedError as error:
            return _none(pod, (), str(error)), ()
        reasons: Counter[str] = Counter()
        found: list[Placement] = []
        shape: PodShape | None = None
        failure, took_too_long = "", False
        try:
            with Budget(MAX_CPU_S).in_force():
                shape = self._shape(pod, asked)
                found.extend(islice(self._places(pod, asked, avoid, reasons), most))
        except SpentError:
            failure, took_too_long = _TOO_LONG, True
        except AllocationError as error:
            failure = error.message
        if self._typical is not None and shape is not None:
            self._typical.came(pod.uid, shape)
        if not found:
            why = failure or why_none(reasons, nodes=len(self._nodes.known), left_out=self._nodes.left_out)
            return _none(pod, asked.ours, why, took_too_long=took_too_long), ()
        other = found[1] if len(found) > 1 else None
        if other is not None:
            why = why_this(found[0].node, found[0].score, other.node, other.score)
        else:
            why = why_only(found[0].node, reasons, all_seen=not failure, is_bound=asked.nodes is not None)
        if pod.needs.unchecked:
            why += f"; not evaluated: {listed(pod.needs.unchecked)}"
        decision = Decision(pod=pod.key, pod_uid=pod.uid, claims=asked.ours, chosen=found[0], runner_up=other, why=why)
        return decision, tuple(found)

    def nominate(self, pod: PodState, *, avoid: Mapping[str, str] = _NO_NODES) -> str:
        """Return the best node for a pod without claims, so that its CPU and memory strand no devices.

        Nothing is changed; :meth:`put_bound_pod` with the node counts the pod there.

        Args:
            pod: A pod that waits.
            avoid: As for :meth:`place`.

        Returns:
            The node's name; empty where none is known: it fits on no managed node, it is not evaluated, or that takes
            too long.
        """
        self._nodes.follow()
        try:
            shape = ask_without_claims(self._state, pod)
        except NotPlacedError:
            return ""
        static = self._static.of(pod, ())
        try:
            with Budget(MAX_CPU_S).in_force():
                others = Others(pod, self._nodes.usage, self._state.nodes, static.admits)
                for candidate in self._engine.ranked(shape):
                    node = self._nodes.known[candidate.node]
                    if not self._refusal(candidate.node, node, pod, avoid, static, others):
                        return candidate.node
        except SpentError:
            pass
        return ""

    def assume(self, decision: Decision) -> None:
        """Count a decision's devices and its pod as in use, until the state shows them or :meth:`forget` is called.

        A version of a claim without an allocation that is put into the state later does not end it, because it may be
        older than the one that is being written: whoever writes calls :meth:`forget` where that fails, and where the
        claim is still shown without an allocation after a time in which it would have been shown.
        """
        if decision.chosen is None:
            return
        for claim, result in zip(decision.claims, decision.chosen.results, strict=True):
            holds = tuple(holdings(result))
            self._state.assume(
                replace(claim, claim=None, allocated=True, holds=holds, available_on=result.node_selector)
            )

    def forget(self, decision: Decision) -> None:
        """Take back what was assumed, as far as the state has not shown it."""
        for claim in decision.claims:
            self._state.forget(claim.key)

    def fragmentation(self) -> Mapping[str, float]:
        """Return, by node, the thousandths of free GPUs that typical pods cannot use."""
        self._follow()
        of = self._engine.fragmentation.of
        return {name: of(node.shape) for name, node in self._nodes.known.items()}

    def free_thousandths(self) -> int:
        """Return how many thousandths of GPUs are free on all nodes that count."""
        self._nodes.follow()
        return sum(sum(node.shape.gpus) for node in self._nodes.known.values())

    def learn(self, pods: Iterable[PodState]) -> None:
        """Count pods as typical that are to be placed, before it is decided about the first."""
        self._follow()
        if self._typical is not None:
            self._typical.learn(self._shapes_of(pods))

    def _shapes_of(self, pods: Iterable[PodState]) -> Iterator[tuple[str, PodShape]]:
        for pod in pods:
            try:
                with Budget(MAX_CPU_S).in_force():
                    asked = ask(self._state, pod, self._features, tolerates=self._managed_only)
                    shape = self._shape(pod, asked)
            except (NotPlacedError, AllocationError, SpentError):
                continue
            yield pod.uid, shape

    def _shapes_running(self) -> Iterator[tuple[str, PodShape]]:
        with suppress(SpentError), Budget(_LEARNING_S).in_force():
            for uid, demands, needs in running_pods(self._state, self._nodes.usage, self._features):
                with suppress(AllocationError):
                    yield uid, self._fitting.rung(next(rungs(demands)), needs).size.shape

    def _shape(self, pod: PodState, asked: Asked) -> PodShape:
        """Return how large a pod is with the best of its alternatives."""
        return self._fitting.rung(next(rungs(asked.demands)), pod.needs).size.shape

    def _follow(self) -> None:
        """Take over what has changed; at first also which pods are typical, since the state may be filled late."""
        self._nodes.follow()
        if self._typical is not None and not self._has_learnt:
            self._has_learnt = True
            self._typical.learn(self._shapes_running())

    def _places(
        self, pod: PodState, asked: Asked, avoid: Mapping[str, str], reasons: Counter[str]
    ) -> Iterator[Placement]:
        """Yield the places of a pod, best first; count why the other nodes are none."""
        nodes = self._nodes.known
        static = self._static.of(pod, asked.allocated)
        others = Others(pod, self._nodes.usage, self._state.nodes, static.admits)
        placed: set[str] = set()
        for demands in rungs(asked.demands):
            rung = self._fitting.rung(demands, pod.needs)
            reasons.clear()
            for name, candidate in self._in_order(rung.size.shape, asked.nodes):
                if name in placed:
                    continue
                node = nodes[name]
                # In an order that does not depend on what is remembered, for the reasons are counted.
                why = self._refusal(name, node, pod, avoid, static, others) or rung.refusal(name, node)
                results: tuple[AllocationResult, ...] = ()
                if not why:
                    answer = self._fitting.allocated(name, node, asked, rung, candidate.gpus if candidate else ())
                    if isinstance(answer, str):
                        why = answer
                    else:
                        why, results = _ours(asked, answer)
                if why:
                    reasons[why] += 1
                else:
                    placed.add(name)
                    yield Placement(name, results, _NO_SCORE if candidate is None else candidate.score)

    def _in_order(self, shape: PodShape, only: Collection[str] | None) -> Iterator[tuple[str, Candidate | None]]:
        """Yield all nodes: those that the policy ranks, and then the others, of which it cannot know for sure."""
        ranked: set[str] = set()
        for candidate in self._engine.ranked(shape):
            if only is None or candidate.node in only:
                ranked.add(candidate.node)
                yield candidate.node, candidate
        for name in sorted(self._nodes.known.keys() - ranked):
            if only is None or name in only:
                yield name, None

    def _refusal(
        self,
        name: str,
        node: KnownNode,
        pod: PodState,
        avoid: Mapping[str, str],
        static: RulesOfPod,
        others: Others,
    ) -> str:
        return (
            avoid.get(name, "")
            or static.refusal(name, node.state)
            or no_room(node.state, self._nodes.usage.of(name), pod.needs)
            or others.refusal(node.state)
        )


def _ours(asked: Asked, results: Sequence[AllocationResult]) -> tuple[str, tuple[AllocationResult, ...]]:
    """Return the results of the claims that are allocated here; or why not."""
    ours: list[AllocationResult] = []
    for is_ours, result in zip(asked.is_ours, results, strict=True):
        has = {item.driver == DRIVER_NAME for item in result.devices.results}
        if has - {is_ours}:
            return _MIXED, ()
        if is_ours:
            ours.append(result)
    return "", tuple(ours)


def _none(pod: PodState, claims: tuple[ClaimState, ...], why: str, *, took_too_long: bool = False) -> Decision:
    return Decision(pod.key, pod.uid, claims, chosen=None, runner_up=None, why=why, took_too_long=took_too_long)
