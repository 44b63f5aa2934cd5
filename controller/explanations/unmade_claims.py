"""The pods that wait for a claim which kube-scheduler makes of their extended resources when it has a node for them.

There is no claim yet that could be annotated, so why they wait is kept here.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from driver.explain.known.cluster import PodState
from driver.explain.known.extended import needs_claim, served_names
from driver.explain.known.state import ClusterState

__all__ = ["UnmadeClaims", "is_without_claim", "pods_without_claim"]


class UnmadeClaims:
    """What the annotations of these claims would be, by the pod's UID. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._annotations: dict[str, Mapping[str, str]] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        """A number that grows whenever what a claim would have changes."""
        return self._revision

    def put(self, pod_uid: str, annotations: Mapping[str, str]) -> None:
        """Keep what the claim of a pod would have; nothing if nothing that is known keeps it from its devices."""
        with self._lock:
            if annotations == self._annotations.get(pod_uid, {}):
                return
            self._revision += 1
            self._annotations[pod_uid] = annotations

    def annotations(self, pod_uid: str) -> Mapping[str, str]:
        """Return what the claim of a pod would have; nothing as long as that is not known."""
        with self._lock:
            return self._annotations.get(pod_uid, {})

    def retain(self, pod_uids: Collection[str]) -> None:
        """Forget all pods but these."""
        with self._lock:
            self._annotations = {uid: kept for uid, kept in self._annotations.items() if uid in pod_uids}


def pods_without_claim(state: ClusterState) -> list[PodState]:
    """Return the pods that wait for such a claim, in no order."""
    served = served_names(state.classes)
    pods = (state.pod(key) for key in state.pod_keys())
    return [pod for pod in pods if pod is not None and pod.containers and _is_without_claim(state, pod, served)]


def is_without_claim(state: ClusterState, pod: PodState) -> bool:
    """Return whether a pod is one of :func:`pods_without_claim`."""
    return bool(pod.containers) and _is_without_claim(state, pod, served_names(state.classes))


def _is_without_claim(state: ClusterState, pod: PodState, served: Collection[str]) -> bool:
    return pod.is_waiting and needs_claim(pod, served) and state.extended_claim(pod) is None
