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

from controller.cluster.packed import unpack
from controller.cluster.pending_annotations import AnnotatedClaims
from driver.adapters.kubernetes.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODE_INVENTORIES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState

__all__ = ["BusyError", "Mirror"]

# Kinds that often change without a change of what explain looks at: heartbeats, what plugins say of claims.
_RESTLESS: Final = frozenset({Kind.NODE, Kind.CLAIM, Kind.INVENTORY, Kind.POD})
_RESOURCES: Final = {
    Kind(resource.kind): resource
    for resource in (
        DEVICE_CLASSES,
        DEVICE_TAINT_RULES,
        NODE_INVENTORIES,
        NODES,
        PODS,
        RESOURCE_CLAIM_TEMPLATES,
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
    )
}
_NAMESPACED: Final = frozenset({Kind.CLAIM, Kind.POD})
_TAKING_OVER_S: Final = 0.5


class BusyError(Exception):
    """Somebody else asks, and that takes long: answer 503 with the text."""


class Mirror:
    """A :class:`~driver.explain.known.state.ClusterState` behind a lock. Safe for several threads.

    Args:
        skipped: Gets the objects that cannot be taken over; explanations are made without them.
        clock: Monotonic seconds.

    Attributes:
        annotated: The claims that have Rootport's annotations.
    """

    def __init__(self, *, skipped: SkippedObjects | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.annotated = AnnotatedClaims()
        self._skipped = skipped or SkippedObjects()
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
            data: Of :func:`controller.cluster.packed.pack`.
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
    def use(self, *, wait_s: float | None = None) -> Iterator[ClusterState]:
        """The state with all changes up to now; it does not change until the block ends, which must be soon.

        Where there are so many changes that taking them over takes long, the last ones are left to who asks next.

        Args:
            wait_s: How long to wait for whoever uses it now; None for as long as it takes.

        Raises:
            BusyError: It took longer.
        """
        if not self._asking.acquire(timeout=-1 if wait_s is None else wait_s):
            raise BusyError("others are having claims explained: try again in a moment")
        try:
            with self._lock:
                waiting = len(self._inbox)  # what comes meanwhile is for the next one
            end = self._clock() + _TAKING_OVER_S
            while waiting > 0 and self._take_one() and self._clock() < end:
                waiting -= 1
            yield self._state
        finally:
            self._asking.release()

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
        self._apply(*place, data)
        return True

    def _apply(self, kind: Kind, key: str, data: bytes | None) -> None:
        try:
            if data is None:
                self._state.remove(kind, key)
            else:
                self._state.put(kind, unpack(data))
        except Exception as error:  # noqa: BLE001 - the other objects must not suffer
            self._skipped.skip(_RESOURCES[kind], "Failed", f"{key} explain", error)
            if data is not None:
                self._apply(kind, key, None)  # no explanation may rest on half of it
                self._state.leave_out(kind, key, "reading it failed, which is a mistake of Rootport's")
