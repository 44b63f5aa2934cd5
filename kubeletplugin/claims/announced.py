"""The claims that the node is to prepare before their pods are bound, as its NodeInventory names them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.reflector import Reflector
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, JsonObject
from driver.api.bounds import MAX_CLAIMS_TO_PREPARE
from driver.api.claim_reference import ClaimReference

__all__ = ["AnnouncedClaims"]

_LOG: Final = logging.getLogger(__name__)

_CLAIMS: Final = "claims"


class AnnouncedClaims:
    """Watches one object: claims are in users' namespaces, and no node may watch all of them.

    Args:
        api: The API server.
        node: The node's name.
        types: The types of devices that the plugin is to prepare before a pod is bound.
        on_change: Called when other claims are named than before; must not block.
        on_watching: Called once the object is watched; must not block either.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        node: str,
        types: tuple[str, ...],
        on_change: Callable[[], None],
        on_watching: Callable[[], None],
    ) -> None:
        self._node = node
        self._types = types
        self._on_change = on_change
        self._on_watching = on_watching
        self._is_watching = False
        self._was_refused = False
        self._stop = threading.Event()
        self._former: tuple[ClaimReference, ...] = ()
        self._inventory = Reflector[None](
            api,
            NODE_INVENTORIES,
            field_selector=f"metadata.name={node}",
            on_change=self._changed,
            transform=_transformed,
        )

    def start(self) -> None:
        """Watch until :meth:`stop`, where there are types."""
        if not self._types:
            return
        threading.Thread(target=self._inventory.run, args=(self._stop,), name="watch-inventory", daemon=True).start()

    def stop(self) -> None:
        """End the watch; no thread is waited for."""
        self._stop.set()

    def claims(self) -> tuple[ClaimReference, ...]:
        """Return the claims that are named now."""
        found = self._inventory.get(self._node)
        return () if found is None else tuple(found[_CLAIMS])

    def types(self) -> tuple[str, ...] | None:
        """Return the types of devices whose pods may wait for the plugin: it hears of their claims.

        Returns:
            None while the API server has not answered; no types while it refuses the watch.
        """
        is_refused = self._inventory.is_refused
        if is_refused and not self._was_refused:
            _LOG.error(
                "no pod waits for this node's devices: the plugin may not watch its NodeInventory. Check that its "
                "ClusterRole and the CRDs are of its version"
            )
        self._was_refused = is_refused
        if not self._types or is_refused:
            return ()
        return self._types if self._is_watching else None

    def _changed(self, _name: str, _event: None) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._on_watching()
        claims = self.claims()
        if claims != self._former:
            self._former = claims
            self._on_change()


def _transformed(stored: JsonObject) -> tuple[JsonObject, None]:
    metadata = stored["metadata"]
    listed = (stored.get("status") or {}).get("claimsToPrepare") or ()
    claims = tuple(
        ClaimReference(namespace=str(item["namespace"]), name=str(item["name"]), uid=str(item["uid"]))
        for item in listed[:MAX_CLAIMS_TO_PREPARE]
    )
    kept = {key: metadata[key] for key in ("name", "resourceVersion") if key in metadata}
    return {"metadata": kept, _CLAIMS: claims}, None
