"""What is kept of Nodes, inventories and claims, and what a listener gets of them: only what decides."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from controller.cluster.packed import packed
from controller.cluster.pending_annotations import own_annotations
from driver.adapters.kubernetes.resources import JsonObject
from driver.objects import claim_allocations, pod_consumers
from driver.objects.extended_resources import extended_amounts
from driver.objects.health import PREPARE_CONDITIONS

__all__ = [
    "HEALTH",
    "SAID",
    "allocations_of_claim",
    "identity_of_node",
    "inventory_with_health",
    "news_of_claim",
    "news_of_inventory",
    "news_of_node",
    "said_of_claim",
]

HEALTH: Final = "health"
"""Where a kept inventory has a digest of what its status says of the devices' health."""

SAID: Final = "said"
"""Where a kept claim has its metadata with Rootport's own annotations."""

_CLAIM: Final = ("name", "namespace", "uid", "deletionTimestamp", "ownerReferences")
_READY_TYPES: Final = ("Ready", *PREPARE_CONDITIONS)
_CONDITION: Final = ("type", "status", "reason", "message")


def identity_of_node(wire: JsonObject) -> JsonObject:
    """Its name and UID."""
    return {"metadata": _chosen(wire["metadata"], ("name", "uid", "resourceVersion"))}


def inventory_with_health(wire: JsonObject) -> JsonObject:
    """The whole of it, packed, and a digest by which a change of the devices' health is told from one of conditions.

    A status has no generation. Sets and maps of the API have no order, so theirs makes no difference. Of the conditions
    some count as well: whether the node's plugin is ready is shown beside its devices' health, and one that can prepare
    nothing has its devices tainted.
    """
    status = wire.get("status") or {}
    watched, faults = status.get("watched") or (), status.get("faults") or ()
    ready = [
        _chosen(item, ("type", "status", "reason")) for item in _conditions(wire) if item.get("type") in _READY_TYPES
    ]
    told = json.dumps([sorted(watched), sorted(json.dumps(item, sort_keys=True) for item in faults), ready])
    return packed(wire) | {HEALTH: hashlib.blake2b(told.encode(), digest_size=8).digest()}


def allocations_of_claim(wire: JsonObject) -> JsonObject:
    """What a claim was given of this driver's devices, and the pods that have them."""
    allocations = claim_allocations(wire)
    kept: JsonObject = {"metadata": _chosen(wire["metadata"], ("name", "namespace", "resourceVersion"))}
    return kept | {"allocations": allocations, "pods": pod_consumers(wire) if allocations else ()}


def said_of_claim(wire: JsonObject) -> JsonObject:
    """The same, and what its annotations say until somebody has taken note of it."""
    metadata = wire["metadata"]
    said = _chosen(metadata, ("name", "namespace", "uid", "resourceVersion"))
    return allocations_of_claim(wire) | {SAID: said | {"annotations": own_annotations(metadata)}}


def news_of_node(wire: JsonObject) -> JsonObject:
    """What decides whether a pod may be there; kubelet renews the rest every few minutes."""
    return {
        "metadata": _chosen(wire["metadata"], ("name", "labels")),
        "spec": _chosen(wire.get("spec") or {}, ("unschedulable", "taints")),
        "status": {
            "conditions": [item for item in _conditions(wire) if item.get("type") == "Ready"],
            "allocatable": extended_amounts((wire.get("status") or {}).get("allocatable")),
        },
    }


def news_of_inventory(wire: JsonObject) -> JsonObject:
    """Its conditions, and what is wrong with which device: the devices are in the slices."""
    faults = (wire.get("status") or {}).get("faults") or []
    status = {"conditions": _conditions(wire), "faults": faults}
    return {"metadata": _chosen(wire["metadata"], ("name",)), "status": status}


def news_of_claim(wire: JsonObject) -> JsonObject:
    """Without annotations, which the controller writes itself, and without what plugins say of prepared devices."""
    return {
        **_chosen(wire, ("apiVersion", "kind", "spec")),
        "metadata": _chosen(wire["metadata"], _CLAIM),
        "status": _chosen(wire.get("status") or {}, ("allocation", "reservedFor")),
    }


def _conditions(wire: JsonObject) -> list[JsonObject]:
    """Without the times of heartbeats."""
    return [_chosen(item, _CONDITION) for item in (wire.get("status") or {}).get("conditions") or ()]


def _chosen(wire: JsonObject, keys: Sequence[str]) -> JsonObject:
    return {key: wire[key] for key in keys if key in wire}
