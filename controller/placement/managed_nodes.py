"""From when to when a managed node's devices are the controller's to allocate, so that they never have two writers.

A node becomes managed by a label. Then its devices are tainted in the slices; kube-scheduler sees that within a second,
and what it had chosen before it writes within seconds. After :data:`SETTLE_S` the devices are the controller's: so long
by this process's own clock, or much longer by the time of the taint, which is the API server's. A node stops being
managed the other way round: the controller allocates nothing there any more, and then the taint goes.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from driver.explain.known.state import ClusterState
from driver.model.managed_nodes import is_labelled
from driver.modes.transition import CLOSED_S

__all__ = ["SETTLE_S", "ManagedNodes"]

SETTLE_S: Final = CLOSED_S
"""For how long a device must have had the taint before the controller allocates it: as long as for a change of mode."""

_RELEASE_S: Final = 3.0
"""So long after the last write for a node its taint stays, until kube-scheduler has seen what was written."""
_OBSERVE_S: Final = 0.5
_OLD_S: Final = 300.0  # more than the clocks of two machines differ


@dataclass(slots=True)
class _Seen:
    """A managed node as it was seen.

    Attributes:
        version: Of its devices.
        since: Since when these are tainted; None where not all of them are.
        at: When this was seen first, in monotonic seconds.
        is_settled: Whether it has been so for long enough.
    """

    version: int
    since: datetime | None
    at: float
    is_settled: bool = False


class ManagedNodes:
    """Knows which nodes are managed, and which of them are settled.

    Args:
        is_labelled: Returns whether a Node has the label now, as the watch shows it. Thread-safe.
        may_be_written: Returns whether an allocation on a node may come that nobody waits for any more. Thread-safe.
        settle_s: As :data:`SETTLE_S`.
        clock: Monotonic seconds.
        now: The time of day.
    """

    def __init__(
        self,
        is_labelled: Callable[[str], bool],
        *,
        may_be_written: Callable[[str], bool] = lambda _node: False,
        settle_s: float = SETTLE_S,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._is_labelled = is_labelled
        self._may_be_written = may_be_written
        self._settle_s = settle_s
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()  # of the three below
        self._writing: Counter[str] = Counter()
        self._written_at: dict[str, float] = {}
        self._released_at: dict[str, float] = {}  # when it was last said here that a taint may go
        self._seen: dict[str, _Seen] = {}
        self._unsettled: frozenset[str] = frozenset()
        self._generation = -1
        self._observe_again = 0.0

    @contextmanager
    def writing(self, node: str) -> Iterator[bool]:
        """Say whether an allocation on a node may be written in this block: it keeps the node's taint meanwhile."""
        with self._lock:
            self._writing[node] += 1
        try:
            # Asked after the node is taken down: whoever removes the taint has the label gone first. A label that has
            # come again since leaves a moment in which kube-scheduler may have allocated.
            yield self._is_labelled(node) and not self._was_released(node)
        finally:
            with self._lock:
                self._writing[node] -= 1
                if not self._writing[node]:
                    del self._writing[node]
                self._written_at[node] = self._clock()

    def is_tainted(self, node: str) -> bool:
        """Return whether a node's devices are to have the taint. Thread-safe."""
        if self._is_labelled(node):
            return True
        may_be_written = self._may_be_written(node)
        with self._lock:
            if may_be_written:
                self._written_at[node] = self._clock()
            at = self._written_at.get(node)
            if node in self._writing or (at is not None and self._clock() - at < _RELEASE_S):
                return True
            self._written_at.pop(node, None)
            self._released_at[node] = self._clock()
            if node in self._seen:
                self._observe_again = 0.0
        return False

    def unsettled(self, state: ClusterState) -> frozenset[str]:
        """Return the managed nodes where nothing may be allocated yet. For one thread."""
        now = self._clock()
        if state.generation == self._generation and now < self._observe_again:
            return self._unsettled
        self._generation, self._observe_again = state.generation, now + _OBSERVE_S
        with self._lock:
            old = [name for name, at in self._released_at.items() if now - at >= self._settle_s]
            for name in old:
                del self._released_at[name]
        seen: dict[str, _Seen] = {}
        for name, node in state.nodes.items():
            if is_labelled(node.node.metadata.labels):
                seen[name] = self._observe(state, name, now)
        self._seen = seen
        self._unsettled = frozenset(
            name for name, item in seen.items() if not item.is_settled or self._was_released(name)
        )
        return self._unsettled

    def _was_released(self, node: str) -> bool:
        """Return whether the taint may have been away within the last seconds, whatever the slices show by now."""
        with self._lock:
            at = self._released_at.get(node)
        return at is not None and self._clock() - at < self._settle_s

    def _observe(self, state: ClusterState, node: str, now: float) -> _Seen:
        version = state.version(node)
        seen = self._seen.get(node)
        if seen is None or seen.version != version:
            # Of several times the earliest: what comes later is born with the taint.
            since = state.managed_since(node)
            if seen is None or seen.since != since:
                seen = _Seen(version=version, since=since, at=now)
            seen.version = version
        if not seen.is_settled and seen.since is not None:
            age_s = (self._now() - seen.since).total_seconds()
            seen.is_settled = now - seen.at >= self._settle_s or age_s >= _OLD_S
        return seen
