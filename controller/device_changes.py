"""Which Device objects of a node have to be applied or deleted.

What is stored is known by digests alone: sixteen devices a node would otherwise fill the memory. Of the spec, each
object carries a digest of what was applied in an annotation. A status cannot: who writes it cannot write annotations at
the same time. So its digest is made of what is stored, when it is read. What has the wanted digests is left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.adapters.kubernetes.resources import JsonObject
from driver.api.rootport_v1alpha1 import Device, DeviceStatus
from driver.objects import NODE_LABEL

__all__ = [
    "DIGEST_ANNOTATION",
    "DeviceChanges",
    "device_changes",
    "essence_of_device",
    "is_same_but_status",
    "status_changes",
]

DIGEST_ANNOTATION: Final = "rootport.dev/applied-digest"
"""Annotation of a Device: a digest of what the controller applied."""

_DIGEST_LENGTH: Final = 16
_STATUS_DIGEST: Final = "statusDigest"
# What the controller says; conditions are not its affair.
_STATUS_FIELDS: Final[tuple[str, ...]] = ("state", "mode", "allocated", "allocations")
_ALLOCATION_KEYS: Final = ("uid", "request", "device", "shareID")
_FREE: Final[JsonObject] = {"state": "Unknown"}
_FREE_DIGEST: Final = ""  # of most devices in most clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChanges:
    """The writes; false where there are none.

    Attributes:
        apply: Objects for server-side apply.
        status: Objects for server-side apply to their status.
        delete: Name and uid of the objects of vanished devices.
    """

    apply: tuple[JsonObject, ...] = ()
    status: tuple[JsonObject, ...] = ()
    delete: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apply or self.status or self.delete)


def device_changes(desired: Sequence[Device], stored: Sequence[JsonObject], *, node_uid: str) -> DeviceChanges:
    """What to write so that the node's Device objects become the desired ones; see :func:`status_changes` as well.

    Args:
        desired: Of :func:`driver.objects.device_objects`; their status is not looked at.
        stored: The node's stored objects, of each what :func:`essence_of_device` keeps.
        node_uid: The Node's uid: it owns the objects.
    """
    there = {wire["metadata"]["name"]: wire["metadata"] for wire in stored}
    apply = []
    for device in desired:
        body = _body(device, node_uid)
        metadata = there.pop(device.metadata.name, {})
        digest = body["metadata"]["annotations"][DIGEST_ANNOTATION]
        if (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION) != digest:
            apply.append(body)
    return DeviceChanges(
        apply=tuple(apply), delete=tuple((name, metadata["uid"]) for name, metadata in sorted(there.items()))
    )


def status_changes(statuses: Mapping[str, DeviceStatus], stored: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """What to apply so that the statuses of a node's Device objects become these.

    Args:
        statuses: By the objects' names. An object that is not there yet gets its status once it is.
        stored: As for :func:`device_changes`.
    """
    changed = []
    for found in stored:
        metadata = found["metadata"]
        status = statuses.get(metadata["name"])
        wanted = None if status is None else status.to_wire()
        if wanted is not None and found.get(_STATUS_DIGEST, _FREE_DIGEST) != _status_digest(wanted):
            # With the uid: of another object of that name nothing is known yet.
            changed.append({"metadata": {"name": metadata["name"], "uid": metadata["uid"]}, "status": wanted})
    return tuple(changed)


def essence_of_device(wire: JsonObject) -> JsonObject:
    """What is kept of a stored Device: enough to know what :func:`device_changes` has to write."""
    metadata = wire["metadata"]
    kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata}
    kept["labels"] = {NODE_LABEL: (metadata.get("labels") or {}).get(NODE_LABEL, "")}
    kept["annotations"] = {DIGEST_ANNOTATION: (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION, "")}
    return {"metadata": kept, _STATUS_DIGEST: _status_digest(wire.get("status") or _FREE)}


def is_same_but_status(one: JsonObject | None, other: JsonObject | None) -> bool:
    """Whether two of what :func:`essence_of_device` keeps differ in nothing but the status."""
    return one is not None and other is not None and _without_status(one) == _without_status(other)


def _without_status(kept: JsonObject) -> JsonObject:
    return {key: value for key, value in kept["metadata"].items() if key != "resourceVersion"}


def _status_digest(status: JsonObject) -> str:
    said = {key: status[key] for key in _STATUS_FIELDS if key in status}
    if said == _FREE:
        return _FREE_DIGEST
    if "allocations" in said:
        # The order in a list map is the API server's affair.
        said["allocations"] = sorted(said["allocations"], key=lambda item: [item.get(key) for key in _ALLOCATION_KEYS])
    return _digest(said)


def _body(device: Device, node_uid: str) -> JsonObject:
    wire = device.to_wire()
    wire.pop("status", None)
    owner = {"apiVersion": "v1", "kind": "Node", "name": device.spec.node_name, "uid": node_uid, "controller": True}
    metadata = wire["metadata"] | {"ownerReferences": [owner]}
    digest = _digest(wire | {"metadata": metadata})
    return wire | {"metadata": metadata | {"annotations": {DIGEST_ANNOTATION: digest}}}


def _digest(said: JsonObject) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
