"""Writes the controller's conditions of a NodeInventory.

``Published`` is whether the node's slices are published, and if not, why. ``AllModesPublished`` is whether each mode of
its GPUs is published all the time, and why. ``Ready`` is the plugin's own, but once the plugin's heartbeats stop the
controller sets it to Unknown, as Kubernetes' node lifecycle controller does for Nodes. A plugin that is back overwrites
that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from controller.cluster.inventories import StoredInventory
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, JsonObject
from driver.api.times import time_text
from driver.modes.rule import Choice, Layout

__all__ = ["ALL_MODES_PUBLISHED", "FIELD_MANAGER", "PUBLISHED", "SILENT", "PublishedCondition"]

FIELD_MANAGER: Final = "rootport-controller"
"""The field manager of what this process writes by server-side apply."""

# Of its own: an apply by the other manager, which does not have Ready, would remove it.
_LIVENESS_MANAGER: Final = f"{FIELD_MANAGER}-liveness"

PUBLISHED: Final = "Published"
"""The type of the condition."""

ALL_MODES_PUBLISHED: Final = "AllModesPublished"
"""The type of the condition about the layout of GPUs (:class:`driver.modes.rule.Layout`)."""

SILENT: Final = "NodeSilent"
"""The reason of slices that were withdrawn because the node's plugin is silent."""

_TYPES: Final = (PUBLISHED, ALL_MODES_PUBLISHED)
_LOG: Final = logging.getLogger(__name__)
_MESSAGE_LENGTH: Final = 2048  # of at most 4096 in the CRD


class PublishedCondition:
    """Writes the conditions if they change. Safe for several threads, if each node is handled by one at a time.

    Args:
        api: The API server.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        # What was written last, by node and the inventory's UID, by type: the watch may not show it yet.
        self._written: dict[str, tuple[str, Mapping[str, JsonObject]]] = {}
        self._lock = threading.Lock()

    def of(self, inventory: StoredInventory, type_: str = PUBLISHED) -> Mapping[str, Any] | None:
        """Return a condition of the inventory, never older than what this process wrote; None if it has none.

        Args:
            inventory: The inventory.
            type_: One of the two types that :meth:`put` writes.
        """
        with self._lock:
            written = self._written.get(inventory.name)
        if written is not None and written[0] == inventory.uid:
            return written[1].get(type_)
        return inventory.condition(type_)

    def put(
        self, inventory: StoredInventory, *, ok: bool, reason: str, message: str, choice: Choice | None = None
    ) -> bool:
        """Set the condition Published of this inventory, and log it.

        Args:
            inventory: The inventory.
            ok: Whether its slices are published.
            reason: Why not, in one CamelCase word.
            message: What is published, or why nothing is, for a person.
            choice: The layout of the node's GPUs; None where it has none. While nothing is published it stays.

        Returns:
            False if it is so already, or the inventory is gone.

        Raises:
            ApiServerError: It could not be written.
        """
        wanted = [self._as_wanted(inventory, PUBLISHED, ok=ok, reason=reason, message=message)]
        if choice is not None:
            is_full = choice.layout is Layout.FULL
            text = f"layout {choice.layout}: {choice.message}"
            wanted.append(
                self._as_wanted(inventory, ALL_MODES_PUBLISHED, ok=is_full, reason=choice.reason, message=text)
            )
        elif not ok and (former := self.of(inventory, ALL_MODES_PUBLISHED)) is not None:
            wanted.append(dict(former))
        by_type = {item["type"]: item for item in wanted}
        if by_type == {type_: known for type_ in _TYPES if (known := self.of(inventory, type_)) is not None}:
            return False
        # Both at once: an apply removes what this manager has applied before.
        if not self._apply(inventory, wanted, FIELD_MANAGER):
            return False
        with self._lock:
            self._written[inventory.name] = (inventory.uid, by_type)
        _LOG.log(
            logging.INFO if ok else logging.ERROR,
            "published" if ok else "not published",
            extra={"node": inventory.name, "reason": reason, "detail": wanted[0]["message"]},
        )
        return True

    def _as_wanted(self, inventory: StoredInventory, type_: str, *, ok: bool, reason: str, message: str) -> JsonObject:
        """Return a condition, with the time of the former one if its status is the same."""
        former = self.of(inventory, type_) or {}
        wanted: JsonObject = {
            "type": type_,
            "status": "True" if ok else "False",
            "observedGeneration": inventory.generation,
            "reason": reason,
            "message": message if len(message) <= _MESSAGE_LENGTH else f"{message[: _MESSAGE_LENGTH - 1]}…",
        }
        same = former.get("status") == wanted["status"] and "lastTransitionTime" in former
        return wanted | {"lastTransitionTime": former["lastTransitionTime"] if same else time_text(datetime.now(UTC))}

    def set_ready_unknown(self, inventory: StoredInventory) -> bool:
        """Set the plugin's condition Ready to Unknown.

        Returns:
            False if it is not True now, or the inventory is gone.

        Raises:
            ApiServerError: It could not be written.
        """
        if (inventory.condition("Ready") or {}).get("status") != "True":
            return False
        unknown: JsonObject = {
            "type": "Ready",
            "status": "Unknown",
            "observedGeneration": inventory.generation,
            "reason": "PluginNotHeard",
            "message": "the node's plugin has ended, or does not renew its Lease: look at its pod on the node",
            "lastTransitionTime": time_text(datetime.now(UTC)),
        }
        if not self._apply(inventory, [unknown], _LIVENESS_MANAGER):
            return False
        _LOG.warning("nothing is heard of the node's plugin", extra={"node": inventory.name})
        return True

    def forget(self, node: str | None = None) -> None:
        """Forget what was written, and rely on the watch again: for one node, or for all."""
        with self._lock:
            if node is None:
                self._written.clear()
            else:
                self._written.pop(node, None)

    def _apply(self, inventory: StoredInventory, conditions: list[JsonObject], field_manager: str) -> bool:
        # With the UID: an inventory that was deleted meanwhile must not come back as an empty one.
        body: JsonObject = {
            "metadata": {"name": inventory.name, "uid": inventory.uid},
            "status": {"conditions": conditions},
        }
        try:
            self._api.apply(NODE_INVENTORIES, body, field_manager=field_manager, subresource="status")
        except NotFoundError:
            return False
        return True
