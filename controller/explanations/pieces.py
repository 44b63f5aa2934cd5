"""Explains in pieces: nobody who wants the mirror waits for a whole explanation, and none goes on for ever."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from controller.explanations.mirror import Mirror
from driver.budget import Budget
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef

__all__ = ["ON_DEMAND", "ROUTINE", "Pieces", "Size"]

_PIECE_S: Final = 0.4
_LAST_S: Final = 0.8
"""CPU seconds for looking at nodes, and for telling what was found and what would help."""
_ON_THE_WALL: Final = 2.5
"""A piece may take so many times as long by the clock on the wall, where others have the CPU as well."""
_BETWEEN_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much there may be of one explanation.

    Attributes:
        looks: So many pieces for looking at nodes.
        wait_s: How long to wait for others before each piece; None for as long as it takes.
    """

    looks: int
    wait_s: float | None


ROUTINE: Final = Size(looks=3, wait_s=None)
"""Two seconds of CPU time: some ten times as long as it takes for an ordinary claim in a cluster of 5,000 nodes."""
ON_DEMAND: Final = Size(looks=1, wait_s=2.0)
"""Somebody waits for the answer, and others for theirs; asked again, it goes on where it was."""


class Pieces:
    """Explains claims and pods. Safe for several threads, each of which has its pieces in between those of the others.

    Args:
        mirror: What is known of the cluster.
        stop: Ends what is under way.
    """

    def __init__(self, mirror: Mirror, stop: threading.Event) -> None:
        self._mirror = mirror
        self._stop = stop
        with mirror.use() as state:
            self._explainer = Explainer(state)

    def explain(self, subject: ObjectRef, size: Size) -> Explanation:
        """Explain a ResourceClaim or a Pod, as far as there is time.

        Args:
            subject: The object.
            size: How much time.

        Raises:
            BusyError: Others took too long.
            InputError: There is no such object.
        """
        for _ in range(size.looks):
            with self._mirror.use(wait_s=size.wait_s):
                if self._explainer.look(subject, budget=self._budget(_PIECE_S)):
                    break
            if self._stop.wait(_BETWEEN_S):
                break
        with self._mirror.use(wait_s=size.wait_s):
            return self._explainer.explain(subject, budget=self._budget(_LAST_S))

    def _budget(self, cpu_s: float) -> Budget:
        return Budget(cpu_s, wall_s=cpu_s * _ON_THE_WALL, stopped=self._stop.is_set)
