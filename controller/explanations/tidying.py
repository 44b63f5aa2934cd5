"""Whose annotations are removed next: every namespace has its turn, whatever the others do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice, zip_longest

__all__ = ["Tidying"]


class Tidying:
    """Chooses among the claims whose annotations nobody wants any more. For one thread.

    Anybody may annotate claims of their own, again and again: so the namespaces take turns, and within one the claim
    that was chosen longest ago comes first.
    """

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}  # when it was chosen, by the claim's key
        self._turn = 0

    def chosen(self, left_over: Iterable[str], most: int) -> list[str]:
        """Which claims to tidy now, in this order.

        Args:
            left_over: The keys (``namespace/name``) of all claims to tidy; what is not among them is forgotten.
            most: How many.
        """
        by_namespace: defaultdict[str, list[str]] = defaultdict(list)
        for key in left_over:
            by_namespace[key.partition("/")[0]].append(key)
        self._turns = {key: turn for keys in by_namespace.values() for key in keys if (turn := self._turns.get(key))}
        queues = [sorted(keys, key=self._place) for _, keys in sorted(by_namespace.items())]
        # The namespace whose first claim was chosen longest ago begins: there may be more of them than turns.
        queues.sort(key=lambda keys: self._place(keys[0]))
        in_turn = (key for row in zip_longest(*queues) for key in row if key is not None)
        return list(islice(in_turn, most))

    def tried(self, key: str) -> None:
        """A claim that was chosen had its turn."""
        self._turn += 1
        self._turns[key] = self._turn

    def _place(self, key: str) -> tuple[int, str]:
        return self._turns.get(key, 0), key
