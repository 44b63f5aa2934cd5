"""Decides which Device objects of a node to apply or delete, by the digests of the stored objects.

For what is kept of stored objects see :mod:`controller.cluster.stored_devices`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from controller.cluster.stored_devices import (
    DIGEST_ANNOTATION,
    StoredConditions,
    applied_digest,
    has_status,
    status_digest,
)
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.rootport_v1alpha1 import Device, DeviceStatus
from driver.api.times import time_text

__all__ = ["DeviceChanges", "device_changes", "status_changes", "timed"]

_DIGEST_LENGTH: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChanges:
    """The writes; false if there are none.

    Attributes:
        apply: Objects for server-side apply.
        delete: Name and uid of the objects of vanished devices.
    """

    apply: tuple[JsonObject, ...] = ()
    delete: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apply or self.delete)


def device_changes(desired: Sequence[Device], stored: Sequence[JsonObject], *, node_uid: str) -> DeviceChanges:
    """Return the writes that make the node's Device objects the desired ones, without their status.

    Args:
        desired: Of :func:`driver.objects.device_objects`; their status is ignored.
        stored: The node's stored objects, as :func:`transform_device` keeps them.
        node_uid: The UID of the Node, which owns the objects.
    """
    there = {kept["metadata"]["name"]: kept for kept in stored}
    apply = []
    for device in desired:
        body = _body(device, node_uid)
        found = there.pop(device.metadata.name, None)
        if found is None or applied_digest(found) != body["metadata"]["annotations"][DIGEST_ANNOTATION]:
            apply.append(body)
    return DeviceChanges(
        apply=tuple(apply), delete=tuple((name, kept["metadata"]["uid"]) for name, kept in sorted(there.items()))
    )


def status_changes(statuses: Mapping[str, DeviceStatus], stored: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Return what to apply so that the statuses of a node's Device objects become these.

    Args:
        statuses: The statuses by the objects' names, with their times (:func:`timed`). An object that does not exist
            yet gets its status once it does.
        stored: As for :func:`device_changes`.
    """
    changed = []
    for found in stored:
        metadata = found["metadata"]
        status = statuses.get(metadata["name"])
        wanted = None if status is None else status.to_wire()
        if wanted is not None and not has_status(found, status_digest(wanted)):
            # With the UID: it must not become the status of another object of that name.
            changed.append({"metadata": {"name": metadata["name"], "uid": metadata["uid"]}, "status": wanted})
    return tuple(changed)


def timed(status: DeviceStatus, stored: StoredConditions, now: datetime) -> DeviceStatus:
    """Return a status whose conditions all have times.

    A condition whose status is the stored one keeps the stored time. Another changed when its fault began, or, if that
    is not reported, when the controller saw it: now.
    """
    at = time_text(now)

    def time(type_: str, status: str, since: str) -> str:
        former, former_time = stored.get(type_, ("", ""))
        return former_time if former == status and former_time else since or at

    conditions = tuple(
        item.model_copy(update={"last_transition_time": time(item.type, item.status, item.last_transition_time)})
        for item in status.conditions
    )
    return status.model_copy(update={"conditions": conditions})


def _body(device: Device, node_uid: str) -> JsonObject:
    wire = device.to_wire()
    wire.pop("status", None)
    owner = {"apiVersion": "v1", "kind": "Node", "name": device.spec.node_name, "uid": node_uid, "controller": True}
    metadata = wire["metadata"] | {"ownerReferences": [owner]}
    digest = _digest(wire | {"metadata": metadata})
    return wire | {"metadata": metadata | {"annotations": {DIGEST_ANNOTATION: digest}}}


def _digest(wire: JsonObject) -> str:
    text = json.dumps(wire, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
