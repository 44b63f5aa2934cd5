"""An index of the claims that wait for a node's plugin, by the node."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from driver.api.claim_reference import ClaimReference

__all__ = ["AwaitingClaims"]


class AwaitingClaims:
    """Claims by key, ``namespace/name``, and by the pools whose devices they wait for. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, tuple[ClaimReference, frozenset[str]]] = {}
        self._by_pool: defaultdict[str, set[str]] = defaultdict(set)

    def refresh(self, key: str, claim: ClaimReference | None, pools: Iterable[str]) -> frozenset[str]:
        """Update the index after a claim has changed.

        Args:
            key: The claim's key.
            claim: The claim; None if it is gone, or waits for no node.
            pools: The pools whose devices it waits for.

        Returns:
            The pools for which that is another answer than before.
        """
        now = None if claim is None else (claim, frozenset(pools))
        with self._lock:
            former = self._claims.pop(key, None)
            if now is not None and now[1]:
                self._claims[key] = now
            if former == self._claims.get(key):
                return frozenset()
            had, has = (frozenset() if item is None else item[1] for item in (former, self._claims.get(key)))
            for pool in had - has:
                self._by_pool[pool].discard(key)
                if not self._by_pool[pool]:
                    del self._by_pool[pool]
            for pool in has - had:
                self._by_pool[pool].add(key)
        return had | has

    def of_node(self, node: str) -> tuple[ClaimReference, ...]:
        """Return the claims that wait for a node, sorted by namespace and name."""
        with self._lock:
            return tuple(self._claims[key][0] for key in sorted(self._by_pool.get(node, ())))
