"""The queue of the pods that are due: by priority, then by fair shares of namespaces, then the oldest pod."""

from __future__ import annotations

import heapq
from collections import defaultdict

from controller.explanations.fair_sharing import FairShares
from controller.placement.pods import WaitingPod

__all__ = ["PodQueue"]


class PodQueue:
    """The pods that are due. Not thread-safe."""

    def __init__(self) -> None:
        self._due: dict[str, WaitingPod] = {}
        self._ready: defaultdict[int, defaultdict[str, list[tuple[str, str]]]]
        self._ready = defaultdict(lambda: defaultdict(list))
        self._shares = FairShares()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, pod: WaitingPod) -> None:
        """Queue a pod; one that is queued already only changes."""
        known = self._due.get(pod.key)
        self._due[pod.key] = pod
        if known is None or (known.priority, known.created) != (pod.priority, pod.created):
            heapq.heappush(self._ready[pod.priority][pod.namespace], (pod.created, pod.key))

    def remove(self, key: str) -> None:
        """Take a pod out of the queue."""
        self._due.pop(key, None)

    def pop(self) -> WaitingPod | None:
        """Return the first pod, and take it out; None if none is due."""
        while self._ready:
            priority = max(self._ready)
            level = self._ready[priority]
            namespace = self._shares.next(level)
            waiting = level[namespace]
            created, key = heapq.heappop(waiting)
            if not waiting:
                del level[namespace]
                if not level:
                    del self._ready[priority]
            pod = self._due.get(key)
            if pod is not None and (pod.priority, pod.created) == (priority, created):
                del self._due[key]
                return pod
        return None

    def charge(self, namespace: str, seconds: float) -> None:
        """Charge a namespace with time that its pod has taken."""
        self._shares.charge(namespace, seconds)
