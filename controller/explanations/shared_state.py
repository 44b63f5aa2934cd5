"""The state of the cluster that explanations are made from, shared by threads: informers fill it, one reader uses it.

An explanation may take a second, and no informer may wait so long: it reports the nodes' slices as well. So a change is
only queued, compressed, and applied by the thread that uses the state next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from controller.cluster.packed import decompress
from controller.cluster.pending_annotations import AnnotatedClaims
from controller.explanations.unmade_claims import UnmadeClaims
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
from driver.allocator.features import Features
from driver.explain.known.cluster import Kind
from driver.explain.known.placing import Placing
from driver.explain.known.state import ClusterState

__all__ = ["BusyError", "SharedClusterState"]

# Kinds that often change without a change of what explain reads: heartbeats, the status that plugins write of claims.
_CHANGING_OFTEN: Final = frozenset({Kind.NODE, Kind.CLAIM, Kind.INVENTORY, Kind.POD})
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
_APPLYING_S: Final = 0.5


class BusyError(Exception):
    """Other explanations are under way, and take long: answer 503 with the text."""


class SharedClusterState:
    """A :class:`~driver.explain.known.state.ClusterState` behind a lock. Safe for several threads.

    Args:
        skipped: Counts the objects that cannot be applied; explanations are made without them.
        placing: This controller, which leads wherever the state is used, and its policy; None where it is not known.
        why_not_placed: Returns why placement finds no node for a pod, by its UID.
        clock: Monotonic seconds.

    Attributes:
        annotated: The claims that have Rootport's annotations.
        unmade: The same of claims that are not made yet.
    """

    def __init__(
        self,
        *,
        skipped: SkippedObjects | None = None,
        features: Features | None = None,
        placing: Placing | None = None,
        why_not_placed: Callable[[str], str] = lambda _pod_uid: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.annotated = AnnotatedClaims()
        self.unmade = UnmadeClaims()
        self._skipped = skipped or SkippedObjects()
        self._clock = clock
        self._state = ClusterState(features=features)
        self._state.placing = placing
        self._state.why_not_placed = why_not_placed
        self._in_use = threading.RLock()
        self._lock = threading.Lock()  # of all below
        self._changes: dict[tuple[Kind, str], bytes | None] = {}
        self._digests: dict[tuple[Kind, str], int] = {}
        self._changed_at = clock()
        self._namespaces: set[str] = set()

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Queue an object that is new or has changed.

        Args:
            kind: As the API names it, such as ``ResourceSlice``.
            key: ``namespace/name``, or ``name``.
            data: Of :func:`controller.cluster.packed.pack`.
        """
        place = (Kind(kind), key)
        with self._lock:
            if place[0] in _CHANGING_OFTEN:
                digest = hash(data)
                if self._digests.get(place) == digest:
                    return
                self._digests[place] = digest
            if place[0] in _NAMESPACED:
                self._namespaces.add(key.partition("/")[0])
            self._queue(place, data)

    def remove(self, kind: str, key: str) -> None:
        """Queue the removal of an object that is gone."""
        place = (Kind(kind), key)
        with self._lock:
            self._digests.pop(place, None)
            self._queue(place, None)
        if place[0] is Kind.CLAIM:
            self.annotated.forget(key)

    def observe_claim(self, metadata: Mapping[str, Any]) -> None:
        """Take in a claim's annotations."""
        self.annotated.observe(metadata)

    @property
    def quiet_for_s(self) -> float:
        """For how long nothing has changed, in seconds."""
        with self._lock:
            return self._clock() - self._changed_at

    @property
    def queued(self) -> int:
        """How many changes are not applied yet."""
        with self._lock:
            return len(self._changes)

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that have, or had, claims or pods with claims."""
        with self._lock:
            return frozenset(self._namespaces)

    def apply_changes(self, most: int) -> bool:
        """Apply at most so many changes; return whether more are queued."""
        with self._in_use:
            for _ in range(most):
                if not self._apply_next():
                    return False
        with self._lock:
            return bool(self._changes)

    @contextmanager
    def use(self, *, wait_s: float | None = None) -> Iterator[ClusterState]:
        """Lend the state with all changes up to now; it does not change until the block ends, which must be soon.

        If there are so many changes that applying them takes long, the last ones are left to the next user.

        Args:
            wait_s: How long to wait for the thread that uses it now; None for as long as it takes.

        Raises:
            BusyError: The other thread took longer.
        """
        if not self._in_use.acquire(timeout=-1 if wait_s is None else wait_s):
            raise BusyError("others are having claims explained: try again in a moment")
        try:
            with self._lock:
                queued = len(self._changes)  # later changes are for the next user
            end = self._clock() + _APPLYING_S
            while queued > 0 and self._apply_next() and self._clock() < end:
                queued -= 1
            yield self._state
        finally:
            self._in_use.release()

    def _queue(self, place: tuple[Kind, str], data: bytes | None) -> None:
        # An object that changes often is applied once, in the order of its first change.
        self._changes[place] = data
        self._changed_at = self._clock()

    def _apply_next(self) -> bool:
        with self._lock:
            place = next(iter(self._changes), None)
            if place is None:
                return False
            data = self._changes.pop(place)
        self._apply(*place, data)
        return True

    def _apply(self, kind: Kind, key: str, data: bytes | None) -> None:
        try:
            if data is None:
                self._state.remove(kind, key)
            else:
                self._state.put(kind, decompress(data))
        except Exception as error:  # noqa: BLE001 - the other objects must not suffer
            self._skipped.skip(_RESOURCES[kind], "Failed", f"{key} explain", error)
            if data is not None:
                self._apply(kind, key, None)  # no explanation may rest on half of it
                self._state.leave_out(kind, key, "reading it failed, which is a mistake of Rootport's")
