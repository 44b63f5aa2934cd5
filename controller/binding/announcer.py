"""Writes into each NodeInventory which claims its node is to prepare before their pods are bound.

The node's plugin watches that one object, where it would have to watch every claim of the cluster. A claim is written
at once; one that waits no longer leaves the list with the next write, or a minute later: the plugin reads each claim
before it does anything, so a stale name costs one read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from controller.cluster.inventories import StoredInventory
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, JsonObject
from driver.api.bounds import MAX_CLAIMS_TO_PREPARE
from driver.api.claim_reference import ClaimReference

__all__ = ["FIELD_MANAGER", "ClaimAnnouncer"]

FIELD_MANAGER: Final = "rootport-controller-binding"
"""The owner of ``status.claimsToPrepare`` by server-side apply; an apply has all fields of its owner."""

_FIELD: Final = "claimsToPrepare"
_TIDY_S: Final = 60.0
_TRUST_S: Final = 60.0
"""For so long what was written counts, and not what the watch shows.

The watch may be behind, and somebody who empties the list again and again must not be answered each time.
"""
_LOG: Final = logging.getLogger(__name__)


class _Written(NamedTuple):
    """What was written last of a node."""

    inventory_uid: str
    claims: frozenset[str]
    at: float


class ClaimAnnouncer:
    """Keeps the lists. Safe for several threads, if each node is handled by one at a time.

    Args:
        api: The API server.
        awaiting: Returns the claims that wait for a node.
        inventory: Returns a node's NodeInventory; None if there is none.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        awaiting: Callable[[str], Sequence[ClaimReference]],
        inventory: Callable[[str], StoredInventory | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._awaiting = awaiting
        self._inventory = inventory
        self._clock = clock
        self._written: dict[str, _Written] = {}
        self._tidied: set[str] = set()
        self._lock = threading.Lock()

    def reconcile(self, node: str) -> float | None:
        """Bring a node's list up to date.

        Returns:
            Seconds after which it is to be looked at again: what waits no longer is to be taken out of it, or what
            was written is not in it; None if it is right.

        Raises:
            ApiServerError: It could not be written.
        """
        inventory = self._inventory(node)
        if inventory is None:
            self.forget(node)
            return None
        uid = inventory.uid
        wanted = self._awaiting(node)[:MAX_CLAIMS_TO_PREPARE]
        names = frozenset(claim.uid for claim in wanted)
        with self._lock:
            known = self._written.get(node)
            was_put_off = node in self._tidied
            self._tidied.discard(node)
        now = self._clock()
        shown = inventory.claims_to_prepare
        if known is None or known.inventory_uid != uid or now - known.at >= _TRUST_S:
            known = _Written(inventory_uid=uid, claims=shown, at=now)
        stored = known.claims
        if names == stored:
            return None if names == shown else known.at + _TRUST_S - now
        if names < stored and not was_put_off:
            with self._lock:
                self._tidied.add(node)
            return _TIDY_S
        if not self._write(node, uid, wanted):
            return None
        with self._lock:
            self._written[node] = _Written(inventory_uid=uid, claims=names, at=self._clock())
        _LOG.debug("claims to prepare", extra={"node": node, "claims": len(wanted)})
        return None

    def forget(self, node: str | None = None) -> None:
        """Forget what was written, and rely on the watch again: for one node, or for all."""
        with self._lock:
            if node is None:
                self._written.clear()
            else:
                self._written.pop(node, None)
                self._tidied.discard(node)

    def _write(self, node: str, uid: str, claims: Sequence[ClaimReference]) -> bool:
        entries: list[JsonObject] = [
            {"namespace": item.namespace, "name": item.name, "uid": item.uid} for item in claims
        ]
        # With the UID: an inventory that was deleted meanwhile must not come back as an empty one.
        body: JsonObject = {"metadata": {"name": node, "uid": uid}, "status": {_FIELD: entries}}
        try:
            self._api.apply(NODE_INVENTORIES, body, field_manager=FIELD_MANAGER, subresource="status")
        except NotFoundError:
            return False
        return True
