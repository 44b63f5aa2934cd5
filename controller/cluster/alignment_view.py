"""Which claims a pod has, and which pods a claim: an index over the claims that have devices of this driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import PodConsumer

__all__ = ["PodDevices", "PodIndex"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """What all claims of a pod were given of this driver's devices.

    Attributes:
        pod: The pod.
        allocations: By claim, in the order of the claims' names; at least one.
    """

    pod: PodConsumer
    allocations: tuple[ClaimAllocation, ...]


class PodIndex:
    """Pods by their UID. Safe for several threads.

    Args:
        allocations_of: What the claim with this key was given; nothing where it is gone.
        look_at: Called with the UID of a pod whose claims have changed, or that has none any more.
    """

    def __init__(
        self, allocations_of: Callable[[str], Sequence[ClaimAllocation]], look_at: Callable[[str], None]
    ) -> None:
        self._allocations_of = allocations_of
        self._look_at = look_at
        self._lock = threading.Lock()
        # Tuples, since most have one or two entries and there are tens of thousands.
        self._pods: dict[str, tuple[PodConsumer, ...]] = {}
        self._claims: dict[str, tuple[str, ...]] = {}

    def refresh(self, key: str, pods: tuple[PodConsumer, ...], *, is_given_anew: bool) -> bool:
        """A claim has changed; whether its pods have.

        Args:
            key: Of the claim.
            pods: Whom it is reserved for; empty where it is gone or has no devices of this driver.
            is_given_anew: Whether what it was given has changed as well; otherwise only the pods that came or went are
                looked at, for a claim may have hundreds.
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
        for pod in gone | (set(pods) if is_given_anew else come):
            self._look_at(pod.uid)
        return bool(gone or come)

    def of_claim(self, key: str) -> tuple[PodConsumer, ...]:
        """The pods that a claim is reserved for; none where it has nothing of this driver's."""
        with self._lock:
            return self._pods.get(key, ())

    def pod(self, uid: str) -> PodDevices | None:
        """What a pod has; None where it has nothing of this driver's."""
        with self._lock:
            keys = self._claims.get(uid, ())
            pod = next((pod for key in keys for pod in self._pods[key] if pod.uid == uid), None)
        allocations = tuple(item for key in keys for item in self._allocations_of(key))
        return PodDevices(pod=pod, allocations=allocations) if pod is not None and allocations else None
