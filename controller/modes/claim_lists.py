"""Lists all claims for the nodes that want to know whether a device is free: one list for all that wait.

A watch may lag, and then it does not show a claim that is allocated already. A list without a resource version is
answered from etcd's newest state (https://kubernetes.io/docs/reference/using-api/api-concepts/, "most recent").
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS, JsonObject

__all__ = ["EVERY_S", "ClaimLists", "Listed"]

EVERY_S: Final = 10.0
"""The time from one list of all claims to the next, at least."""
_REST: Final = 20
"""The pause is so many times as long as the list took, if that is more: a list of many claims costs the API server
much."""
_LONGEST_PAUSE_S: Final = 120.0
"""A GPU changes its mode only after a list, and a wish for that ends after five minutes."""

_LOG: Final = logging.getLogger(__name__)
_USED: Final = "used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What the claims of a list had of one node's devices.

    Attributes:
        began_at: When the list was asked for, in monotonic seconds.
        used: The devices' names.
    """

    began_at: float
    used: frozenset[str]


class ClaimLists:
    """Lists claims in a thread of its own. Safe for several threads.

    Args:
        api: The API server.
        enqueue: Called with the name of each node for which there is a new list.
        every_s: The time from one list to the next, at least.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        enqueue: Callable[[str], None],
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._enqueue = enqueue
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._waiting: set[str] = set()
        self._listed: dict[str, Listed] = {}

    def ask(self, node: str) -> None:
        """Ask for a list that begins from now on; the node is enqueued once it is there."""
        with self._lock:
            self._waiting.add(node)
        self._due.set()

    def of(self, node: str) -> Listed | None:
        """Return the last list that was made for a node; None if there is none."""
        with self._lock:
            return self._listed.get(node)

    def forget(self, node: str) -> None:
        """Forget a node that needs no list any more."""
        with self._lock:
            self._waiting.discard(node)
            self._listed.pop(node, None)

    def run(self, stop: threading.Event) -> None:
        """Make the lists that are asked for, until ``stop`` is set."""
        while not stop.is_set():
            if not self._due.wait(min(self._every_s, 0.5)):
                continue
            began = self._clock()
            self.list_once()
            stop.wait(max(self._every_s, min(_REST * (self._clock() - began), _LONGEST_PAUSE_S)))

    def list_once(self) -> None:
        """Make a list for the nodes that wait, if there are any; they go on waiting if it fails."""
        with self._lock:
            self._due.clear()
            nodes = set(self._waiting)
        if not nodes:
            return
        began_at = self._clock()
        try:
            used = self._used()
        except ApiServerError as error:
            _LOG.warning("claims cannot be listed; will be tried again", extra={"error": str(error)})
            self._due.set()
            return
        with self._lock:
            nodes &= self._waiting  # the others were forgotten meanwhile
            self._waiting -= nodes
            for node in nodes:
                self._listed[node] = Listed(began_at=began_at, used=frozenset(used.get(node, ())))
        _LOG.debug("claims listed", extra={"nodes": len(nodes)})
        for node in sorted(nodes):
            self._enqueue(node)

    def _used(self) -> dict[str, set[str]]:
        """Return the devices that claims have, by pool.

        Raises:
            ApiServerError: The claims cannot be listed, or one of them cannot be read.
        """
        kind = str(RESOURCE_CLAIMS)

        def skipped() -> int:
            return sum(count for (resource, _), count in self._api.skipped.so_far().items() if resource == kind)

        before = skipped()
        listing = self._api.list(RESOURCE_CLAIMS, transform=_only_devices)
        if skipped() != before:
            # It may be a watch that skipped one at the same time: then the next attempt will do.
            raise ApiServerError("a claim could not be read, so no device is known to be free")
        used = defaultdict[str, set[str]](set)
        for item in listing.items:
            for pool, device in item[_USED]:
                used[pool].add(device)
        return used


def _only_devices(claim: JsonObject) -> JsonObject:
    """Keep the pool and name of each device of this driver that a claim has; one with admin access is not used."""
    results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
    return {
        _USED: [
            (item["pool"], item["device"])
            for item in results
            if item["driver"] == DRIVER_NAME and not item.get("adminAccess")
        ]
    }
