"""Explains within a budget of time, in pieces: nobody waits for a whole explanation, and none goes on for ever."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from controller.explanations.shared_state import SharedClusterState
from driver.budget import Budget
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef

__all__ = ["ON_DEMAND", "ROUTINE", "BudgetedExplainer", "ExplanationBudget"]

_PIECE_S: Final = 0.4
"""CPU seconds of one piece of examining nodes."""
_LAST_S: Final = 0.8
"""CPU seconds of the last piece: the texts and the proposals."""
_ON_THE_WALL: Final = 2.5
"""A piece may take so many times as long in wall-clock time, because other threads use the CPU as well."""
_BETWEEN_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationBudget:
    """How much time one explanation may take.

    Attributes:
        pieces: How many pieces of examining nodes it may have.
        wait_s: How long to wait for other threads before each piece; None for as long as it takes.
    """

    pieces: int
    wait_s: float | None


ROUTINE: Final = ExplanationBudget(pieces=3, wait_s=None)
"""Two seconds of CPU time: some ten times as long as it takes for an ordinary claim in a cluster of 5,000 nodes."""
ON_DEMAND: Final = ExplanationBudget(pieces=1, wait_s=2.0)
"""For a caller who waits, with others behind: the next request for the same object goes on where this one ended."""


class BudgetedExplainer:
    """Explains claims and pods. Safe for several threads: the pieces of their explanations alternate.

    Args:
        cluster: The state of the cluster.
        stop: Ends what is under way.
    """

    def __init__(self, cluster: SharedClusterState, stop: threading.Event) -> None:
        self._cluster = cluster
        self._stop = stop
        with cluster.use() as state:
            self._explainer = Explainer(state)

    def explain(self, subject: ObjectRef, budget: ExplanationBudget) -> Explanation:
        """Explain a ResourceClaim or a Pod, as far as there is time.

        Args:
            subject: The object.
            budget: How much time there is.

        Raises:
            BusyError: Other threads took too long.
            InputError: There is no such object.
        """
        for _ in range(budget.pieces):
            with self._cluster.use(wait_s=budget.wait_s):
                if self._explainer.judge_nodes(subject, budget=self._budget(_PIECE_S)):
                    break
            if self._stop.wait(_BETWEEN_S):
                break
        with self._cluster.use(wait_s=budget.wait_s):
            return self._explainer.explain(subject, budget=self._budget(_LAST_S))

    def _budget(self, cpu_s: float) -> Budget:
        return Budget(cpu_s, wall_s=cpu_s * _ON_THE_WALL, stopped=self._stop.is_set)
