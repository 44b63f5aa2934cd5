"""What the informer keeps of stored Device objects: enough to decide what to write, in little memory.

Specs and statuses are kept as digests: thousands of nodes with sixteen devices each would otherwise fill the memory.
The digest of the applied spec is an annotation of the object. A status cannot have one, because annotations cannot be
written together with it; so its digest is made of the stored status when it is read.

Times are in no digest: a condition keeps its time as long as its status is the same.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from driver.adapters.kubernetes.resources import JsonObject
from driver.objects.device_conditions import DEGRADED, HAS_RIVAL, HEALTHY
from driver.objects.names import NODE_LABEL

__all__ = [
    "DIGEST_ANNOTATION",
    "ContainersByPod",
    "StoredConditions",
    "applied_digest",
    "containers_of",
    "has_status",
    "is_same_but_status",
    "is_same_status",
    "status_digest",
    "stored_conditions",
    "transform_device",
]

DIGEST_ANNOTATION: Final = "rootport.dev/applied-digest"
"""The annotation of a Device with a digest of what the controller applied."""

StoredConditions: TypeAlias = Mapping[str, tuple[str, str]]
"""The status and the ``lastTransitionTime`` of each condition of a stored Device, by type."""

ContainersByPod: TypeAlias = dict[tuple[str, str, str], tuple[str, ...]]
"""The containers that use a claim's devices, by the pod's UID, the claim's UID and the request."""

_STATUS_DIGEST_BYTES: Final = 8
_SPEC_DIGEST: Final = "specDigest"
_STATUS_DIGEST: Final = "statusDigest"
_CONDITIONS: Final = "conditions"
_CONTAINERS: Final = "containers"
_TIME: Final = "lastTransitionTime"
_LABELS_KEPT: Final = 8192
# The fields that the controller writes.
_STATUS_FIELDS: Final[tuple[str, ...]] = (
    "state", "capacity", "allocatable", "mode", "allocated", "largestFree",
)  # fmt: skip
_CONDITION_TYPES: Final = (HEALTHY, DEGRADED, HAS_RIVAL)  # the controller writes no others
_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "partitions": ("device",),
    "allocations": ("uid", "request", "device", "shareID"),
}
_UNWRITTEN: Final[JsonObject] = {"state": "Unknown"}  # the CRD's default


def transform_device(wire: JsonObject) -> JsonObject:
    """Keep of a stored Device what decides about writes, and nothing that can be computed anew."""
    metadata, status = wire["metadata"], wire.get("status") or _UNWRITTEN
    kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata}
    kept["labels"] = _node_label((metadata.get("labels") or {}).get(NODE_LABEL, ""))
    found: JsonObject = {
        "metadata": kept,
        _SPEC_DIGEST: (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION, ""),
        _STATUS_DIGEST: status_digest(status),
    }
    if conditions := _own_conditions(status):
        # Most devices share a few values: all that became healthy within the same second.
        found[_CONDITIONS] = _shared(tuple((item["type"], item["status"], item.get(_TIME, "")) for item in conditions))
    if containers := tuple(_containers(status)):
        found[_CONTAINERS] = containers
    return found


def stored_conditions(kept: JsonObject) -> StoredConditions:
    """Return the controller's own conditions of what :func:`transform_device` kept."""
    return {type_: (status, time) for type_, status, time in kept.get(_CONDITIONS, ())}


def containers_of(stored: Sequence[JsonObject]) -> ContainersByPod:
    """Return the containers that stored objects name, so that a new leader need not read every pod."""
    return {key: names for kept in stored for key, names in kept.get(_CONTAINERS, ())}


def applied_digest(kept: JsonObject) -> str:
    """Return the digest of the applied spec, of what :func:`transform_device` kept."""
    return str(kept[_SPEC_DIGEST])


def status_digest(status: JsonObject) -> bytes:
    """Return a digest of the fields that the controller writes in a Device's status, without times."""
    own: JsonObject = {key: status[key] for key in _STATUS_FIELDS if key in status}
    conditions = [{key: item[key] for key in item if key != _TIME} for item in _own_conditions(status)]
    if conditions:
        own["conditions"] = conditions
    for field, keys in _LISTS.items():
        # The API server may order a list map in any way.
        if items := status.get(field):
            own[field] = sorted(map(_in_order, items), key=lambda item: [item.get(key) for key in keys])
    text = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_STATUS_DIGEST_BYTES).digest()


def has_status(kept: JsonObject, digest: bytes | None) -> bool:
    """Return whether what :func:`transform_device` kept has the status of that digest."""
    return bool(kept[_STATUS_DIGEST] == digest)


def is_same_status(one: JsonObject, other: JsonObject) -> bool:
    """Return whether two of what :func:`transform_device` keeps have the same status, times apart."""
    return bool(one[_STATUS_DIGEST] == other[_STATUS_DIGEST])


def is_same_but_status(one: JsonObject | None, other: JsonObject | None) -> bool:
    """Return whether two of what :func:`transform_device` keeps differ only in the status."""
    return one is not None and other is not None and _without_status(one) == _without_status(other)


def _without_status(kept: JsonObject) -> tuple[object, ...]:
    metadata = kept["metadata"]
    return metadata["name"], metadata.get("uid"), metadata["labels"], kept[_SPEC_DIGEST]


@lru_cache(maxsize=_LABELS_KEPT)
def _node_label(node: str) -> dict[str, str]:
    """Return the same object for all devices of a node, which is safe because kept objects are never changed."""
    return {NODE_LABEL: node}


@lru_cache(maxsize=_LABELS_KEPT)
def _shared(conditions: tuple[tuple[str, str, str], ...]) -> tuple[tuple[str, str, str], ...]:
    return conditions


def _own_conditions(status: JsonObject) -> list[JsonObject]:
    by_type = {item.get("type"): item for item in status.get("conditions") or ()}
    return [by_type[type_] for type_ in _CONDITION_TYPES if type_ in by_type]


def _containers(status: JsonObject) -> list[tuple[tuple[str, str, str], tuple[str, ...]]]:
    return [
        (
            (sys.intern(pod["uid"]), sys.intern(item["uid"]), sys.intern(item["request"])),
            tuple(sys.intern(name) for name in pod["containers"]),
        )
        for item in status.get("allocations") or ()
        for pod in item.get("pods") or ()
        if pod.get("containers")
    ]


def _in_order(item: JsonObject) -> JsonObject:
    if pods := item.get("pods"):
        item = item | {"pods": sorted(pods, key=lambda pod: str(pod.get("uid")))}
    if groups := item.get("podGroups"):
        item = item | {"podGroups": sorted(groups)}
    return item
