"""Devices that can be allocated beside whole ones: parts of GPUs, and any one of a NIC's virtual functions.

A GPU is given in one mode at a time: whole or in shares of bytes (the GPU itself), in shares of percent
(:class:`GpuRatio`), or in partitions (:class:`MigPartition`). All modes are on offer at once, and counters in the
ResourceSlices make them exclude each other (docs/design/layout.md).

The virtual functions of a NIC that are alike are one device, of which each claim is given any one
(:class:`RdmaVfPool`): 8 NICs with 16 VFs each are 8 devices in the ResourceSlices, and not 128.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from driver.model.devices import (
    Device,
    DeviceName,
    DeviceType,
    Gpu,
    MigInstance,
    MigPlacement,
    MigProfile,
    RdmaNic,
    RdmaVf,
    device_name,
)
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath

__all__ = [
    "AllocatableDevice",
    "GpuRatio",
    "MigPartition",
    "RdmaVfPool",
    "allocatable_devices",
    "gpu_parts",
    "has_static_layout",
    "mig_mode_is_fixed",
    "named_devices",
    "vf_pool",
    "whole_device",
]

_HOPPER: Final = 9
"""The major CUDA compute capability."""

_NOT_IN_LABELS: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _GpuPart:
    """What the parts of a GPU have in common.

    Attributes:
        gpu: The GPU.
    """

    type: ClassVar[DeviceType]

    gpu: Gpu

    @property
    def name(self) -> DeviceName:
        """The name in the pool."""
        return device_name(self.type, self.gpu.address)

    @property
    def address(self) -> PciAddress:
        """The GPU's PCI address."""
        return self.gpu.address

    @property
    def pcie(self) -> PciePath:
        """The GPU's path in the PCIe tree."""
        return self.gpu.pcie

    @property
    def device_nodes_known(self) -> bool:
        """Whether the GPU's device nodes are known; a partition's own are known once it exists."""
        return self.gpu.device_nodes_known


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRatio(_GpuPart):
    """A GPU whose memory is given by percent."""

    type: ClassVar[DeviceType] = DeviceType.GPU_RATIO

    def memory_bytes(self, percent: int) -> int | None:
        """Return so many percent of the GPU's memory, in bytes; None where that is not known.

        Rounded down: percents that add up to 100 never add up to more bytes than there are.
        """
        return None if self.gpu.memory_bytes is None else self.gpu.memory_bytes * percent // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPartition(_GpuPart):
    """A place on a GPU for a MIG device of one profile.

    Attributes:
        profile: What an instance there has.
        placement: Where.
        label: The profile as a part of a DNS label, such as ``1g-10gb-me``; different for each profile of a GPU.
        instance: The MIG device that an administrator made there; None where Rootport makes it for the claim.
    """

    type: ClassVar[DeviceType] = DeviceType.MIG

    profile: MigProfile
    placement: MigPlacement
    label: str
    instance: MigInstance | None = None

    @property
    def name(self) -> DeviceName:
        """The name in the pool."""
        return DeviceName(f"{device_name(self.type, self.gpu.address)}-{self.label}-{self.placement.start}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaVfPool:
    """The virtual functions of a NIC, as one device: a claim is given any one of them, chosen when it is prepared.

    Attributes:
        nic: The NIC (PF).
        vfs: Those of its VFs that can be given, all alike, by index; at least one.
    """

    type: ClassVar[DeviceType] = DeviceType.RDMA_VF

    nic: RdmaNic
    vfs: tuple[RdmaVf, ...]

    @property
    def name(self) -> DeviceName:
        """The name in the pool, ``rdma-vfs-<PCI address of the NIC>``."""
        return DeviceName(device_name(DeviceType.RDMA, self.nic.address).replace("rdma-", "rdma-vfs-", 1))

    @property
    def address(self) -> PciAddress:
        """The NIC's PCI address."""
        return self.nic.address

    @property
    def pcie(self) -> PciePath:
        """The NIC's path in the PCIe tree."""
        return self.nic.pcie

    @property
    def device_nodes_known(self) -> bool:
        """Always true: VFs whose device nodes are not known are not in the pool."""
        return True


AllocatableDevice: TypeAlias = Device | GpuRatio | MigPartition | RdmaVfPool
"""What an allocation result can name."""


def vf_pool(nic: RdmaNic) -> RdmaVfPool | None:
    """Return the NIC's VFs as one device; None where none can be given, or where they are not alike.

    A VF can be given while it is bound to its RDMA driver; one that is not is left aside. VFs are alike when their link
    layer is the same: a claim must not care which one it gets.
    """
    vfs = tuple(sorted((vf for vf in nic.vfs if vf.device_nodes_known), key=lambda vf: vf.index))
    layers = {tuple(port.link_layer for port in vf.ports) for vf in vfs}
    return RdmaVfPool(nic=nic, vfs=vfs) if len(layers) == 1 else None


def whole_device(device: AllocatableDevice) -> Device:
    """Return the device with a Device object: the GPU of a part, the NIC of a VF pool, every other device itself."""
    match device:
        case _GpuPart():
            return device.gpu
        case RdmaVfPool():
            return device.nic
        case _:
            return device


def has_static_layout(gpu: Gpu) -> bool:
    """Whether an administrator has partitioned the GPU: it is given by those partitions alone."""
    return gpu.mig is not None and bool(gpu.mig.instances)


def mig_mode_is_fixed(cuda_compute_capability: str | None) -> bool:
    """Whether MIG mode stays as an administrator has set it, since changing it resets the GPU.

    From Hopper on it takes no reset (NVIDIA Multi-Instance GPU User Guide, "Enable MIG Mode"). An older GPU, or one
    whose compute capability is not known, is given in partitions while the mode is on, and in no partitions while it is
    off. (NVIDIA's own DRA driver came to the same rule.)
    """
    major = (cuda_compute_capability or "").partition(".")[0]
    return not (major.isdecimal() and int(major) >= _HOPPER)


def gpu_parts(gpu: Gpu) -> Iterator[GpuRatio | MigPartition]:
    """Yield the GPU's other modes, in the order in which they are published.

    A GPU with a static layout has the partitions of that layout alone, one whose MIG mode is fixed what goes with the
    mode. One whose memory is not known cannot be given by percent of it. Two profiles whose names make one label are
    distinguished by NVML's numbers.
    """
    mig = gpu.mig
    if mig is None:
        if gpu.memory_bytes:
            yield GpuRatio(gpu=gpu)
        return
    labels = _labels(mig.profiles)
    if has_static_layout(gpu):
        profiles = {profile.profile_id: profile for profile in mig.profiles}
        for instance in mig.instances:
            if profile := profiles.get(instance.profile_id):
                label = labels[profile.profile_id]
                yield MigPartition(
                    gpu=gpu, profile=profile, placement=instance.placement, label=label, instance=instance
                )
        return
    fixed = mig_mode_is_fixed(gpu.cuda_compute_capability)
    if gpu.memory_bytes and not (fixed and mig.enabled):
        yield GpuRatio(gpu=gpu)
    if fixed and not mig.enabled:
        return
    for profile in mig.profiles:
        for placement in profile.placements:
            yield MigPartition(gpu=gpu, profile=profile, placement=placement, label=labels[profile.profile_id])


def allocatable_devices(inventory: Inventory) -> Iterator[AllocatableDevice]:
    """Yield every device of the node that an allocation result can name: devices, VF pools and GPUs' parts."""
    yield from inventory.devices()
    for nic in inventory.nics:
        pool = vf_pool(nic)
        if pool is not None:
            yield pool
    for gpu in inventory.gpus:
        yield from gpu_parts(gpu)


def named_devices(inventory: Inventory, names: Collection[str]) -> dict[str, AllocatableDevice]:
    """Return those of :func:`allocatable_devices` that have these names, by name; unknown names are left out.

    A GPU has some twenty places for MIG devices: what is not asked for is not looked at.
    """
    found: dict[str, AllocatableDevice] = {}
    if names:
        for device in allocatable_devices(inventory):
            if device.name in names:
                found[device.name] = device
                if len(found) == len(names):
                    break
    return found


def _labels(profiles: tuple[MigProfile, ...]) -> dict[int, str]:
    plain = {profile.profile_id: _label(profile.name) for profile in profiles}
    times = Counter(plain.values())
    return {number: label if times[label] == 1 else f"{label}-{number}" for number, label in plain.items()}


def _label(profile: str) -> str:
    # "+me" is with media engines, "-me" without.
    return _NOT_IN_LABELS.sub("-", profile.lower().replace("-", "-no-")).strip("-")
