"""What explain knows of the cluster, for several threads: watches fill it, one reader at a time asks it.

An explanation may take a second, and no watch may wait so long: it tells of the nodes' slices as well. So a change is
only put into an inbox, compressed, and taken over by whoever explains next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from controller.explanations.annotated import AnnotatedClaims
from controller.packed import unpack
from driver.explain.cluster import Kind
from driver.explain.state import ClusterState

__all__ = ["Mirror"]

# Kinds that often change without a change of what explain looks at: heartbeats, what plugins say of claims.
_RESTLESS: Final = frozenset({Kind.NODE, Kind.CLAIM, Kind.INVENTORY, Kind.POD})
_NAMESPACED: Final = frozenset({Kind.CLAIM, Kind.POD})


class Mirror:
    """A :class:`~driver.explain.state.ClusterState` behind a lock. Safe for several threads.

    Args:
        clock: Monotonic seconds.

    Attributes:
        annotated: The claims that have Rootport's annotations.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.annotated = AnnotatedClaims()
        self._clock = clock
        self._state = ClusterState()
        self._asking = threading.RLock()
        self._lock = threading.Lock()  # of all below
        self._inbox: dict[tuple[Kind, str], bytes | None] = {}
        self._digests: dict[tuple[Kind, str], int] = {}
        self._changed_at = clock()
        self._namespaces: set[str] = set()

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Take over an object that is new or has changed.

        Args:
            kind: As the API names it, such as ``ResourceSlice``.
            key: ``namespace/name``, or ``name``.
            data: Of :func:`controller.packed.pack`.
        """
        place = (Kind(kind), key)
        with self._lock:
            if place[0] in _RESTLESS:
                digest = hash(data)
                if self._digests.get(place) == digest:
                    return
                self._digests[place] = digest
            if place[0] in _NAMESPACED:
                self._namespaces.add(key.partition("/")[0])
            self._add(place, data)

    def remove(self, kind: str, key: str) -> None:
        """The object is gone."""
        place = (Kind(kind), key)
        with self._lock:
            self._digests.pop(place, None)
            self._add(place, None)
        if place[0] is Kind.CLAIM:
            self.annotated.forget(key)

    def see_claim(self, metadata: Mapping[str, Any]) -> None:
        """Take note of a claim's annotations."""
        self.annotated.see(metadata)

    @property
    def quiet_for_s(self) -> float:
        """For how long nothing has changed, in seconds."""
        with self._lock:
            return self._clock() - self._changed_at

    @property
    def waiting(self) -> int:
        """How many changes are still to be taken over."""
        with self._lock:
            return len(self._inbox)

    @property
    def namespaces(self) -> frozenset[str]:
        """Those that have, or had, claims or pods with claims."""
        with self._lock:
            return frozenset(self._namespaces)

    def take_over(self, most: int) -> bool:
        """Take over so many changes; whether more are waiting."""
        with self._asking:
            for _ in range(most):
                if not self._take_one():
                    return False
        with self._lock:
            return bool(self._inbox)

    @contextmanager
    def use(self) -> Iterator[ClusterState]:
        """The state with all changes up to now; it does not change until the block ends."""
        with self._asking:
            with self._lock:
                waiting = len(self._inbox)
            self.take_over(waiting)  # what comes meanwhile is for the next one
            yield self._state

    def _add(self, place: tuple[Kind, str], data: bytes | None) -> None:
        # An object that changes often is taken over once, in the order of its first change.
        self._inbox[place] = data
        self._changed_at = self._clock()

    def _take_one(self) -> bool:
        with self._lock:
            place = next(iter(self._inbox), None)
            if place is None:
                return False
            data = self._inbox.pop(place)
        kind, key = place
        if data is None:
            self._state.remove(kind, key)
        else:
            self._state.put(kind, unpack(data))
        return True
