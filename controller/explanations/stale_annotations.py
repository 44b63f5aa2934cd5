"""Chooses which stale annotations are removed next: every namespace gets its part, however many it has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice, zip_longest

__all__ = ["StaleAnnotations"]


class StaleAnnotations:
    """Chooses among the claims whose annotations are to be removed. Not thread-safe.

    Users can annotate their claims again and again: so the namespaces alternate, and within one the claim that was
    attempted longest ago comes first.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}  # the number of the last attempt, by the claim's key
        self._number = 0

    def next(self, stale: Iterable[str], most: int) -> list[str]:
        """Return the claims whose annotations to remove now, in this order.

        Args:
            stale: The keys (``namespace/name``) of all such claims; others are forgotten.
            most: How many to return.
        """
        by_namespace: defaultdict[str, list[str]] = defaultdict(list)
        for key in stale:
            by_namespace[key.partition("/")[0]].append(key)
        self._attempts = {
            key: number for keys in by_namespace.values() for key in keys if (number := self._attempts.get(key))
        }
        queues = [sorted(keys, key=self._order) for _, keys in sorted(by_namespace.items())]
        # The namespace whose first claim was attempted longest ago begins: there may be more namespaces than `most`.
        queues.sort(key=lambda keys: self._order(keys[0]))
        alternating = (key for row in zip_longest(*queues) for key in row if key is not None)
        return list(islice(alternating, most))

    def attempted(self, key: str) -> None:
        """Remember that the claim's annotations were to be removed now."""
        self._number += 1
        self._attempts[key] = self._number

    def _order(self, key: str) -> tuple[int, str]:
        return self._attempts.get(key, 0), key
