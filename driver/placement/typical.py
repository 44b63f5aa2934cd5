"""Learns which pods are typical of a cluster: from what runs there at first, and then from what comes.

A pod counts once, when it is first decided about, whatever comes of it: if only those counted that find a place, large
pods that find none would seem to be wanted by nobody, and the room that they need would be filled first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from driver.allocator.demands import ClaimDemand, read_claim
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.explain.known.needs import NO_NEEDS, PodNeeds
from driver.explain.known.reading import UnreadableError, asked_claim
from driver.explain.known.state import ClusterState
from driver.memo import Memo
from driver.placement.engine import Engine
from driver.placement.mix import RecentPods
from driver.placement.node_rules.usage import Usage
from driver.placement.shapes import PodShape

__all__ = ["TypicalPods", "running_pods"]

_MOST_BETWEEN: Final = 500
"""So many pods at most are placed before the ranking follows: each time, every kind of pod is ranked anew."""
_GROWTH: Final = 3
_COUNTED: Final = 2**16
"""So many pods are remembered as counted. When there were more, one that still waits counts a second time."""


class TypicalPods:
    """Tells the engine what is typical, now and then.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pods = RecentPods()
        self._count = 0
        self._next: float = inf
        self._counted: Memo[str, None] = Memo(_COUNTED)

    def learn(self, pods: Iterable[tuple[str, PodShape]]) -> None:
        """Count pods that are known before it is decided about any, by their UIDs; the ranking follows at once."""
        for uid, shape in pods:
            self._add(uid, shape)
        self._tell()

    def came(self, uid: str, shape: PodShape) -> None:
        """Count a pod that was decided about, unless it counts already."""
        self._add(uid, shape)
        if self._count >= self._next:
            self._tell()

    def _add(self, uid: str, shape: PodShape | None) -> None:
        if shape is not None and shape.gpus and uid not in self._counted:
            self._counted.put(uid, None)
            self._count += 1
            self._pods.add(shape)

    def _tell(self) -> None:
        self._engine.renew(self._pods.mix())
        self._next = self._count + min(_MOST_BETWEEN, max(1, (_GROWTH - 1) * self._count))


def running_pods(
    state: ClusterState, usage: Usage, features: Features
) -> Iterator[tuple[str, tuple[ClaimDemand, ...], PodNeeds]]:
    """Yield the pods that have claims now, in order of their names: UID, what the claims ask for, what else they need.

    Pods with a claim that cannot be read are left out, and those that share one and are not the first to have it.
    """
    of_pod: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for key in sorted(state.claim_keys()):
        claim = state.claim(key)
        if claim is not None and claim.pods:
            name, uid = claim.pods[0]
            of_pod[f"{claim.namespace}/{name}", uid].append(claim.asked)
    known: dict[str, ClaimDemand | None] = {}
    for (key, uid), texts in sorted(of_pod.items()):
        for text in texts:
            if text not in known:
                known[text] = _demand(text, state, features)
        demands = [demand for text in texts if (demand := known[text]) is not None]
        if len(demands) == len(texts):
            placed = usage.get(key)
            yield uid, tuple(demands), NO_NEEDS if placed is None else placed.needs


def _demand(asked: str, state: ClusterState, features: Features) -> ClaimDemand | None:
    if not asked:
        return None
    try:
        return read_claim(asked_claim(asked), state.classes, features)
    except (UnreadableError, AllocationError):
        return None
