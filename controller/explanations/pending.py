"""Which claims are pending, and why in a sentence: for who looks at all of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from controller.cluster.pending_annotations import MESSAGE, REASON
from controller.explanations.mirror import Mirror
from driver.explain.known.state import ClusterState

__all__ = ["PendingClaim", "PendingClaims"]

_LOG: Final = logging.getLogger(__name__)
_PERIOD_S: Final = 1.0
_MOST_WAITING: Final = 1000  # changes that are taken over at one go; more of them are the loop's work, in pieces
_MOST: Final = 5000
_MOST_PODS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingClaim:
    """A claim that is not allocated.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        reason: Why, in one CamelCase word; empty where nothing was found yet, or nothing keeps it from its devices.
        message: Why, for a person; empty likewise.
        pods: The names of the pods that wait for it, at most 16; they are in its namespace.
    """

    namespace: str
    name: str
    reason: str = ""
    message: str = ""
    pods: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """As JSON; what is empty is left out, but the pods."""
        wire: dict[str, Any] = {"namespace": self.namespace, "name": self.name}
        wire |= {key: value for key, value in (("reason", self.reason), ("message", self.message)) if value}
        return wire | {"pods": list(self.pods)}


class PendingClaims:
    """Looks once a second which claims are pending: who asks gets what was seen then, and waits for nobody.

    Why they are is what the annotations say, so it is as old as these, and names no more than they do.

    Args:
        mirror: What is known of the cluster.
        changed: Called when something is different.
    """

    def __init__(self, mirror: Mirror, *, changed: Callable[[], None]) -> None:
        self._mirror = mirror
        self._changed = changed
        self._seen: tuple[int, int] | None = None
        self._now: tuple[PendingClaim, ...] = ()

    @property
    def now(self) -> tuple[PendingClaim, ...]:
        """By namespace and name; of too many, the first."""
        return self._now

    @property
    def is_known(self) -> bool:
        """Whether somebody has looked yet."""
        return self._seen is not None

    def run(self, stop: threading.Event, is_synced: Callable[[], bool]) -> None:
        """Look until stopped; nothing that fails ends it."""
        while not stop.wait(_PERIOD_S):
            try:
                if is_synced() and self._mirror.waiting <= _MOST_WAITING:
                    self.look()
            except Exception:  # noqa: BLE001 - a mistake of ours must not end this process
                _LOG.exception("unexpected error; pending claims are looked at again")

    def look(self) -> None:
        """Look once."""
        with self._mirror.use() as state:
            seen = (state.generation, self._mirror.annotated.revision)
            if seen == self._seen:
                return
            found = tuple(self._claim(state, key) for key in sorted(state.pending())[:_MOST])
        self._seen = seen
        if found != self._now:
            self._now = found
            self._changed()

    def _claim(self, state: ClusterState, key: str) -> PendingClaim:
        namespace, _, name = key.partition("/")
        said = self._mirror.annotated.said(key)
        waiting = sorted(pod.name for pod in state.pods_of(key) if not (pod.ended or pod.deleting))
        return PendingClaim(
            namespace=namespace,
            name=name,
            reason=said.get(REASON, ""),
            message=said.get(MESSAGE, ""),
            pods=tuple(waiting[:_MOST_PODS]),
        )
