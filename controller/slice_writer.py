"""Writes the changes of one node's slices, one after the other, and keeps account of what came back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from controller.slice_cache import SliceCache
from controller.slice_changes import AcceptedLoss, SliceChanges, SliceWrite, loss, slice_changes, withdrawal
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import RESOURCE_SLICES, JsonObject
from driver.api.resource_v1 import ResourceSlice

__all__ = ["SliceWriter"]

_LOG: Final = logging.getLogger(__name__)


class SliceWriter:
    """Makes the stored slices of a pool the desired ones. For one thread.

    Args:
        api: Where to write.
        cache: What is stored.
        stop: Once set, the write under way is the last one; the next pass of whoever leads goes on from there.
    """

    def __init__(self, api: KubernetesApi, cache: SliceCache, stop: threading.Event) -> None:
        self._api = api
        self._cache = cache
        self._stop = stop
        self._losses: dict[str, AcceptedLoss] = {}

    def publish(self, desired: Sequence[ResourceSlice], stored: Sequence[JsonObject], *, node_uid: str) -> SliceChanges:
        """Write what differs; the changes that were made.

        Args:
            desired: All slices of the node's pool in their order.
            stored: What the cache had of the pool when these were made.
            node_uid: The Node's uid.

        Raises:
            ApiServerError: A write was refused or could not be done; those before it are done.
        """
        pool = desired[0].spec.pool.name
        changes = slice_changes(desired, stored, node_uid=node_uid, accepted=self._losses)
        if changes:
            self._write(pool, changes)
        return changes

    def withdraw(self, pool: str) -> SliceChanges:
        """Delete all slices of the pool; the changes that were made.

        Raises:
            ApiServerError: As for :meth:`publish`.
        """
        changes = withdrawal(self._cache.pool(pool))
        if changes:
            self._write(pool, changes)
        return changes

    def _write(self, pool: str, changes: SliceChanges) -> None:
        for deletion in changes.delete:
            if self._stop.is_set():
                return
            try:
                self._api.delete(
                    RESOURCE_SLICES, deletion.name, uid=deletion.uid, resource_version=deletion.resource_version
                )
            except NotFoundError:
                _LOG.debug("slice was gone already", extra={"node": pool, "slice": deletion.name})
            self._cache.deleted(deletion.name, deletion.uid)
            self._losses.pop(deletion.name, None)
        for write in changes.replace:
            if self._stop.is_set():
                return
            self._stored(write, self._api.replace(RESOURCE_SLICES, write.body))
        for write in changes.create:
            if self._stop.is_set():
                return
            self._stored(write, self._api.create(RESOURCE_SLICES, write.body))
        _LOG.info(
            "slices written",
            extra={
                "node": pool,
                "generation": changes.generation,
                "slices_deleted": len(changes.delete),
                "slices_replaced": len(changes.replace),
                "slices_created": len(changes.create),
            },
        )

    def _stored(self, write: SliceWrite, answer: JsonObject) -> None:
        self._cache.written(answer)
        lost = loss(write, answer)
        if lost is None:
            self._losses.pop(write.name, None)
            return
        self._losses[write.name] = lost
        _LOG.warning(
            "the API server dropped fields of a slice: a feature gate that Rootport uses is off there",
            extra={"node": write.spec.pool.name, "slice": write.name},
        )
