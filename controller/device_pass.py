"""One pass over a node's Device objects: what ``kubectl get devices`` shows. Nothing is scheduled by them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from controller.cluster_view import ClusterView
from controller.device_changes import DeviceChanges, device_changes
from controller.published_condition import FIELD_MANAGER
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import DEVICES
from driver.errors import InputError
from driver.layout import left_out
from driver.objects import device_objects, inventory_of, parse_node_inventory

__all__ = ["DevicePass"]

_LOG: Final = logging.getLogger(__name__)
_MOST_WRITES: Final = 500
_GO_ON_S: Final = 1.0  # by then the watch shows what was written


class DevicePass:
    """Does passes. For one thread.

    Args:
        api: Where to write.
        view: What there is.
        stop: Once set, the write under way is the last one.
        pause: Called before each write: waits until it is this pass's turn.
        most_writes: How many writes a pass makes at most. A NodeInventory may hold thousands of devices, and the
            objects of other nodes must not wait for all of them.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        view: ClusterView,
        stop: threading.Event,
        pause: Callable[[], None],
        most_writes: int = _MOST_WRITES,
    ) -> None:
        self._api = api
        self._view = view
        self._stop = stop
        self._pause = pause
        self._most_writes = most_writes

    def run(self, label: str) -> float | None:
        """Make the Device objects with this node label what the node's inventory says; without one, delete them.

        After how many seconds to go on where this pass did not do everything, or None.

        Raises:
            ApiServerError: Something could not be written; another pass goes on from there.
        """
        changes = self._changes(label)
        if not changes:
            return None
        apply = changes.apply[: self._most_writes]
        delete = changes.delete[: self._most_writes - len(apply)]
        for body in apply:
            self._pause()
            if self._stop.is_set():
                return None
            self._api.apply(DEVICES, body, field_manager=FIELD_MANAGER)
        for name, uid in delete:
            self._pause()
            if self._stop.is_set():
                return None
            try:
                self._api.delete(DEVICES, name, uid=uid)
            except NotFoundError:
                _LOG.debug("device object was gone already", extra={"device": name})
        _LOG.info(
            "devices written",
            extra={"label": label, "applied": len(apply), "deleted": len(delete)},
        )
        is_done = len(apply) + len(delete) == len(changes.apply) + len(changes.delete)
        return None if is_done else _GO_ON_S

    def _changes(self, label: str) -> DeviceChanges:
        stored = self._view.devices(label)
        node = self._view.node_of_label(label)
        wire = None if node is None else self._view.inventory(node)
        if node is None or wire is None:
            return device_changes((), stored, node_uid="")
        uid = self._view.node_uid(node)
        if uid is None:
            return DeviceChanges()  # its inventory goes soon, and then these
        try:
            inventory = inventory_of(parse_node_inventory(wire))
            desired = device_objects(inventory, left_out=left_out(inventory))
        except InputError:
            return DeviceChanges()  # the node's condition says so
        return device_changes(desired, stored, node_uid=uid)
