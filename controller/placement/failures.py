"""Remembers where a pod could not be in the end, so that the next best follows, and for how long."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from controller.placement.next_step import Reason
from driver.backoff import delay_s

__all__ = ["FIRST_S", "FailedNodes"]

FIRST_S: Final = 120.0
"""How long a pod avoids the first node where it could not be."""
_LONGEST_S: Final = 1800.0
_PODS: Final = 4096
_NODES: Final = 256


@dataclass(slots=True)
class _Pod:
    until: OrderedDict[str, tuple[float, Reason]] = field(default_factory=OrderedDict)
    times: int = 0


class FailedNodes:
    """The nodes that pods avoid for a while. Not thread-safe; bounded: what is oldest is forgotten."""

    def __init__(self) -> None:
        self._pods: OrderedDict[str, _Pod] = OrderedDict()  # by UID

    def add(self, pod_uid: str, node: str, reason: Reason, now: float) -> float:
        """Take note that a pod could not be on a node after all; return for how long it avoids it, in seconds."""
        pod = self._pods.setdefault(pod_uid, _Pod())
        self._pods.move_to_end(pod_uid)
        pod.times += 1
        wait_s = delay_s(pod.times, first_s=FIRST_S, limit_s=_LONGEST_S)
        pod.until.pop(node, None)
        pod.until[node] = now + wait_s, reason
        if len(pod.until) > _NODES:
            pod.until.popitem(last=False)
        if len(self._pods) > _PODS:
            self._pods.popitem(last=False)
        return wait_s

    def of(self, pod_uid: str, now: float) -> dict[str, Reason]:
        """Return the nodes that a pod avoids now, and why; the last that failed comes last."""
        pod = self._pods.get(pod_uid)
        if pod is None:
            return {}
        for node in [node for node, (until, _) in pod.until.items() if until <= now]:
            del pod.until[node]
        return {node: reason for node, (_, reason) in pod.until.items()}

    def forget(self, pod_uid: str) -> None:
        """Forget a pod that is gone, or has its node."""
        self._pods.pop(pod_uid, None)
