"""Counts who has what of which device in a simulation: shares and partitions are parts of their GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from driver import DRIVER_NAME
from driver.api.gpu_policies import GpuPolicy
from driver.api.prepared_device import DeviceMode
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device as SliceDevice
from driver.api.resource_v1 import DeviceRequestAllocationResult
from driver.cli.amounts import gibibytes
from driver.cli.nic_usage import bandwidth_share, vf_share
from driver.layout import attributes
from driver.model.devices import DeviceName, DeviceType, Gpu, MigPlacement, RdmaNic
from driver.model.inventory import Inventory
from driver.model.parts import (
    AllocatableDevice,
    GpuRatio,
    MigPartition,
    RdmaVfPool,
    allocatable_devices,
    has_static_layout,
    whole_device,
)
from driver.model.shares import given_in_shares, largest_share
from driver.simulation import Simulation

__all__ = ["NodeUsage", "Use", "free_of", "left_of", "left_text", "mode_of", "policy_of", "share_text", "usage"]

_ALL: Final = 100
_DEFAULT_POLICY: Final = GpuPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One allocation result.

    Attributes:
        claim: ``namespace/name``.
        device: What was given; a part of a GPU as the part.
        result: The allocator's answer.
        vf: Which VF was given, where the device is a pool of them.
        policy: The administrator's rules for the GPU.
    """

    claim: str
    device: AllocatableDevice
    result: DeviceRequestAllocationResult
    vf: DeviceName | None = None
    policy: GpuPolicy = _DEFAULT_POLICY

    @property
    def share(self) -> str:
        """What was allocated of the device, in a few words; empty for the whole device."""
        return share_text(self.device, self.result, self.vf, self.policy)


@dataclass(slots=True, kw_only=True)
class NodeUsage:
    """The devices of one node, and who has them.

    Attributes:
        devices: All that an allocation can name, by name.
        uses: Device → its uses, a GPU's parts under the GPU.
    """

    devices: Mapping[str, AllocatableDevice]
    uses: dict[DeviceName, list[Use]] = field(default_factory=lambda: defaultdict(list))

    def holders(self) -> dict[DeviceName, str]:
        """Return who has each device, by its name, for a person; of a pool of VFs, the VF."""
        holders: defaultdict[DeviceName, list[str]] = defaultdict(list)
        for name, uses in self.uses.items():
            for use in uses:
                is_whole = use.vf is not None or not use.share
                holders[use.vf or name].append(use.claim if is_whole else f"{use.claim} ({use.share})")
        return {name: ", ".join(claims) for name, claims in holders.items()}

    def shared_gpus(self) -> Iterator[tuple[Gpu, list[Use]]]:
        """Return the GPUs of which parts are allocated, with the allocations."""
        for name, uses in self.uses.items():
            gpu = self.devices.get(name)
            if isinstance(gpu, Gpu) and any(use.share for use in uses):
                yield gpu, uses

    def shared_nics(self) -> Iterator[tuple[RdmaNic, list[DeviceRequestAllocationResult]]]:
        """Return the NICs of which bandwidth or VFs are allocated, with the allocations."""
        for name, uses in self.uses.items():
            nic = self.devices.get(name)
            if isinstance(nic, RdmaNic) and any(use.share for use in uses):
                yield nic, [use.result for use in uses]

    def vfs_allocated(self, pool: RdmaVfPool) -> int:
        """Return how many VFs of a pool are allocated."""
        return sum(isinstance(use.device, RdmaVfPool) for use in self.uses.get(pool.nic.name, ()))


def usage(simulation: Simulation) -> dict[str, NodeUsage]:
    """Return what is used on each node, by its name."""
    known: dict[tuple[int, int], Mapping[str, AllocatableDevice]] = {}
    nodes = {node.node: NodeUsage(devices=_devices(node, known)) for node in simulation.inventories}
    for outcome in simulation.outcomes:
        allocation = outcome.claim.status.allocation
        if outcome.node is None or allocation is None:
            continue
        node = nodes[outcome.node]
        prepared = outcome.plan.devices if outcome.plan is not None else ()
        vfs = {(item.device, item.share_id): item.nic_use.vf for item in prepared if item.nic_use is not None}
        for result in allocation.devices.results:
            device = node.devices.get(result.device) if result.driver == DRIVER_NAME else None
            if device is not None:
                claim = f"{outcome.claim.metadata.namespace}/{outcome.claim.metadata.name}"
                vf = vfs.get((result.device, result.share_id))
                policy = policy_of(simulation, outcome.node, device)
                node.uses[whole_device(device).name].append(
                    Use(claim=claim, device=device, result=result, vf=vf, policy=policy)
                )
    return nodes


def policy_of(simulation: Simulation, node: str, device: AllocatableDevice) -> GpuPolicy:
    """Return the administrator's rules for a GPU, or for the GPU of a part; the defaults for other devices."""
    gpu = whole_device(device)
    if not isinstance(gpu, Gpu):
        return _DEFAULT_POLICY
    return simulation.policies.of(model=gpu.model, node=node, address=gpu.address)


def _is_part(device: AllocatableDevice, result: DeviceRequestAllocationResult, policy: GpuPolicy) -> bool:
    """Whether a part of a GPU was allocated: a partition, or a share that leaves room for others."""
    consumed = {name: amount.ceil() for name, amount in result.consumed_capacity.items()}
    match device:
        case MigPartition():
            return True
        case GpuRatio():
            return consumed.get(attributes.MEMORY_RATIO, _ALL) < _ALL
        case Gpu() if device.memory_bytes and attributes.MEMORY in consumed:
            steps = policy.memory
            most = largest_share(device.memory_bytes, minimum=steps.minimum.ceil(), step=steps.step.ceil())
            return consumed[attributes.MEMORY] < most
        case Gpu():
            return consumed.get(attributes.CORE, _ALL) < _ALL
        case _:
            return False


def share_text(
    device: AllocatableDevice,
    result: DeviceRequestAllocationResult,
    vf: DeviceName | None = None,
    policy: GpuPolicy = _DEFAULT_POLICY,
) -> str:
    """Return what was allocated of a GPU or NIC, in a few words; empty for all of it."""
    if not _is_part(device, result, policy):
        return ", ".join(filter(None, (vf_share(device, vf), bandwidth_share(device, result))))
    if isinstance(device, MigPartition):
        return device.profile.name
    return _amounts({name: value.ceil() for name, value in result.consumed_capacity.items()})


def left_text(gpu: Gpu, uses: Sequence[Use]) -> str:
    """Return what is left of a GPU of which parts are allocated, in its present mode."""
    left = left_of(gpu, uses)
    if "slices" in left:
        return f"{left['slices']['free']} of {left['slices']['total']} memory slices"
    if "partitions" in left:
        return f"{left['partitions']['free']} of {left['partitions']['total']} partitions"
    return _amounts(left)


def left_of(gpu: Gpu, uses: Sequence[Use]) -> dict[str, Any]:
    """Return the same as data: percent of core and memoryRatio, bytes of memory, memory slices or partitions."""
    allocated = [use.device for use in uses]
    if any(isinstance(device, MigPartition) for device in allocated):
        if has_static_layout(gpu) and gpu.mig is not None:
            total = len(gpu.mig.instances)
            return {"partitions": {"free": total - len({device.name for device in allocated}), "total": total}}
        taken = {
            number for device in allocated if isinstance(device, MigPartition) for number in _slices(device.placement)
        }
        every = {number for place in _placements(gpu) for number in _slices(place)}
        return {"slices": {"free": len(every - taken), "total": len(every)}}
    policy = uses[0].policy
    whole = {attributes.CORE: policy.core.total if gpu.memory_bytes else _ALL}
    if any(isinstance(device, GpuRatio) for device in allocated):
        whole[attributes.MEMORY_RATIO] = _ALL
    elif gpu.memory_bytes:
        steps = policy.memory
        whole[attributes.MEMORY] = given_in_shares(
            gpu.memory_bytes, minimum=steps.minimum.ceil(), step=steps.step.ceil()
        )
    none = Quantity.of(0)
    return {
        name: amount - sum(use.result.consumed_capacity.get(name, none).ceil() for use in uses)
        for name, amount in whole.items()
    }


def free_of(node: NodeUsage, published: Sequence[Sequence[SliceDevice]]) -> dict[str, tuple[int, int]]:
    """Return how many of the published devices are free and how many there are, by their type.

    A GPU with its parts is one, and every VF of a pool is one.

    Args:
        node: The node.
        published: The devices of each of its slices.
    """
    found: dict[str, set[DeviceName]] = {}
    free_vfs, vfs = 0, 0
    for devices in published:
        for device in devices:
            known = node.devices[device.name]
            if isinstance(known, RdmaVfPool):
                vfs += len(known.vfs)
                free_vfs += len(known.vfs) - node.vfs_allocated(known)
                found.setdefault(known.type.value, set())
                continue
            whole = whole_device(known)
            found.setdefault(whole.type.value, set()).add(whole.name)
    counts = {kind: (sum(name not in node.uses for name in names), len(names)) for kind, names in found.items()}
    if vfs:
        free, total = counts[DeviceType.RDMA_VF.value]
        counts[DeviceType.RDMA_VF.value] = (free + free_vfs, total + vfs)
    return counts


def mode_of(uses: Sequence[Use]) -> DeviceMode:
    """Return the mode in which a GPU is allocated now, as a Device's status names it."""
    modes: dict[DeviceType, DeviceMode] = {DeviceType.MIG: "mig", DeviceType.GPU_RATIO: "ratio"}
    return modes.get(uses[0].device.type, "shared")


def _devices(
    node: Inventory, known: dict[tuple[int, int], Mapping[str, AllocatableDevice]]
) -> Mapping[str, AllocatableDevice]:
    """Return what is derived of an inventory; simulated nodes of one file share it."""
    key = id(node.gpus), id(node.nics)
    if key not in known:
        known[key] = {device.name: device for device in allocatable_devices(node)}
    return known[key]


def _placements(gpu: Gpu) -> Iterator[MigPlacement]:
    for profile in gpu.mig.profiles if gpu.mig is not None else ():
        yield from profile.placements


def _slices(place: MigPlacement) -> range:
    return range(place.start, place.start + place.size)


def _amounts(amounts: Mapping[str, int]) -> str:
    words = {attributes.CORE: "{}% core", attributes.MEMORY_RATIO: "{}% memory"}
    parts = [
        f"{gibibytes(amount)} memory" if name == attributes.MEMORY else words[name].format(amount)
        for name, amount in amounts.items()
        if name == attributes.MEMORY or name in words
    ]
    return ", ".join(parts)
