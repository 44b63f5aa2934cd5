"""An index of the pods and claims that have devices of this driver, in both directions.

A PodGroup that a claim is reserved for stands in the place of its pods, which the claim does not name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer

__all__ = ["PodDevices", "PodIndex"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """The allocations of all claims of a pod, of this driver's devices.

    Attributes:
        pod: The pod, or the PodGroup.
        allocations: By claim, in the order of the claims' names; at least one.
    """

    pod: Consumer
    allocations: tuple[ClaimAllocation, ...]


class PodIndex:
    """Pods by their UID. Safe for several threads.

    Args:
        allocations_of: Returns the allocations of the claim with this key; none if it is gone.
        enqueue: Called with the UID of a pod whose claims have changed, or that has none any more.
    """

    def __init__(
        self, allocations_of: Callable[[str], Sequence[ClaimAllocation]], enqueue: Callable[[str], None]
    ) -> None:
        self._allocations_of = allocations_of
        self._enqueue = enqueue
        self._lock = threading.Lock()
        # Tuples, since most have one or two entries and there are tens of thousands.
        self._pods: dict[str, tuple[Consumer, ...]] = {}
        self._claims: dict[str, tuple[str, ...]] = {}

    def refresh(self, key: str, pods: tuple[Consumer, ...], *, is_allocation_changed: bool) -> bool:
        """Update the index after a claim has changed.

        Args:
            key: The claim's key.
            pods: The pods that it is reserved for; none if it is gone or has no devices of this driver.
            is_allocation_changed: Whether its allocation has changed as well. Otherwise only the pods that came or went
                are enqueued, for a claim may have hundreds.

        Returns:
            Whether its pods have changed.
        """
        with self._lock:
            former = self._pods.pop(key, ())
            if pods:
                self._pods[key] = pods
            gone, come = set(former) - set(pods), set(pods) - set(former)
            for pod in gone:
                others = tuple(other for other in self._claims.pop(pod.uid, ()) if other != key)
                if others:
                    self._claims[pod.uid] = others
            for pod in come:
                self._claims[pod.uid] = tuple(sorted({*self._claims.get(pod.uid, ()), key}))
        for pod in gone | (set(pods) if is_allocation_changed else come):
            self._enqueue(pod.uid)
        return bool(gone or come)

    def of_claim(self, key: str) -> tuple[Consumer, ...]:
        """Return the pods that a claim is reserved for; none if it has no devices of this driver."""
        with self._lock:
            return self._pods.get(key, ())

    def pod(self, uid: str) -> PodDevices | None:
        """Return the pod with this UID and its devices; None if it has none of this driver."""
        with self._lock:
            keys = self._claims.get(uid, ())
            pod = next((pod for key in keys for pod in self._pods[key] if pod.uid == uid), None)
        allocations = tuple(item for key in keys for item in self._allocations_of(key))
        return PodDevices(pod=pod, allocations=allocations) if pod is not None and allocations else None
