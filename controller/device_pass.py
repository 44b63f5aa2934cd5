"""One pass over a node's Device objects: what ``kubectl get devices`` shows. Nothing is scheduled by them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from controller.cluster_view import ClusterView
from controller.device_changes import DeviceChanges, device_changes, status_changes
from controller.published_condition import FIELD_MANAGER
from controller.slice_features import SliceFeatures
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import DEVICES
from driver.api.gpu_policies import GpuPolicies
from driver.errors import InputError
from driver.layout import left_out
from driver.objects import (
    device_object_name,
    device_objects,
    device_statuses,
    inventory_of,
    parse_node_inventory,
)

__all__ = ["DevicePass"]

_LOG: Final = logging.getLogger(__name__)
_MOST_WRITES: Final = 500
_GO_ON_S: Final = 1.0  # by then the watch shows what was written


class DevicePass:
    """Does passes. For one thread.

    Args:
        api: Where to write.
        view: What there is.
        policies: What of GPUs is on offer, at this moment.
        features: What of slices the API server keeps.
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
        policies: Callable[[], GpuPolicies],
        features: SliceFeatures,
        stop: threading.Event,
        pause: Callable[[], None],
        most_writes: int = _MOST_WRITES,
    ) -> None:
        self._api = api
        self._view = view
        self._policies = policies
        self._features = features
        self._stop = stop
        self._pause = pause
        self._most_writes = most_writes

    def run(self, label: str) -> float | None:
        """Make the Device objects with this node label what the node's inventory and the claims say.

        Without an inventory, delete them.

        After how many seconds to go on where this pass did not do everything, or None.

        Raises:
            ApiServerError: Something could not be written; another pass goes on from there.
        """
        with_specs = self._view.take_specs_due(label)
        try:
            is_done = self._write(label, self._changes(label, with_specs=with_specs))
        except BaseException:
            if with_specs:
                self._view.specs_are_due(label)
            raise
        if is_done:
            return None
        if with_specs:
            self._view.specs_are_due(label)
        return _GO_ON_S

    def _write(self, label: str, changes: DeviceChanges) -> bool:
        """Whether all is written, or nothing more is to be written for now."""
        if not changes:
            return True
        written = Counter[str]()
        for what, write in islice(self._writes(changes), self._most_writes):
            self._pause()
            if self._stop.is_set():
                return True
            try:
                write()
            except NotFoundError:
                # Nothing creates an object on the way: it was deleted since the watch showed it.
                _LOG.debug("device object is gone already", extra={"label": label})
            written[what] += 1
        _LOG.info("devices written", extra={"label": label, **written})
        return written.total() == len(changes.apply) + len(changes.status) + len(changes.delete)

    def _writes(self, changes: DeviceChanges) -> Iterator[tuple[str, Callable[[], object]]]:
        apply = partial(self._api.apply, DEVICES, field_manager=FIELD_MANAGER)
        yield from (("applied", partial(apply, body)) for body in changes.apply)
        yield from (("statuses", partial(apply, body, subresource="status")) for body in changes.status)
        yield from (("deleted", partial(self._api.delete, DEVICES, name, uid=uid)) for name, uid in changes.delete)

    def _changes(self, label: str, *, with_specs: bool) -> DeviceChanges:
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
            desired = None
            if with_specs:
                reasons = left_out(inventory, policies=self._policies(), has_counters=self._features.has_counters)
                desired = device_objects(inventory, left_out=reasons)
        except InputError:
            return DeviceChanges()  # the node's condition says so
        changes = DeviceChanges() if desired is None else device_changes(desired, stored, node_uid=uid)
        statuses = device_statuses(inventory, self._view.allocations(node))
        by_object = {device_object_name(node, device): status for device, status in statuses.items()}
        gone = {name for name, _ in changes.delete}
        kept = [item for item in stored if item["metadata"]["name"] not in gone]
        return replace(changes, status=status_changes(by_object, kept))
