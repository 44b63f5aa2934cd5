"""An index of what is known of claims, by claim and by the pools whose devices they have or wait for."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from driver.api.claim_reference import ClaimReference
from driver.objects.claims import ClaimAllocation

__all__ = ["AllocationIndex", "AwaitingClaims"]

_Known = TypeVar("_Known")


class _ClaimIndex(Generic[_Known]):
    """What is known of each claim, by its key, ``namespace/name``, and by pool. Safe for several threads.

    Args:
        pools_of: Returns the pools that it concerns.
    """

    def __init__(self, pools_of: Callable[[_Known], Iterable[str]]) -> None:
        self._pools_of = pools_of
        self._lock = threading.Lock()
        self._claims: dict[str, _Known] = {}
        self._by_pool: defaultdict[str, set[str]] = defaultdict(set)

    def _refresh(self, key: str, known: _Known | None) -> frozenset[str]:
        """Update the index after a claim has changed.

        Args:
            key: The claim's key.
            known: What is known of it; None for nothing.

        Returns:
            The pools that it concerned before and now; none if nothing is different.
        """
        with self._lock:
            former = self._claims.pop(key, None)
            if known is not None:
                self._claims[key] = known
            if former == known:
                return frozenset()
            had, has = (frozenset() if item is None else frozenset(self._pools_of(item)) for item in (former, known))
            for pool in had - has:
                self._by_pool[pool].discard(key)
                if not self._by_pool[pool]:
                    del self._by_pool[pool]
            for pool in has - had:
                self._by_pool[pool].add(key)
        return had | has

    def _of_claim(self, key: str) -> _Known | None:
        with self._lock:
            return self._claims.get(key)

    def _of_pool(self, pool: str) -> list[_Known]:
        """Return what is known of the claims that concern a pool, in their keys' order."""
        with self._lock:
            return [self._claims[key] for key in sorted(self._by_pool.get(pool, ()))]


class AllocationIndex(_ClaimIndex[tuple[ClaimAllocation, ...]]):
    """The claims' allocations of this driver's devices, by the devices' pools."""

    def __init__(self) -> None:
        super().__init__(lambda allocations: (item.pool for item in allocations))

    def refresh(self, key: str, allocations: tuple[ClaimAllocation, ...]) -> frozenset[str]:
        """Update the index after a claim has changed.

        Args:
            key: The claim's key.
            allocations: Its allocated devices of this driver; none if it is gone.

        Returns:
            The pools of its devices before and now; none if its devices have not changed.
        """
        return self._refresh(key, allocations or None)

    def of_claim(self, key: str) -> tuple[ClaimAllocation, ...]:
        """Return a claim's allocations; none if it is gone."""
        return self._of_claim(key) or ()

    def of_pool(self, pool: str) -> list[ClaimAllocation]:
        """Return all claims' allocations of a pool's devices."""
        return [item for allocations in self._of_pool(pool) for item in allocations if item.pool == pool]


class _Awaiting(NamedTuple):
    claim: ClaimReference
    pools: frozenset[str]


class AwaitingClaims(_ClaimIndex[_Awaiting]):
    """The claims that wait for a node's plugin, by the pools whose devices they wait for."""

    def __init__(self) -> None:
        super().__init__(lambda awaiting: awaiting.pools)

    def refresh(self, key: str, claim: ClaimReference | None, pools: Iterable[str]) -> frozenset[str]:
        """Update the index after a claim has changed.

        Args:
            key: The claim's key.
            claim: The claim; None if it is gone, or waits for no node.
            pools: The pools whose devices it waits for.

        Returns:
            The pools for which that is another answer than before.
        """
        found = frozenset(pools)
        return self._refresh(key, _Awaiting(claim, found) if claim is not None and found else None)

    def of_node(self, node: str) -> tuple[ClaimReference, ...]:
        """Return the claims that wait for a node, sorted by namespace and name."""
        return tuple(item.claim for item in self._of_pool(node))
