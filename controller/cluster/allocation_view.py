"""What claims were given of this driver's devices, by claim and by pool."""

from __future__ import annotations

import threading
from collections import defaultdict

from driver.objects import ClaimAllocation

__all__ = ["AllocationIndex"]


class AllocationIndex:
    """Claims by key, ``namespace/name``, and by the pools of their devices. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, tuple[ClaimAllocation, ...]] = {}
        self._by_pool: defaultdict[str, set[str]] = defaultdict(set)

    def refresh(self, key: str, given: tuple[ClaimAllocation, ...]) -> frozenset[str]:
        """A claim has changed.

        Args:
            key: Of the claim.
            given: What it has of this driver's devices; empty where it is gone.

        Returns:
            The pools of what it had and has; none where that has not changed: it is another driver's claim, or the
            change is no concern of its devices.
        """
        with self._lock:
            former = self._claims.pop(key, ())
            if given:
                self._claims[key] = given
            if given == former:
                return frozenset()
            had, has = ({item.pool for item in items} for items in (former, given))
            for pool in had - has:
                self._by_pool[pool].discard(key)
                if not self._by_pool[pool]:
                    del self._by_pool[pool]
            for pool in has - had:
                self._by_pool[pool].add(key)
        return frozenset(had | has)

    def of_claim(self, key: str) -> tuple[ClaimAllocation, ...]:
        """What a claim was given; nothing where it is gone."""
        with self._lock:
            return self._claims.get(key, ())

    def of_pool(self, pool: str) -> list[ClaimAllocation]:
        """What claims were given of a pool."""
        with self._lock:
            claims = [self._claims[key] for key in self._by_pool.get(pool, ())]
        return [item for claim in claims for item in claim if item.pool == pool]
