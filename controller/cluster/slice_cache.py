"""This driver's ResourceSlices by pool, never older than what this process itself wrote.

A watch lags behind one's own writes. Without this cache a second reconciliation of a node would work on the slices as
they were before the first one, and write again. Source of the idea: client-go's MutationCache
(tools/cache/mutation_cache.go).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from controller.cluster.packed import packed, unpacked
from driver.adapters.kubernetes.resources import JsonObject

__all__ = ["SliceCache"]


class SliceCache:
    """The watched slices, overlaid with own writes until the watch has caught up. Thread-safe.

    Args:
        watched: Returns the slice of a name as the watch shows it, packed or not; None if there is none.
        trust_s: How long an own write is trusted although the watch does not show it: it may have been undone in a gap
            of the watch.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        watched: Callable[[str], JsonObject | None],
        *,
        trust_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watched = watched
        self._trust_s = trust_s
        self._clock = clock
        self._slices: dict[str, JsonObject] = {}
        self._pools: defaultdict[str, set[str]] = defaultdict(set)
        self._unconfirmed: dict[str, float] = {}
        self._deleted: dict[str, str] = {}
        self._under_way: set[str] = set()
        self._changed: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """While this process writes a slice, of which it passes the answer to :meth:`written`.

        The watch may show the slice before the answer is read, and that is no change by another process.
        """
        with self._lock:
            self._under_way.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(name)

    def refresh(self, name: str) -> tuple[str, ...]:
        """Take over the slice of that name from the watch; return the pools that another process has changed."""
        with self._lock:
            seen = self._watched(name)
            known = self._slices.get(name)
            if seen is None:
                self._deleted.pop(name, None)
                if known is None:
                    return ()
                self._drop(name)
                return (_pool(known),)
            if self._deleted.get(name) == seen["metadata"]["uid"]:
                return ()
            if known is not None and _version(seen) <= _version(known):
                if _version(seen) == _version(known):
                    self._unconfirmed.pop(name, None)
                return ()
            self._deleted.pop(name, None)
            self._put(seen)
            self._unconfirmed.pop(name, None)
            if name in self._under_way:
                return ()
            return tuple({_pool(seen)} | ({_pool(known)} if known is not None else set()))

    def written(self, stored: JsonObject) -> None:
        """Take over a slice that this process wrote, as the API server answered."""
        name = stored["metadata"]["name"]
        with self._lock:
            known = self._slices.get(name)
            if known is not None and _version(known) >= _version(stored):
                if _version(known) > _version(stored):
                    self._changed.add(_pool(known))  # by another process, since, and refresh has kept silent about it
                return
            self._deleted.pop(name, None)
            self._put(packed(stored))
            self._unconfirmed[name] = self._clock()

    def deleted(self, name: str, uid: str) -> None:
        """Remove a slice that this process deleted."""
        with self._lock:
            if name in self._slices:
                self._drop(name)
                self._deleted[name] = uid

    def pool(self, pool: str) -> list[JsonObject]:
        """Return the slices of a pool, by name."""
        with self._lock:
            for name in [name for name in self._pools.get(pool, ()) if self._is_doubtful(name)]:
                self._drop(name)
            kept = [self._slices[name] for name in sorted(self._pools.get(pool, ()))]
        return [unpacked(item) for item in kept]

    def pools(self) -> tuple[str, ...]:
        """Return all pools that have slices."""
        with self._lock:
            return tuple(self._pools)

    def doubtful(self) -> tuple[str, ...]:
        """Return the pools that must be reconciled, although no event says so.

        Those with an own write that the watch should have shown by now, and those that another process changed just
        after an own write.
        """
        with self._lock:
            changed, self._changed = self._changed, set()
            return tuple(changed | {_pool(self._slices[name]) for name in self._unconfirmed if self._is_doubtful(name)})

    def retain(self, names: Iterable[str]) -> None:
        """Forget deletions that the watch has confirmed without an event: it shows only these names."""
        shown = set(names)
        with self._lock:
            for name in [name for name in self._deleted if name not in shown]:
                del self._deleted[name]

    def _is_doubtful(self, name: str) -> bool:
        at = self._unconfirmed.get(name)
        return at is not None and self._clock() - at > self._trust_s and self._watched(name) is None

    def _put(self, wire: JsonObject) -> None:
        name = wire["metadata"]["name"]
        if name in self._slices:
            self._drop(name)
        self._slices[name] = wire
        self._pools[_pool(wire)].add(name)

    def _drop(self, name: str) -> None:
        pool = _pool(self._slices.pop(name))
        self._unconfirmed.pop(name, None)
        self._pools[pool].discard(name)
        if not self._pools[pool]:
            del self._pools[pool]


def _pool(wire: JsonObject) -> str:
    name: str = wire["spec"]["pool"]["name"]
    return name


def _version(wire: JsonObject) -> int:
    # Resource versions are whole numbers that grow (KEP-5504: comparable resource versions).
    return int(wire["metadata"]["resourceVersion"])
