"""The status of a node's Device objects: who has which device, how much of it, and in which way it is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import (
    MAX_ALLOCATIONS,
    DeviceAllocation,
    DeviceAmounts,
    DeviceMode,
    DeviceStatus,
)
from driver.model.devices import DeviceName, Gpu, RdmaNic
from driver.model.inventory import Inventory
from driver.model.parts import AllocatableDevice, GpuRatio, MigPartition, RdmaVfPool, named_devices, whole_device
from driver.objects.claims import ClaimAllocation

__all__ = ["device_statuses"]

_ALL: Final = 100
_FREE: Final = DeviceStatus(state="Unknown")


def device_statuses(inventory: Inventory, allocations: Iterable[ClaimAllocation]) -> dict[DeviceName, DeviceStatus]:
    """The status of each device of a node that has a Device object.

    A GPU's has what is given of all its parts, and a NIC's what is given out of its pool of virtual functions; the
    function that was given has it as well.

    The state is Unknown: nobody watches it yet.

    Args:
        inventory: The node.
        allocations: What was allocated; that of other pools, and of devices that the node no longer has, counts for
            nothing.
    """
    statuses = {device.name: _FREE for device in inventory.devices()}
    own = [item for item in allocations if item.pool == inventory.node]
    if not own:
        return statuses
    devices = named_devices(inventory, {item.device for item in own})
    given: defaultdict[DeviceName, list[tuple[AllocatableDevice, ClaimAllocation]]] = defaultdict(list)
    for item in sorted(own, key=_order):
        device = devices.get(item.device)
        if device is None:
            continue
        given[whole_device(device).name].append((device, item))
        if isinstance(device, RdmaVfPool):
            chosen = next((vf for vf in device.vfs if vf.name == item.vf), None)
            if chosen is not None:
                given[chosen.name].append((chosen, item))
    return statuses | {name: _status(items) for name, items in given.items()}


def _status(items: list[tuple[AllocatableDevice, ClaimAllocation]]) -> DeviceStatus:
    allocations = tuple(_allocation(device, item) for device, item in items)
    return DeviceStatus(
        state="Unknown",
        mode=_mode(*items[0], allocations),
        allocated=_allocated(items[0][0], allocations),
        allocations=allocations[:MAX_ALLOCATIONS],
    )


def _allocation(device: AllocatableDevice, item: ClaimAllocation) -> DeviceAllocation:
    core, memory = _amount(device, item)
    return DeviceAllocation(
        namespace=item.namespace,
        claim=item.claim,
        uid=item.uid,
        request=item.request,
        device=item.device,
        share_id=item.share_id,
        core=core,
        memory=None if memory is None else Quantity.of(memory, binary=True),
        isolation=item.isolation,
    )


def _amount(device: AllocatableDevice, item: ClaimAllocation) -> tuple[int | None, int | None]:
    """Percent of core and bytes of memory. What consumes nothing takes all of the device."""
    match device:
        case Gpu():
            core = _ALL if item.core is None else item.core
            return core, item.memory_bytes if item.memory_bytes is not None else device.memory_bytes
        case GpuRatio():
            core = _ALL if item.core is None else item.core
            ratio = _ALL if item.memory_ratio is None else item.memory_ratio
            return core, device.memory_bytes(ratio)
        case MigPartition():
            return None, device.profile.memory_bytes
        case _:
            return None, None


def _mode(device: AllocatableDevice, first: ClaimAllocation, allocations: tuple[DeviceAllocation, ...]) -> DeviceMode:
    # All allocations of a device at one time are of one mode: the slices' counters see to that.
    match device:
        case GpuRatio():
            return "ratio"
        case MigPartition():
            return "mig"
        case Gpu():
            return "whole" if all(item.core == _ALL for item in allocations) else "shared"
        case RdmaNic():
            # One that can be shared has a share id in every allocation, also in that of all its bandwidth.
            is_part = first.bandwidth is not None and first.bandwidth < (device.bandwidth or 0)
            return "shared" if is_part else "whole"
        case RdmaVfPool():
            return "shared"
        case _:
            return "whole"  # a VF as well, where its share is one of a pool


def _allocated(device: AllocatableDevice, allocations: tuple[DeviceAllocation, ...]) -> DeviceAmounts | None:
    if not isinstance(device, Gpu | GpuRatio | MigPartition):
        return None
    cores = [item.core for item in allocations if item.core is not None]
    memories = [item.memory.ceil() for item in allocations if item.memory is not None]
    return DeviceAmounts(
        core=min(sum(cores), _ALL) if cores else None,
        memory=Quantity.of(sum(memories), binary=True) if len(memories) == len(allocations) else None,
    )


def _order(item: ClaimAllocation) -> tuple[str, str, str, str]:
    return item.uid, item.request, item.device, item.share_id
