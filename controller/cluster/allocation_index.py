"""An index of the claims' allocations of this driver's devices, by claim and by pool."""

from __future__ import annotations

import threading
from collections import defaultdict

from driver.objects.claims import ClaimAllocation

__all__ = ["AllocationIndex"]


class AllocationIndex:
    """Claims by key, ``namespace/name``, and by the pools of their devices. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, tuple[ClaimAllocation, ...]] = {}
        self._by_pool: defaultdict[str, set[str]] = defaultdict(set)

    def refresh(self, key: str, allocations: tuple[ClaimAllocation, ...]) -> frozenset[str]:
        """Update the index after a claim has changed.

        Args:
            key: The claim's key.
            allocations: Its allocated devices of this driver; none if it is gone.

        Returns:
            The pools of its devices before and now; none if its devices have not changed.
        """
        with self._lock:
            former = self._claims.pop(key, ())
            if allocations:
                self._claims[key] = allocations
            if allocations == former:
                return frozenset()
            had, has = ({item.pool for item in items} for items in (former, allocations))
            for pool in had - has:
                self._by_pool[pool].discard(key)
                if not self._by_pool[pool]:
                    del self._by_pool[pool]
            for pool in has - had:
                self._by_pool[pool].add(key)
        return frozenset(had | has)

    def of_claim(self, key: str) -> tuple[ClaimAllocation, ...]:
        """Return a claim's allocations; none if it is gone."""
        with self._lock:
            return self._claims.get(key, ())

    def of_pool(self, pool: str) -> list[ClaimAllocation]:
        """Return all claims' allocations of a pool's devices."""
        with self._lock:
            claims = [self._claims[key] for key in self._by_pool.get(pool, ())]
        return [item for claim in claims for item in claim if item.pool == pool]
