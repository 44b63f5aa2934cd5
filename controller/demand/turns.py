"""Which of the pods that wait for devices have their turn, and for how long a change of mode is kept for one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from driver.backoff import delay_s
from driver.explain.known.cluster import PodState
from driver.model.devices import DeviceName
from driver.modes.demand import PodWish

__all__ = ["DemandPace", "TrackedPod", "Turns"]

_ATTEMPTS: Final = 4
_FADING: Final = 0.98
"""Of the time that a namespace has used, so much counts in the next round: half of it after some two minutes."""
_LITTLE_S: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPace:
    """How often wishes are looked for, and how much at a time; in seconds.

    Attributes:
        period_s: The least time between two rounds...
        rest: ...and so many times as long as the last one took, so that rounds never take much of a core.
        wait_s: How long a pod waits before it has a turn: kube-scheduler needs a moment for what it can place.
        round_s: CPU time of one round.
        pod_s: CPU time for one pod.
        most_pods: The most pods that have a turn in a round; fewer after one that was too short for its pods.
        most_wishes: The most pods that have a wish at a time.
        untaken_s: How long what is published for a pod is kept for it, if kube-scheduler does not place the pod. There
            must be another reason for that, and other pods may need the GPU.
        unchanged_s: How long a change that does not come about is waited for.
        put_off_s: How long such a pod waits for its next turn, and one that takes too long; doubled each time.
        longest_put_off_s: The longest such wait.
        retry_s: The wait after an error.
    """

    period_s: float = 3.0
    rest: float = 10.0
    wait_s: float = 5.0
    round_s: float = 0.4
    pod_s: float = 0.2
    most_pods: int = 128
    most_wishes: int = 256
    untaken_s: float = 60.0
    unchanged_s: float = 300.0
    put_off_s: float = 300.0
    longest_put_off_s: float = 3600.0
    retry_s: float = 30.0


@dataclass(slots=True, eq=False)
class TrackedPod:
    """A pod that waits. All times are monotonic seconds.

    Attributes:
        pod: The pod, as it was when pods were listed last.
        since: When it was first seen waiting.
        wish: What should be published for it; None for nothing.
        wished_at: When that was found, or when all of it was published.
        attempts: How many turns in a row took longer than a turn may take.
        put_off: How often it was put off.
        not_before: When it has its next turn, at the earliest.
        looked_at: When it had its last turn; minus infinity before the first.
        kind: Equal for pods that the same devices serve; None before the first turn.
    """

    pod: PodState
    since: float
    wish: PodWish | None = None
    wished_at: float = 0.0
    attempts: int = 0
    put_off: int = 0
    not_before: float = 0.0
    looked_at: float = -inf
    kind: object = None


class Turns:
    """Follows the pods that wait. Not thread-safe.

    Args:
        pace: How often wishes are looked for.
    """

    def __init__(self, pace: DemandPace) -> None:
        self._pace = pace
        self._pods: dict[str, TrackedPod] = {}  # by UID
        self._used: dict[str, float] = {}  # by namespace: CPU seconds, which fade
        self._most = pace.most_pods
        self._given_up: dict[tuple[str, object], float] = {}  # by namespace and kind: when a wish was given up

    def track(self, pods: Iterable[PodState], now: float) -> None:
        """Follow these pods, and no others any more."""
        known = self._pods
        self._pods = {pod.uid: known.get(pod.uid) or TrackedPod(pod, now) for pod in pods}
        for pod in pods:
            self._pods[pod.uid].pod = pod
        self._given_up = {key: at for key, at in self._given_up.items() if now - at < self._pace.put_off_s}

    @property
    def uids(self) -> Sequence[str]:
        """The UIDs of the pods that are followed."""
        return tuple(self._pods)

    def with_wish(self, now: float) -> list[TrackedPod]:
        """Return the pods whose wishes are kept, the oldest first."""
        found = [item for item in self._pods.values() if item.wish is not None]
        for item in found:
            limit_s = self._pace.untaken_s if item.wish is not None and item.wish.is_open else self._pace.unchanged_s
            if now - item.wished_at > limit_s:
                self.put_off(item, now)
                self._given_up[item.pod.namespace, item.kind] = now
        return sorted((item for item in found if item.wish is not None), key=_age)

    def without_wish(
        self, now: float, *, is_beyond_help: Callable[[TrackedPod], bool] = lambda _: False
    ) -> list[list[TrackedPod]]:
        """Return the pods that have a turn, in groups that come one after the other; in each the oldest first.

        The pods of namespaces that have used much time come after those of others, and so do those beyond the share of
        pods that a namespace has. If more wait than have a turn, it goes round: first those whose last one is longest
        ago.

        Args:
            now: The time.
            is_beyond_help: Whether no devices would help a pod, so that it needs no turn.
        """
        waiting = [
            item
            for item in self._pods.values()
            if item.wish is None
            and now - item.since >= self._pace.wait_s
            and now >= item.not_before
            and not is_beyond_help(item)
        ]
        share = max(1, self._most // max(1, len({item.pod.namespace for item in waiting})))
        wishes = sum(item.wish is not None for item in self._pods.values())
        left = min(self._most, max(0, self._pace.most_wishes - wishes))
        counts = Counter[str]()
        groups: defaultdict[tuple[bool, int], list[TrackedPod]] = defaultdict(list)
        for item in sorted(waiting, key=lambda item: (item.looked_at, _age(item))):
            namespace = item.pod.namespace
            counts[namespace] += 1
            groups[counts[namespace] > share, self._used_much(namespace)].append(item)
        found = []
        for _, group in sorted(groups.items()):
            found.append(sorted(group[:left], key=_age))
            left -= len(found[-1])
        return found

    def end_round(self, seconds: Mapping[str, float], *, in_time: bool) -> None:
        """Note how a round went.

        Args:
            seconds: The CPU time that namespaces have used.
            in_time: Whether there was time for all pods that had a turn; otherwise fewer have one in the next round.
        """
        self._most = min(2 * self._most, self._pace.most_pods) if in_time else max(self._most // 2, 1)
        self._used = {
            name: used
            for name in self._used.keys() | seconds.keys()
            if (used := self._used.get(name, 0.0) * _FADING + seconds.get(name, 0.0)) > _LITTLE_S
        }

    def wished(self, item: TrackedPod, wish: PodWish | None, now: float) -> bool:
        """Note what was found for a pod; return whether that is another wish than before."""
        former, item.wish = item.wish, wish
        item.attempts = 0
        is_new = wish is not None and (former is None or _where(former) != _where(wish))
        if is_new or (former is not None and wish is not None and wish.is_open and not former.is_open):
            item.wished_at = now
        return is_new

    def took_too_long(self, item: TrackedPod, now: float) -> None:
        """Note that a pod's turn ended before anything was found: the next one goes on from there, a few times."""
        item.attempts += 1
        if item.attempts >= _ATTEMPTS:
            item.attempts = 0
            self.put_off(item, now)

    def may_look(self, item: TrackedPod, kind: object, now: float) -> bool:
        """Return False where a pod came after a wish for one like it was given up, and put it off.

        Otherwise a Job that makes its pod anew, which can't be placed for another reason, would change a GPU each time.

        Args:
            item: The pod.
            kind: Equal for pods that the same devices serve.
            now: The time.
        """
        item.kind = kind
        given_up_at = self._given_up.get((item.pod.namespace, kind), inf)
        if item.since < given_up_at:
            return True
        item.not_before = given_up_at + self._pace.put_off_s
        return now >= item.not_before

    def put_off(self, item: TrackedPod, now: float) -> None:
        """Let a pod wait for its next turn, longer each time; it has no wish until then."""
        item.wish = None
        item.put_off += 1
        item.not_before = now + delay_s(
            item.put_off, first_s=self._pace.put_off_s, limit_s=self._pace.longest_put_off_s
        )

    def _used_much(self, namespace: str) -> int:
        return int(self._used.get(namespace, 0.0) / self._pace.pod_s) if self._pace.pod_s else 0


def _age(item: TrackedPod) -> tuple[float, str]:
    return item.since, item.pod.key


def _where(wish: PodWish) -> tuple[str, Mapping[DeviceName, frozenset[DeviceName]]]:
    return wish.node, wish.gpus
