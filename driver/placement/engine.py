"""Ranks nodes for pods, and scores only what changed since a pod of the same shape was ranked."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from driver.placement.fragmentation import Fragmentation
from driver.placement.mix import Mix
from driver.placement.outlook import Outlook
from driver.placement.policies import Choice, Key, Policy
from driver.placement.score import Score, Term
from driver.placement.shapes import WHOLE_GPU, NodeShape, PodShape

__all__ = ["Candidate", "Engine"]

_Entry = tuple[Key, str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place for a pod.

    Attributes:
        node: Its name.
        gpus: Their indexes on the node, ascending.
        key: Of the score.
        tell: Returns the terms of the score, as long as nothing else is put.
    """

    node: str
    gpus: tuple[int, ...]
    key: Key
    tell: Callable[[], tuple[Term, ...]]

    @property
    def score(self) -> Score:
        """How good it is. Its terms are worked out now: they cost more than the rank."""
        return Score(self.key, self.tell())


@dataclass(slots=True)
class _Ranking:
    """The nodes that fit a shape of pods, best first, as of a number of changes."""

    seen: int = -1
    order: list[_Entry] = field(default_factory=list)
    entries: dict[str, _Entry] = field(default_factory=dict)

    def set(self, node: str, choice: Choice | None) -> None:
        old = self.entries.get(node)
        new = None if choice is None else (choice.key, node, choice.gpus)
        if old == new:
            return
        if old is not None:
            del self.order[bisect_left(self.order, old)]
            del self.entries[node]
        if new is not None:
            insort(self.order, new)
            self.entries[node] = new


class Engine:
    """Ranks nodes by a policy. Nodes of equal score are ranked by name, so that nothing depends on the order of events.

    It does not know what else keeps a pod from a node (taints, ports, devices that a selector refuses): the caller
    takes the first candidate that fits. Not thread-safe.

    Args:
        policy: One of :data:`~driver.placement.policies.POLICIES`.
        mix: The typical pods.
        most_ranked: So many ranks of nodes are remembered at most, of all kinds of pods together, at some 130 bytes
            each. A kind that was forgotten is ranked anew, which takes as long as all nodes take.
    """

    def __init__(self, policy: Policy, mix: Mix, *, most_ranked: int = 500_000) -> None:
        self._policy = policy
        self._mix = mix
        self._most_ranked = most_ranked
        self._asks_for_models = _asks_for_models(mix)
        self._supply: dict[str, int] = {}
        self._outlook = Outlook(mix, {})
        self._outlook_is_old = False
        self._nodes: dict[str, NodeShape] = {}
        self._changes = 0
        self._changed: dict[str, int] = {}
        self._rankings: dict[PodShape, _Ranking] = {}

    @property
    def fragmentation(self) -> Fragmentation:
        """Tells the fragmentation of nodes, by the mix of now."""
        return self._outlook.fragmentation

    def put(self, name: str, shape: NodeShape | None) -> None:
        """Take over what is left of a node; None if it is gone."""
        old = self._nodes.get(name)
        if old == shape:
            return
        if old is None or shape is None or (old.model, len(old.gpus)) != (shape.model, len(shape.gpus)):
            self._count(old, -1)
            self._count(shape, 1)
            # What there is of a model matters to those who ask for one.
            self._outlook_is_old = self._outlook_is_old or self._asks_for_models
        self._changed.pop(name, None)
        if shape is None:
            del self._nodes[name]
            for ranking in self._rankings.values():
                ranking.set(name, None)
            return
        self._nodes[name] = shape
        self._changes += 1
        self._changed[name] = self._changes

    def renew(self, mix: Mix) -> None:
        """Take another mix of typical pods. Every shape is ranked anew when a pod of it comes next."""
        self._mix = mix
        self._asks_for_models = _asks_for_models(mix)
        self._renew()

    def ranked(self, pod: PodShape) -> Iterator[Candidate]:
        """Yield the places for a pod, best first. What is put meanwhile ends what the iterator is good for."""
        if self._outlook_is_old:
            self._renew()
        for key, name, gpus in self._ranking(pod).order:
            tell = partial(self._policy.terms, self._nodes[name], pod, Choice(key, gpus), self._outlook)
            yield Candidate(name, gpus, key, tell)

    def _renew(self) -> None:
        self._outlook = Outlook(self._mix, {model: milli for model, milli in self._supply.items() if milli})
        self._outlook_is_old = False
        self._rankings.clear()

    def _count(self, shape: NodeShape | None, sign: int) -> None:
        if shape is not None and shape.gpus:
            milli = sign * WHOLE_GPU * len(shape.gpus)
            self._supply[shape.model] = self._supply.get(shape.model, 0) + milli

    def _ranking(self, pod: PodShape) -> _Ranking:
        ranking = self._rankings.pop(pod, None)
        if ranking is None:
            while self._rankings and (len(self._rankings) + 1) * len(self._nodes) > self._most_ranked:
                del self._rankings[next(iter(self._rankings))]  # used longest ago
            ranking = self._rank_all(pod)
        else:
            for name in self._changed_since(ranking.seen):
                ranking.set(name, self._policy.choose(self._nodes[name], pod, self._outlook))
        ranking.seen = self._changes
        self._rankings[pod] = ranking  # the last used stands last
        return ranking

    def _rank_all(self, pod: PodShape) -> _Ranking:
        ranking = _Ranking()
        choices: dict[NodeShape, Choice | None] = {}
        for name, node in self._nodes.items():
            if node not in choices:
                choices[node] = self._policy.choose(node, pod, self._outlook)
            choice = choices[node]
            if choice is not None:
                ranking.entries[name] = (choice.key, name, choice.gpus)
        ranking.order = sorted(ranking.entries.values())
        return ranking

    def _changed_since(self, seen: int) -> Iterator[str]:
        for name in reversed(self._changed):
            if self._changed[name] <= seen:
                return
            yield name


def _asks_for_models(mix: Mix) -> bool:
    return any(pod.models for pod in mix.weights)
