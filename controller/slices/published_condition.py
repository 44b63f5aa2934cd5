"""The controller's words in the conditions of a NodeInventory.

``Published``: whether the node's slices are out, and if not, why. And of ``Ready``, which is the plugin's own, that it
is not known any more once nothing is heard of the plugin, as Kubernetes' node lifecycle controller does for Nodes. A
plugin that is there again writes over that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, JsonObject
from driver.api.times import time_text

__all__ = ["FIELD_MANAGER", "SILENT", "PublishedCondition", "published_condition"]

FIELD_MANAGER: Final = "rootport-controller"
"""Who owns what this process writes by server-side apply."""

_DOUBT_MANAGER: Final = f"{FIELD_MANAGER}-liveness"  # with the other one's, each apply would take the other away

SILENT: Final = "NodeSilent"
"""The reason where slices were withdrawn because the node's plugin was silent."""

_LOG: Final = logging.getLogger(__name__)
_TYPE: Final = "Published"
_MESSAGE_LENGTH: Final = 2048  # of at most 4096 in the CRD


def published_condition(inventory: JsonObject) -> JsonObject | None:
    """The condition as it stands in a stored NodeInventory; None where it has none."""
    for condition in (inventory.get("status") or {}).get("conditions") or ():
        if condition.get("type") == _TYPE:
            found: JsonObject = condition
            return found
    return None


class PublishedCondition:
    """Writes the condition, and logs it, where it changes. Safe for several threads, as long as each node is one's.

    Args:
        api: Where to write.
        wall: The time, for ``lastTransitionTime``.
    """

    def __init__(self, api: KubernetesApi, *, wall: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._api = api
        self._wall = wall
        # What was written last, by node and inventory: the watch may not show it yet.
        self._written: dict[str, tuple[str, JsonObject]] = {}
        self._lock = threading.Lock()

    def of(self, inventory: JsonObject) -> JsonObject | None:
        """The condition of the inventory, never older than what this process wrote."""
        metadata = inventory["metadata"]
        with self._lock:
            written = self._written.get(metadata["name"])
        if written is not None and written[0] == metadata["uid"]:
            return written[1]
        return published_condition(inventory)

    def put(self, inventory: JsonObject, *, ok: bool, reason: str, message: str) -> bool:
        """Set the condition of this inventory; False where it is so already.

        Raises:
            ApiServerError: It could not be written.
        """
        metadata = inventory["metadata"]
        name = metadata["name"]
        former = self.of(inventory) or {}
        wanted: JsonObject = {
            "type": _TYPE,
            "status": "True" if ok else "False",
            "observedGeneration": metadata.get("generation", 0),
            "reason": reason,
            "message": message if len(message) <= _MESSAGE_LENGTH else f"{message[: _MESSAGE_LENGTH - 1]}…",
        }
        if all(former.get(key) == value for key, value in wanted.items()):
            return False
        same = former.get("status") == wanted["status"] and "lastTransitionTime" in former
        wanted["lastTransitionTime"] = former["lastTransitionTime"] if same else time_text(self._wall())
        # With the uid: an inventory that was deleted meanwhile must not come back as an empty one.
        body: JsonObject = {
            "metadata": {"name": name, "uid": metadata["uid"]},
            "status": {"conditions": [wanted]},
        }
        try:
            self._api.apply(NODE_INVENTORIES, body, field_manager=FIELD_MANAGER, subresource="status")
        except NotFoundError:
            return False
        with self._lock:
            self._written[name] = (metadata["uid"], wanted)
        _LOG.log(
            logging.INFO if ok else logging.ERROR,
            "published" if ok else "not published",
            extra={"node": name, "reason": reason, "detail": wanted["message"]},
        )
        return True

    def doubt(self, inventory: JsonObject) -> bool:
        """Say that it is not known whether the plugin is ready; False where it does not say so itself that it is.

        Raises:
            ApiServerError: It could not be written.
        """
        metadata = inventory["metadata"]
        conditions = (inventory.get("status") or {}).get("conditions") or ()
        ready: JsonObject = next((item for item in conditions if item.get("type") == "Ready"), {})
        if ready.get("status") != "True":
            return False
        unknown: JsonObject = {
            "type": "Ready",
            "status": "Unknown",
            "observedGeneration": metadata.get("generation", 0),
            "reason": "PluginNotHeard",
            "message": "the node's plugin has ended, or does not renew its Lease: look at its pod on the node",
            "lastTransitionTime": time_text(self._wall()),
        }
        body: JsonObject = {
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "status": {"conditions": [unknown]},
        }
        try:
            self._api.apply(NODE_INVENTORIES, body, field_manager=_DOUBT_MANAGER, subresource="status")
        except NotFoundError:
            return False
        _LOG.warning("nothing is heard of the node's plugin", extra={"node": metadata["name"]})
        return True

    def forget(self, node: str | None = None) -> None:
        """Rely on the watch again: for one node, or for all."""
        with self._lock:
            if node is None:
                self._written.clear()
            else:
                self._written.pop(node, None)
