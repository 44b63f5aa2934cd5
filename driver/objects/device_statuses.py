"""Makes the status of a node's Device objects: its health, its allocations, and what is left of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from driver.api.prepared_device import DeviceMode
from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import (
    MAX_ALLOCATIONS,
    DeviceAllocation,
    DevicePartition,
    DevicePod,
    DeviceStatus,
)
from driver.model.devices import Device, DeviceName, Gpu, RdmaNic, RdmaVf
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.model.parts import (
    AllocatableDevice,
    GpuRatio,
    MigPartition,
    RdmaVfPool,
    gpu_parts,
    has_static_layout,
    named_devices,
    whole_device,
)
from driver.objects.claims import ClaimAllocation
from driver.objects.device_amounts import (
    NOT_OFFERED,
    OFFERED,
    DeviceOffer,
    DeviceUse,
    allocatable,
    allocated,
    capacity,
    largest_free,
    memory_allocated,
)
from driver.objects.device_conditions import conditions_of, state_of, with_rivals

__all__ = ["AllocationUsers", "device_statuses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationUsers:
    """Who has what a claim was given.

    Attributes:
        pods: The pods that are shown.
        more_pods: How many more there are.
        pod_groups: The names of the PodGroups that are shown.
    """

    pods: Sequence[DevicePod] = ()
    more_pods: int = 0
    pod_groups: Sequence[str] = ()


_ALL: Final = 100
_MOST_PARTITIONS: Final = 64  # as the object holds
_Allocations: TypeAlias = list[tuple[AllocatableDevice, ClaimAllocation]]


def _nobody(_: ClaimAllocation) -> AllocationUsers:
    return AllocationUsers()


def device_statuses(
    inventory: Inventory,
    allocations: Iterable[ClaimAllocation],
    *,
    health: NodeHealth = NodeHealth(),  # noqa: B008 - frozen
    offers: Mapping[DeviceName, DeviceOffer] | None = None,
    is_silent: bool = False,
    users: Callable[[ClaimAllocation], AllocationUsers] = _nobody,
) -> dict[DeviceName, DeviceStatus]:
    """Return the status of each device of a node that has a Device object, in the inventory's order.

    A GPU's has what is given of all its parts, and a NIC's what is given of its virtual functions; the function that
    was given has it as well.

    Args:
        inventory: The node.
        allocations: What was allocated; that of other pools, and of devices that the node no longer has, counts for
            nothing.
        health: What the node's plugin reports of its devices.
        offers: In which ways each device is on offer; what is not here is in none. None: all in all ways.
        is_silent: Whether nothing is heard of the node's plugin: then nothing of it can be given.
        users: Returns who has what a claim was given.

    Returns:
        By device. The conditions' times are as :func:`driver.objects.device_conditions.conditions_of` tells them.
    """
    by_device = _allocations_by_device(inventory, [item for item in allocations if item.pool == inventory.node])
    nics = {nic.address: nic for nic in inventory.nics}
    cards: tuple[Device, ...] = (*inventory.gpus, *inventory.nics, *inventory.fpgas)
    conditions_of_card = {
        card.name: conditions_of(
            card,
            health.of(card.name),
            is_watched=card.name in health.watched,
            is_silent=is_silent,
            rivals=health.rivals_of(card.name),
        )
        for card in cards
    }
    statuses = {}
    for device in inventory.devices():
        card = nics[device.parent].name if isinstance(device, RdmaVf) else device.name
        conditions = conditions_of_card[card]
        if card != device.name and (rivals := health.rivals_of(card, device.name)):
            conditions = with_rivals(conditions, rivals)
        state = state_of(conditions)
        offer = sizes = OFFERED if offers is None else offers.get(device.name, NOT_OFFERED)
        if is_silent or health.cannot_prepare or state == "Unhealthy" or health.rivals_of(card, device.name):
            offer = NOT_OFFERED
        items = by_device.get(device.name, [])
        shown = tuple(_allocation(part, item, users(item), sizes) for part, item in items[:MAX_ALLOCATIONS])
        use = _use(device, items, sizes)
        statuses[device.name] = DeviceStatus(
            state=state,
            conditions=conditions,
            capacity=capacity(device),
            allocatable=allocatable(device, offer),
            mode=use.mode,
            allocated=allocated(device, use),
            largest_free=largest_free(device, offer, use),
            partitions=tuple(_partitions(device, items)) if isinstance(device, Gpu) else (),
            allocations=shown,
        )
    return statuses


def _allocations_by_device(inventory: Inventory, own: Sequence[ClaimAllocation]) -> dict[DeviceName, _Allocations]:
    devices = named_devices(inventory, {item.device for item in own})
    nics = {nic.address: nic for nic in inventory.nics}
    by_device: defaultdict[DeviceName, _Allocations] = defaultdict(list)
    for item in sorted(own, key=_order):
        device = devices.get(item.device)
        if device is None:
            continue
        by_device[whole_device(device).name].append((device, item))
        if isinstance(device, RdmaVf) and (nic := nics.get(device.parent)):
            by_device[nic.name].append((device, item))
        if isinstance(device, RdmaVfPool):
            chosen = next((vf for vf in device.vfs if vf.name == item.vf), None)
            if chosen is not None:
                by_device[chosen.name].append((chosen, item))
    return by_device


def _use(device: Device, items: _Allocations, sizes: DeviceOffer) -> DeviceUse:
    if not items:
        return DeviceUse()
    amounts = [_amount(part, item, sizes) for part, item in items]
    memories = [memory for _, memory in amounts if memory is not None]
    by_vf = isinstance(device, RdmaNic) and not isinstance(items[0][0], RdmaNic)
    return DeviceUse(
        mode="shared" if by_vf else _mode(items, sizes),
        core=sum(core or 0 for core, _ in amounts),
        memory=sum(memories) if len(memories) == len(amounts) else None,
        shares=len(items),
        partitions=tuple(part for part, _ in items if isinstance(part, MigPartition)),
        bandwidth=_bandwidth(device, items) if isinstance(device, RdmaNic) and device.bandwidth else None,
        bandwidth_ratio=_bandwidth(device, items) if isinstance(device, RdmaNic) and not device.bandwidth else None,
        vfs=len(items) if by_vf else None,
    )


def _bandwidth(nic: RdmaNic, items: _Allocations) -> int | None:
    """Return the allocated bandwidth of a NIC, in bits per second, or in percent where its speed is not known.

    None where it is given by VFs of which none has bandwidth reserved.
    """
    has = nic.bandwidth or 1  # percents of 1 are percent
    taken = sum(_percents_of(has, device, item) for device, item in items)
    if not taken and not any(isinstance(device, RdmaNic) for device, _ in items):
        return None
    return min(-(-taken // _ALL), has) if nic.bandwidth else min(taken, _ALL)


def _percents_of(has: int, device: AllocatableDevice, item: ClaimAllocation) -> int:
    """Return 100 times what an allocation takes of a NIC that has so much."""
    if item.bandwidth_ratio is not None:
        return has * item.bandwidth_ratio
    if item.bandwidth is not None:
        return _ALL * item.bandwidth
    return _ALL * has if isinstance(device, RdmaNic) else 0


def _allocation(
    device: AllocatableDevice, item: ClaimAllocation, users: AllocationUsers, sizes: DeviceOffer
) -> DeviceAllocation:
    core, memory = _amount(device, item, sizes)
    return DeviceAllocation(
        namespace=item.namespace,
        claim=item.claim,
        uid=item.uid,
        request=item.request,
        device=DeviceName(item.device),
        share_id=item.share_id,
        core=core,
        memory=memory_allocated(memory),
        bandwidth=_reserved(device, item),
        bandwidth_ratio=item.bandwidth_ratio if isinstance(device, RdmaNic) else item.bandwidth_ratio or None,
        isolation=item.isolation,
        pods=tuple(users.pods),
        more_pods=users.more_pods or None,
        pod_groups=tuple(users.pod_groups),
    )


def _reserved(device: AllocatableDevice, item: ClaimAllocation) -> Quantity | None:
    """Return what an allocation has of a NIC's bandwidth; None for a VF without any of its own, whose amount is 0."""
    if item.bandwidth is None or (not item.bandwidth and not isinstance(device, RdmaNic)):
        return None
    return Quantity.of(item.bandwidth)


def _is_whole(gpu: Gpu, item: ClaimAllocation, sizes: DeviceOffer) -> bool:
    """Whether the claim has the GPU alone: a result without consumed capacity takes all of the device."""
    if item.memory_bytes is None or gpu.memory_bytes is None:
        return item.core in (None, _ALL)
    return sizes.is_all_memory(item.memory_bytes, gpu.memory_bytes)


def _amount(device: AllocatableDevice, item: ClaimAllocation, sizes: DeviceOffer) -> tuple[int | None, int | None]:
    """Return percent of core and bytes of memory. Who has all of the memory has the GPU, with all of its core."""
    match device:
        case Gpu():
            core = _ALL if item.core is None or _is_whole(device, item, sizes) else item.core
            return core, item.memory_bytes if item.memory_bytes is not None else device.memory_bytes
        case GpuRatio():
            core = _ALL if item.core is None or item.memory_ratio in (None, _ALL) else item.core
            ratio = _ALL if item.memory_ratio is None else item.memory_ratio
            return core, device.memory_bytes(ratio)
        case MigPartition():
            return None, device.profile.memory_bytes
        case _:
            return None, None


def _mode(items: _Allocations, sizes: DeviceOffer) -> DeviceMode:
    # All allocations of a device at one time are of one mode: the slices' counters see to that.
    device, first = items[0]
    match device:
        case GpuRatio():
            return "ratio"
        case MigPartition():
            return "mig"
        case Gpu():
            return "whole" if all(_is_whole(device, item, sizes) for _, item in items) else "shared"
        case RdmaNic():
            # One that can be shared has a share id in every allocation, also in that of all its bandwidth.
            is_part = first.bandwidth is not None and first.bandwidth < (device.bandwidth or 0)
            is_percent = first.bandwidth_ratio is not None and first.bandwidth_ratio < _ALL
            return "shared" if is_part or is_percent else "whole"
        case _:
            return "whole"  # a VF as well, where its share is one of a pool


def _partitions(gpu: Gpu, items: _Allocations) -> Iterator[DevicePartition]:
    """Yield those that an administrator made and those that are allocated, by their place."""
    parts: dict[str, tuple[MigPartition, str | None]] = {}
    if has_static_layout(gpu):
        made = (part for part in gpu_parts(gpu) if isinstance(part, MigPartition))
        parts = {part.name: (part, part.instance.uuid if part.instance else None) for part in made}
    for part, item in items:
        if isinstance(part, MigPartition) and not parts.get(part.name, (part, None))[1]:
            parts[part.name] = (part, item.mig_uuid)
    by_place = sorted(parts.values(), key=lambda item: (item[0].placement.start, item[0].name))
    for part, uuid in by_place[:_MOST_PARTITIONS]:
        yield DevicePartition(
            device=part.name,
            profile=part.profile.name,
            start=part.placement.start,
            size=part.placement.size,
            uuid=uuid,
        )


def _order(item: ClaimAllocation) -> tuple[str, str, str, str]:
    return item.uid, item.request, item.device, item.share_id
