"""Koordinator's pod annotation ``scheduling.koordinator.sh/device-allocated``: which devices a pod has, and how much.

Source: koordinator-sh/koordinator, apis/extension/device_share.go (DeviceAllocations: the fields, their order, and
which are left out when they are empty), and pkg/scheduler/plugins/deviceshare/plugin.go (fillID: a GPU's ``id`` is its
UUID, that of other devices their PCI address).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, TypeAlias

from driver.api.quantity import Quantity
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.inventory import Inventory
from driver.objects.claims import ClaimAllocation
from driver.objects.device_amounts import memory_left
from driver.objects.device_statuses import device_statuses
from driver.status.device_share import TODAY, Card, Resources, add, wire

__all__ = ["DEVICE_ALLOCATED", "device_allocated"]

DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
"""The annotation."""

_Card: TypeAlias = Gpu | RdmaNic | Fpga


def device_allocated(inventory: Inventory, allocations: Iterable[ClaimAllocation], *, domain: str = TODAY) -> str:
    """Return the annotation of a pod; empty where it has none of the node's devices.

    Each card is there once, with all that the pod's claims have of it, so the annotation has no more entries than the
    node has GPUs, NICs and FPGAs.

    Args:
        inventory: The pod's node.
        allocations: What all of the pod's claims were allocated.
        domain: The domain of the resources' names, one of :data:`driver.status.device_share.DOMAINS`. With that of the
            first releases the entries have no ``id``, as then.
    """
    statuses = device_statuses(inventory, allocations)
    cards: tuple[_Card, ...] = (*inventory.gpus, *inventory.nics, *inventory.fpgas)
    held = {name for name, status in statuses.items() if status.allocations}
    found: dict[str, list[dict[str, Any]]] = {}
    for device in cards:
        status = statuses[device.name]
        if not status.allocations:
            continue
        card = Card(
            type=device.type.value,
            name=device.name,
            minor=_minor(device),
            memory=_memory(device),
            status=status,
        )
        resources: Resources = {}
        for part in card.parts(status.allocations):
            add(resources, part)
        entry: dict[str, Any] = {"minor": card.minor, "resources": wire(resources, domain)}
        device_id = (device.uuid if isinstance(device, Gpu) else device.address) if domain == TODAY else None
        if device_id:
            entry["id"] = device_id
        if isinstance(device, RdmaNic) and (vfs := list(_vfs(device, held))):
            entry["extension"] = {"vfs": vfs}
        found.setdefault(card.type, []).append(entry)
    for entries in found.values():
        entries.sort(key=lambda entry: int(entry["minor"]))
    return json.dumps(dict(sorted(found.items())), separators=(",", ":")) if found else ""


def _minor(device: _Card) -> int:
    return device.minor if isinstance(device, Gpu) and device.minor is not None else device.index


def _memory(device: _Card) -> Quantity | None:
    return memory_left(device.memory_bytes) if isinstance(device, Gpu) else None


def _vfs(nic: RdmaNic, held: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the VFs of a NIC that the pod has; one of a pool is known once the node has prepared the claim."""
    for vf in nic.vfs:
        if vf.name in held:
            yield ({"minor": vf.index} if vf.index else {}) | {"busID": vf.address}
