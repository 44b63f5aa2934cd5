"""Writes the changes of one node's slices, one after the other, and remembers what the API server stored.

ResourceSlices are not namespaced, and Rootport's names can be foreseen. If a foreign object has one of them it is left
alone, and the slice gets a name that only this process can foresee. It is the same one at each attempt, so that a
lagging cache does not make this process create a slice twice.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections.abc import Sequence
from typing import Final

from controller.cluster.slice_cache import SliceCache
from controller.slices.changes import (
    AcceptedLoss,
    SliceChanges,
    SliceWrite,
    loss,
    slice_changes,
    withdrawal,
)
from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, ApiServerError, NotFoundError
from driver.adapters.kubernetes.resources import RESOURCE_SLICES, JsonObject
from driver.api.resource_v1 import ResourceSlice
from driver.layout.names import slice_name

__all__ = ["CountersLostError", "NameTakenError", "SliceWriter"]

_LOG: Final = logging.getLogger(__name__)
_MOST_TAKEN: Final = 4096
_END_BYTES: Final = 5


class CountersLostError(ApiServerError):
    """The API server dropped counters that keep devices of one GPU apart: this must not stay as it is."""

    retry_helps = True


class NameTakenError(ApiServerError):
    """A foreign object has a slice's name, and another one has the next name as well."""

    retry_helps = True


class SliceWriter:
    """Makes the stored slices of a pool the desired ones. Thread-safe, if no two threads have the same pool.

    Args:
        api: The API server.
        cache: The stored slices.
        stop: Once set, the write under way is the last one; the next leader goes on from there.
    """

    def __init__(self, api: KubernetesApi, cache: SliceCache, stop: threading.Event) -> None:
        self._api = api
        self._cache = cache
        self._stop = stop
        self._losses: dict[str, AcceptedLoss] = {}
        self._secret = secrets.token_bytes(16)
        # By first name, how many of a slice's names were found taken, and the one to try next.
        self._taken: dict[str, tuple[int, str]] = {}

    def publish(self, desired: Sequence[ResourceSlice], stored: Sequence[JsonObject], *, node_uid: str) -> SliceChanges:
        """Write what differs, and return the changes that were made.

        Args:
            desired: All slices of the node's pool in their order.
            stored: The pool's slices in the cache when these were made.
            node_uid: The Node's UID.

        Raises:
            CountersLostError: A write lost its counters; those after it are not done.
            NameTakenError: A foreign object has a name; the next attempt uses another name.
            ApiServerError: A write was refused or could not be done; those before it are done.
        """
        pool = desired[0].spec.pool.name
        others = {first: name for first, (_, name) in list(self._taken.items())}
        changes = slice_changes(desired, stored, node_uid=node_uid, accepted=self._losses, other_names=others)
        if changes:
            self._write(pool, changes, node_uid)
        return changes

    def withdraw(self, pool: str) -> SliceChanges:
        """Delete all slices of the pool, and return the changes that were made.

        Raises:
            ApiServerError: As for :meth:`publish`.
        """
        changes = withdrawal(self._cache.pool(pool))
        if changes:
            self._write(pool, changes, "")
        return changes

    def _write(self, pool: str, changes: SliceChanges, node_uid: str) -> None:
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
            with self._cache.writing(write.name):
                self._stored(write, self._api.replace(RESOURCE_SLICES, write.body))
        for write in changes.create:
            if self._stop.is_set():
                return
            self._create(write, node_uid)
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

    def _create(self, write: SliceWrite, node_uid: str) -> None:
        try:
            with self._cache.writing(write.name):
                self._stored(write, self._api.create(RESOURCE_SLICES, write.body))
        except AlreadyExistsError:
            if self._foreign_object(write) is None:
                raise  # its own, which the cache does not show yet
            again = write.renamed(self._next_name(write, node_uid))
            try:
                with self._cache.writing(again.name):
                    self._stored(again, self._api.create(RESOURCE_SLICES, again.body))
            except AlreadyExistsError:
                foreign = self._foreign_object(again)
                if foreign is None:
                    raise
                self._next_name(write, node_uid)
                raise NameTakenError(
                    f"the name of ResourceSlice {again.name} is taken by {foreign}",
                    hint="delete that object, and let the policy rootport-resource-slices keep such names to Rootport; "
                    "another name will be tried",
                ) from None

    def _foreign_object(self, write: SliceWrite) -> str | None:
        """Describe the foreign object that has the name of a slice; None if it is this slice, or gone."""
        try:
            spec = self._api.get(RESOURCE_SLICES, write.name)["spec"]
        except NotFoundError:
            return None
        node, driver, pool = write.spec.pool.name, spec.get("driver"), (spec.get("pool") or {}).get("name")
        if (driver, pool, spec.get("nodeName")) == (DRIVER_NAME, node, node):
            return None
        foreign = f"a ResourceSlice of driver {driver}, pool {pool}, node {spec.get('nodeName')}"
        _LOG.warning("the name of a slice is taken", extra={"node": node, "slice": write.name, "by": foreign})
        return foreign

    def _next_name(self, write: SliceWrite, node_uid: str) -> str:
        if len(self._taken) >= _MOST_TAKEN:
            self._taken.clear()  # they are found taken again
        number, _ = self._taken.get(write.first_name, (0, ""))
        what = f"{write.first_name}/{number}".encode()
        end = hashlib.blake2b(what, key=self._secret, digest_size=_END_BYTES).hexdigest()
        name = slice_name(write.spec.pool.name, node_uid, write.index, other=end)
        self._taken[write.first_name] = number + 1, name
        return name

    def _stored(self, write: SliceWrite, answer: JsonObject) -> None:
        self._cache.written(answer)
        lost = loss(write, answer)
        if lost is None:
            self._losses.pop(write.name, None)
            return
        if lost.has_counters:
            self._losses.pop(write.name, None)
            raise CountersLostError(
                f"the API server dropped the counters of ResourceSlice {write.name}",
                hint="turn on its feature gate DRAPartitionableDevices, in all its replicas; until then each GPU is "
                "published in one mode",
            )
        self._losses[write.name] = lost
        _LOG.warning(
            "the API server dropped fields of a slice: a feature gate that Rootport uses is off there",
            extra={"node": write.spec.pool.name, "slice": write.name},
        )
