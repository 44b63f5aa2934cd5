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
from driver.objects import device_objects, inventory_of, parse_node_inventory

__all__ = ["DevicePass"]

_LOG: Final = logging.getLogger(__name__)


class DevicePass:
    """Does passes. For one thread.

    Args:
        api: Where to write.
        view: What there is.
        stop: Once set, the write under way is the last one.
        pause: Called before each write: waits until it is this pass's turn.
    """

    def __init__(
        self, api: KubernetesApi, *, view: ClusterView, stop: threading.Event, pause: Callable[[], None]
    ) -> None:
        self._api = api
        self._view = view
        self._stop = stop
        self._pause = pause

    def run(self, label: str) -> None:
        """Make the Device objects with this node label what the node's inventory says; without one, delete them.

        Raises:
            ApiServerError: Something could not be written; another pass goes on from there.
        """
        changes = self._changes(label)
        if not changes:
            return
        for body in changes.apply:
            self._pause()
            if self._stop.is_set():
                return
            self._api.apply(DEVICES, body, field_manager=FIELD_MANAGER)
        for name, uid in changes.delete:
            self._pause()
            if self._stop.is_set():
                return
            try:
                self._api.delete(DEVICES, name, uid=uid)
            except NotFoundError:
                _LOG.debug("device object was gone already", extra={"device": name})
        _LOG.info(
            "devices written",
            extra={"label": label, "applied": len(changes.apply), "deleted": len(changes.delete)},
        )

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
            desired = device_objects(inventory_of(parse_node_inventory(wire)))
        except InputError:
            return DeviceChanges()  # the node's condition says so
        return device_changes(desired, stored, node_uid=uid)
