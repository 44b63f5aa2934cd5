"""Lists the pending claims, each with its reason in a sentence, for those who want to see all of them."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from controller.cluster.pending_annotations import MESSAGE, REASON
from controller.explanations.shared_state import SharedClusterState
from controller.explanations.unmade_claims import pods_without_claim
from driver.explain.known.cluster import EXTENDED_CLAIM, PodState
from driver.explain.known.state import ClusterState

__all__ = ["PendingClaim", "PendingClaims"]

_LOG: Final = logging.getLogger(__name__)
_PERIOD_S: Final = 1.0
_MOST_QUEUED: Final = 1000  # changes that are applied in one go; to apply more, in pieces, is the loop's work
_MOST: Final = 5000
_MOST_PODS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingClaim:
    """A claim that is not allocated.

    Attributes:
        namespace: Its namespace.
        name: Its name; ``<extended-resources>`` of one that kube-scheduler will make of a pod's extended resources.
        reason: Why, in one CamelCase word; empty if it is not explained yet, or nothing keeps it from its devices.
        message: Why, for a person; empty likewise.
        pods: The names of the pods that wait for it, at most 16; they are in its namespace.
    """

    namespace: str
    name: str
    reason: str = ""
    message: str = ""
    pods: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the claim as JSON, without empty fields except the pods."""
        wire: dict[str, Any] = {"namespace": self.namespace, "name": self.name}
        wire |= {key: value for key, value in (("reason", self.reason), ("message", self.message)) if value}
        return wire | {"pods": list(self.pods)}


class PendingClaims:
    """Lists the pending claims once a second, so that those who ask for them never wait.

    The reasons are those of the annotations: as old as these, with no more names than they have.

    Args:
        cluster: The state of the cluster.
        changed: Called when the list has changed.
    """

    def __init__(self, cluster: SharedClusterState, *, changed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._changed = changed
        self._version: tuple[int, int, int] | None = None
        self._claims: tuple[PendingClaim, ...] = ()

    @property
    def claims(self) -> tuple[PendingClaim, ...]:
        """The first 5,000 of them, by namespace and name."""
        return self._claims

    @property
    def is_known(self) -> bool:
        """Whether they have been listed yet."""
        return self._version is not None

    def run(self, stop: threading.Event, is_synced: Callable[[], bool]) -> None:
        """List them until stopped; no failure ends it."""
        while not stop.wait(_PERIOD_S):
            try:
                if is_synced() and self._cluster.queued <= _MOST_QUEUED:
                    self.refresh()
            except Exception:  # noqa: BLE001 - a mistake of ours must not end this process
                _LOG.exception("unexpected error; pending claims are looked at again")

    def refresh(self) -> None:
        """List them now."""
        with self._cluster.use() as state:
            version = (state.generation, self._cluster.annotated.revision, self._cluster.unmade.revision)
            if version == self._version:
                return
            claims = [(key, None) for key in state.pending()]
            unmade = [(f"{pod.namespace}/{EXTENDED_CLAIM}", pod) for pod in pods_without_claim(state)]
            first = heapq.nsmallest(_MOST, chain(claims, unmade), key=_place)
            found = tuple(self._claim(state, key) if pod is None else self._unmade(pod) for key, pod in first)
        self._version = version
        if found != self._claims:
            self._claims = found
            self._changed()

    def _unmade(self, pod: PodState) -> PendingClaim:
        annotations = self._cluster.unmade.annotations(pod.uid)
        return PendingClaim(
            namespace=pod.namespace,
            name=EXTENDED_CLAIM,
            reason=annotations.get(REASON, ""),
            message=annotations.get(MESSAGE, ""),
            pods=(pod.name,),
        )

    def _claim(self, state: ClusterState, key: str) -> PendingClaim:
        namespace, _, name = key.partition("/")
        annotations = self._cluster.annotated.annotations(key)
        waiting = sorted(pod.name for pod in state.pods_of(key) if not (pod.ended or pod.deleting))
        return PendingClaim(
            namespace=namespace,
            name=name,
            reason=annotations.get(REASON, ""),
            message=annotations.get(MESSAGE, ""),
            pods=tuple(waiting[:_MOST_PODS]),
        )


def _place(item: tuple[str, PodState | None]) -> tuple[str, str]:
    key, pod = item
    return key, "" if pod is None else pod.name
