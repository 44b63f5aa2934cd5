"""Creates the pods of a sequence, in its order, and measures what becomes of them."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import PODS, RESOURCE_CLAIMS
from driver.placement.replay.trace import TracePod
from tests.bench.trace_cluster.cluster import TraceCluster
from tests.bench.trace_cluster.follower import Follower, Outcome
from tests.bench.trace_cluster.objects import NAMESPACE, Way, claim, pod

__all__ = ["Point", "Run"]

_ANSWER_S: Final = 120.0
_LOOK_S: Final = 1.0
_SILENT: Final = 5


@dataclass(frozen=True, slots=True)
class Point:
    """Where the run stands when so many pods have come.

    Attributes:
        pods: How many.
        dropped: How many of them fit nowhere.
        arrived_milli: What they ask for, in thousandths of GPUs.
        given_milli: What those of them have that are bound.
        seconds: Since the run began.
        cpu_s: The CPU time of each process since the run began.
    """

    pods: int
    dropped: int
    arrived_milli: int
    given_milli: int
    seconds: float
    cpu_s: dict[str, float]


@dataclass(slots=True)
class Run:
    """One pass through the sequence.

    Args:
        cluster: Started.
        way: Who chooses.
        window: How many pods wait at one time, at most. With 1 each pod finds what the pods before it have left, as in
            a replay, and its time is its own.

    Attributes:
        waits: Seconds from the first call for a pod (to create its claim, where it has one) until it was seen bound,
            for each that has a GPU.
        reasons: Why pods did not fit, with how often.
    """

    cluster: TraceCluster
    way: Way
    window: int = 1
    waits: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    _began: float = 0.0
    _cpu: dict[str, float] = field(default_factory=dict)
    _waiting: dict[str, tuple[TracePod, float]] = field(default_factory=dict)
    _pods: int = 0
    _dropped: int = 0
    _arrived: int = 0
    _given: int = 0
    _nowhere: float = 0.0

    def through(self, sequence: Sequence[TracePod], each_milli: int) -> Iterator[Point]:
        """Create all pods; yield a point whenever so much more demand has come, and at the end."""
        follower = Follower(self.cluster.api, self.way)
        self._began, self._cpu = time.monotonic(), dict(self.cluster.cpu_s())
        due, is_told = each_milli, True
        for item in sequence:
            self._create(item)
            self._settle(follower, self.window - 1)
            if is_told := self._arrived >= due:
                self._settle(follower, 0)
                yield self._point()
                due = (self._arrived // each_milli + 1) * each_milli
        self._settle(follower, 0)
        if not is_told:
            yield self._point()

    def _create(self, item: TracePod) -> None:
        began = time.monotonic()
        self._waiting[item.name] = (item, began)
        self._pods += 1
        self._arrived += item.gpu_milli
        api = self.cluster.api
        if (wanted := claim(item, self.way)) is not None:
            api.create(RESOURCE_CLAIMS, wanted, namespace=NAMESPACE)
        api.create(PODS, pod(item, self.way), namespace=NAMESPACE)

    def _settle(self, follower: Follower, most: int) -> None:
        """Take in what happened to pods until so many wait, at most."""
        end, silent = time.monotonic() + _ANSWER_S, 0
        while len(self._waiting) > most:
            try:
                self._take(follower.outcomes.get(timeout=_LOOK_S))
                end, silent = time.monotonic() + _ANSWER_S, 0
            except queue.Empty:
                silent += 1
                if self._fit_nowhere(silent):
                    self._drop_waiting()
                elif time.monotonic() > end:
                    names = ", ".join(sorted(self._waiting))
                    raise TimeoutError(f"nothing became of {names} within {_ANSWER_S:.0f} s") from None

    def _fit_nowhere(self, silent: int) -> bool:
        """Whether the controller has found no managed node for as many pods as wait, and nothing happens any more."""
        is_long = silent >= (1 if len(self._waiting) == 1 else _SILENT)
        return self.way is Way.MANAGED and is_long and self.cluster.nowhere() >= self._nowhere + len(self._waiting)

    def _drop_waiting(self) -> None:
        for name in sorted(self._waiting):
            item, _ = self._waiting[name]
            if claim(item, self.way) is not None:
                stored = self.cluster.api.get(RESOURCE_CLAIMS, name, namespace=NAMESPACE)
                if not (stored.get("status") or {}).get("allocation"):
                    self._take(Outcome(name, "", "no managed node fits", time.monotonic()))
        self._nowhere = self.cluster.nowhere()

    def _take(self, outcome: Outcome) -> None:
        item, began = self._waiting.pop(outcome.pod)
        if outcome.node:
            self._given += item.gpu_milli
            if item.shape.gpus:
                self.waits.append(outcome.at - began)
            return
        self._dropped += 1
        self.reasons["".join(letter for letter in outcome.message if not letter.isdigit())] += 1
        api = self.cluster.api
        _gone(lambda: api.delete(PODS, item.name, namespace=NAMESPACE))
        if claim(item, self.way) is not None:
            _gone(lambda: api.delete(RESOURCE_CLAIMS, item.name, namespace=NAMESPACE))

    def _point(self) -> Point:
        return Point(
            pods=self._pods,
            dropped=self._dropped,
            arrived_milli=self._arrived,
            given_milli=self._given,
            seconds=time.monotonic() - self._began,
            cpu_s={name: now - self._cpu.get(name, 0.0) for name, now in self.cluster.cpu_s().items()},
        )


def _gone(delete: Callable[[], Any]) -> None:
    with contextlib.suppress(NotFoundError):
        delete()
