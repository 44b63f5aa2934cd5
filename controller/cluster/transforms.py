"""What the informers keep of Nodes, NodeInventories and claims, and what their events say: only what decides."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from controller.cluster.packed import packed
from controller.cluster.pending_annotations import own_annotations
from driver.adapters.kubernetes.resources import JsonObject
from driver.model.managed_nodes import ANNOTATION, LABEL
from driver.objects.binding_conditions import awaited_pools, unready_devices
from driver.objects.claims import claim_allocations
from driver.objects.consumers import consumers
from driver.objects.extended_resources import CLAIM_ANNOTATION
from driver.objects.faults import PREPARE_CONDITIONS, STRATEGY_CONDITIONS

__all__ = [
    "AWAITED",
    "HEALTH",
    "NODE_ALLOCATABLE",
    "UID",
    "claim_event",
    "claim_metadata",
    "inventory_event",
    "node_event",
    "transform_claim",
    "transform_inventory",
    "transform_node",
]

NODE_ALLOCATABLE: Final = "DRANodeAllocatableResources"
"""The feature by which a kubelet heeds what devices take of the node's CPU and memory (Node, status.declaredFeatures),
and the key of a kept Node under which it stands."""

HEALTH: Final = "health"
"""The key of a kept inventory under which a digest of the devices' health stands."""

AWAITED: Final = "awaited"
"""The key of a kept claim under which the pools stand whose nodes are to prepare it before its pod is bound; absent
where it waits for none."""

UID: Final = "uid"
"""The key of such a claim's UID."""

_CLAIM: Final = ("name", "namespace", "uid", "deletionTimestamp", "ownerReferences")
_READY_TYPES: Final = ("Ready", *PREPARE_CONDITIONS, *STRATEGY_CONDITIONS.values())
_CONDITION: Final = ("type", "status", "reason", "message")


def transform_node(wire: JsonObject) -> JsonObject:
    """Keep a Node's name, its UID, the label that makes it managed, and of its kubelet's features one, if it has it."""
    metadata = wire["metadata"]
    labels = _chosen(metadata.get("labels") or {}, (LABEL,))
    kept = {"metadata": _chosen(metadata, ("name", "uid", "resourceVersion")) | ({"labels": labels} if labels else {})}
    declares = NODE_ALLOCATABLE in ((wire.get("status") or {}).get("declaredFeatures") or ())
    return kept | {NODE_ALLOCATABLE: True} if declares else kept


def transform_inventory(wire: JsonObject) -> JsonObject:
    """Keep a whole NodeInventory, packed, and a digest that changes with the devices' health but not with conditions.

    A status has no generation. Sets and maps of the API have no order, so the digest does not depend on theirs. Some
    conditions count as well: whether the node's plugin is ready is shown beside its devices' health, a plugin that
    cannot prepare claims has its devices tainted, and so have GPUs whose strategy the node cannot serve; what it
    prepares before a pod is bound has binding conditions.
    """
    status = wire.get("status") or {}
    watched, faults = status.get("watched") or (), status.get("faults") or ()
    ready = [
        _chosen(item, ("type", "status", "reason")) for item in _conditions(wire) if item.get("type") in _READY_TYPES
    ]
    rivals = [item | {"devices": sorted(item.get("devices") or ())} for item in status.get("rivals") or ()]
    lists = [sorted(json.dumps(item, sort_keys=True) for item in items) for items in (faults, rivals)]
    before_binding = sorted(status.get("preparesBeforeBinding") or ())
    health = json.dumps([sorted(watched), *lists, ready, before_binding])
    return packed(wire) | {HEALTH: hashlib.blake2b(health.encode(), digest_size=8).digest()}


def transform_claim(wire: JsonObject) -> JsonObject:
    """Keep a claim's allocated devices of this driver, its consumers, and the nodes that are to prepare it."""
    allocations = claim_allocations(wire)
    kept: JsonObject = {"metadata": _chosen(wire["metadata"], ("name", "namespace", "resourceVersion"))}
    kept |= {"allocations": allocations, "consumers": consumers(wire) if allocations else ()}
    if awaited := awaited_pools(wire):
        kept |= {AWAITED: awaited, UID: wire["metadata"]["uid"]}
    return kept


def claim_metadata(wire: JsonObject) -> JsonObject:
    """Return a claim's metadata, with no other annotations than Rootport's own, and what placement must not lose."""
    metadata = wire["metadata"]
    chosen = _chosen(metadata, ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "finalizers"))
    placed = _chosen(metadata.get("annotations") or {}, (ANNOTATION,))
    return chosen | {"annotations": own_annotations(metadata) | placed}


def node_event(wire: JsonObject) -> JsonObject:
    """Return what decides whether a pod may run on a Node; kubelet renews the other fields every few minutes."""
    return {
        "metadata": _chosen(wire["metadata"], ("name", "labels")),
        "spec": _chosen(wire.get("spec") or {}, ("unschedulable", "taints")),
        "status": {
            "conditions": [item for item in _conditions(wire) if item.get("type") == "Ready"],
            "allocatable": (wire.get("status") or {}).get("allocatable") or {},
        },
    }


def inventory_event(wire: JsonObject) -> JsonObject:
    """Return a NodeInventory's conditions, faults and rivals; the devices themselves are in the slices."""
    reported = wire.get("status") or {}
    status = {"conditions": _conditions(wire)} | {name: reported.get(name) or [] for name in ("faults", "rivals")}
    return {"metadata": _chosen(wire["metadata"], ("name",)), "status": status}


def claim_event(wire: JsonObject) -> JsonObject:
    """Return a claim without annotations that the controller itself writes, and without the status of its devices.

    With that status only where a device has binding conditions that are not met: then it says why the pod waits.
    """
    fields = ("allocation", "reservedFor", *(("devices",) if unready_devices(wire) else ()))
    annotations = _chosen(wire["metadata"].get("annotations") or {}, (CLAIM_ANNOTATION,))
    return {
        **_chosen(wire, ("apiVersion", "kind", "spec")),
        "metadata": _chosen(wire["metadata"], _CLAIM) | ({"annotations": annotations} if annotations else {}),
        "status": _chosen(wire.get("status") or {}, fields),
    }


def _conditions(wire: JsonObject) -> list[JsonObject]:
    """Return the conditions without the times of heartbeats."""
    return [_chosen(item, _CONDITION) for item in (wire.get("status") or {}).get("conditions") or ()]


def _chosen(wire: JsonObject, keys: Sequence[str]) -> JsonObject:
    return {key: wire[key] for key in keys if key in wire}
