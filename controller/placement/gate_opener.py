"""Opens the gates of pods, and has a node nominated for those without claims."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from controller.placement.context import PlacementContext
from controller.placement.jobs import Job
from controller.placement.pods import WaitingPod
from controller.placement.writer import ClaimWriter, Result
from driver.explain.known.cluster import PodState
from driver.model.managed_nodes import GATE

__all__ = ["GateOpener"]

_LOG: Final = logging.getLogger(__name__)
_MOST_UNGATED: Final = 10_000


class GateOpener:
    """Opens gates. For one thread.

    Args:
        context: What is shared with the rest of the loop.
        writer: Writes.
    """

    def __init__(self, context: PlacementContext, writer: ClaimWriter) -> None:
        self._context = context
        self._writer = writer
        self._ungated: set[str] = set()

    def observe(self, pod: WaitingPod) -> None:
        """Take note of a pod as the watch shows it."""
        if not pod.gates:
            self._ungated.discard(pod.uid)
        if len(self._ungated) > _MOST_UNGATED:
            self._ungated.clear()  # pods that went before the watch showed it

    def nominate(self, waiting: WaitingPod, pod: PodState, *, avoid: Mapping[str, str]) -> None:
        """Choose the node of a pod without claims; kube-scheduler has the last word."""
        context = self._context
        if waiting.gates != (GATE,) or waiting.uid in self._ungated or context.jobs.is_busy((waiting.key,)):
            return
        node = context.placer.nominate(pod, avoid=avoid)
        wire = context.known.nominated(waiting.key, node) if node else None
        if wire is None:
            self.open(waiting)  # it may fit elsewhere, or others may have to go
            return
        context.placer.put_bound_pod(waiting.key, wire)

        def work() -> tuple[Result, str]:
            return self._writer.nominate(waiting.key, waiting.uid, node)

        def on_done(result: tuple[Result, str] | None) -> None:
            if result is None or result[0] is not Result.DONE:
                context.placer.put_bound_pod(waiting.key, None)
            self.opened(waiting, result)

        context.jobs.start(Job((waiting.key,), work, on_done))

    def open(self, pod: WaitingPod) -> None:
        """Open a pod's gate, if it has ours."""
        if GATE not in pod.gates or pod.uid in self._ungated or self._context.jobs.is_busy((pod.key,)):
            return
        self._context.jobs.start(
            Job(
                (pod.key,),
                lambda: self._writer.ungate(pod.key, pod.uid),
                lambda result: self.opened(pod, result),
            )
        )

    def opened(self, pod: WaitingPod, result: tuple[Result, str] | None) -> None:
        """Take in what came of opening a gate."""
        if result is not None and result[0] is Result.DONE:
            self._ungated.add(pod.uid)  # until the watch shows it
            return
        # A pod that is gone is what happens every day.
        level = logging.DEBUG if result is not None and result[0] is Result.CHANGED else logging.WARNING
        _LOG.log(level, "gate not removed", extra={"pod": pod.key, "error": result[1] if result else ""})
        self._context.retries.failed(pod.key, first_s=0.5, limit_s=60.0)
