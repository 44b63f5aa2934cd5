"""Which Device objects of a node have to be applied or deleted.

What is stored is known by its metadata alone: sixteen devices a node would otherwise fill the memory. Each object
carries a digest of what was applied, and what has the wanted digest is left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from driver.adapters.kubernetes.resources import JsonObject
from driver.api.rootport_v1alpha1 import Device

__all__ = ["DIGEST_ANNOTATION", "DeviceChanges", "device_changes"]

DIGEST_ANNOTATION: Final = "rootport.dev/applied-digest"
"""Annotation of a Device: a digest of what the controller applied."""

_DIGEST_LENGTH: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChanges:
    """The writes; false where there are none.

    Attributes:
        apply: Objects for server-side apply.
        delete: Name and uid of the objects of vanished devices.
    """

    apply: tuple[JsonObject, ...] = ()
    delete: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apply or self.delete)


def device_changes(desired: Sequence[Device], stored: Sequence[JsonObject], *, node_uid: str) -> DeviceChanges:
    """What to write so that the node's Device objects become the desired ones.

    Args:
        desired: Of :func:`driver.objects.device_objects`; their status is not applied, health has it.
        stored: The node's stored objects, of which metadata is read alone.
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


def _body(device: Device, node_uid: str) -> JsonObject:
    wire = device.to_wire()
    wire.pop("status", None)
    owner = {"apiVersion": "v1", "kind": "Node", "name": device.spec.node_name, "uid": node_uid, "controller": True}
    metadata = wire["metadata"] | {"ownerReferences": [owner]}
    text = json.dumps(wire | {"metadata": metadata}, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
    return wire | {"metadata": metadata | {"annotations": {DIGEST_ANNOTATION: digest}}}
