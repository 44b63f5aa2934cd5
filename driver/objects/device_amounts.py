"""Counts what a device has, what can be allocated of it, what is allocated, and what one more claim can get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from driver.api.gpu_modes import MOST_CORE
from driver.api.prepared_device import DeviceMode
from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import DeviceAmounts, DeviceFragment
from driver.model.devices import Device, Gpu, MigProfile, RdmaNic
from driver.model.parts import MigPartition, gpu_parts, has_static_layout, vf_pool
from driver.model.shares import LEAST_MEMORY, given_in_shares, largest_share

__all__ = [
    "NOT_OFFERED",
    "OFFERED",
    "DeviceOffer",
    "DeviceUse",
    "allocatable",
    "allocated",
    "capacity",
    "largest_free",
    "memory_allocated",
    "memory_left",
]

_ALL: Final = 100
_MEBI: Final = 20
_ZERO: Final = Quantity("0")
# What instances of profiles take beside memory slices. NVML does not report how much of it a GPU has: it has what as
# many instances of a profile as fit would have (as for the counters in the slices, driver.layout.counters).
_RESOURCES: Final[tuple[Callable[[MigProfile], int], ...]] = (
    lambda profile: profile.compute_slices,
    lambda profile: profile.multiprocessors,
    lambda profile: profile.copy_engines,
    lambda profile: profile.decoders,
    lambda profile: profile.encoders,
    lambda profile: profile.jpeg_engines,
    lambda profile: profile.ofa_engines,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOffer:
    """The ways in which a device is on offer; false where there are none.

    Attributes:
        whole: The device itself: whole or in shares.
        parts: A GPU's MIG partitions, or a NIC's virtual functions.
        most_shares: Into how many shares it can be divided; None where there is no such limit.
        core_total: Up to which sum the core of a GPU is promised to shares, in percent.
        core_least: The least core that a share of a GPU can have, in percent; 0 where it can have none.
        memory_least: The least memory that a share of a GPU can have, in bytes.
        memory_step: In which steps it can have more.
    """

    whole: bool
    parts: bool
    most_shares: int | None = None
    core_total: int = _ALL
    core_least: int = 0
    memory_least: int = LEAST_MEMORY
    memory_step: int = LEAST_MEMORY

    def is_all_memory(self, amount: int, whole: int) -> bool:
        """Whether who has an amount of a GPU's memory leaves no room for another share."""
        return amount >= largest_share(whole, minimum=self.memory_least, step=self.memory_step)

    def memory_for_shares(self, whole: int) -> int:
        """Return how much of a GPU's memory is given in shares by bytes."""
        return given_in_shares(whole, minimum=self.memory_least, step=self.memory_step)

    def __bool__(self) -> bool:
        return self.whole or self.parts


OFFERED: Final = DeviceOffer(whole=True, parts=True)
"""In every way that the device has."""

NOT_OFFERED: Final = DeviceOffer(whole=False, parts=False)
"""In none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What is allocated of a device.

    Attributes:
        mode: In which way; None while it is free.
        core: Percent of a GPU's core, without partitions; over 100 where it is promised more than once.
        memory: Bytes of a GPU's memory; None where that is not known.
        shares: How many claims' results have it or a part of it.
        partitions: The partitions of a GPU.
        bandwidth: Bits per second of a NIC; None for none, or where it is not known.
        bandwidth_ratio: Percent of a NIC's bandwidth, where its speed is not known; None otherwise, and for none.
        vfs: How many virtual functions of a NIC; None where it is not given by them.
    """

    mode: DeviceMode | None = None
    core: int = 0
    memory: int | None = 0
    shares: int = 0
    partitions: tuple[MigPartition, ...] = ()
    bandwidth: int | None = None
    bandwidth_ratio: int | None = None
    vfs: int | None = None


def capacity(device: Device) -> DeviceAmounts | None:
    """Return what a device has; None where it has nothing that is counted."""
    match device:
        case Gpu():
            return DeviceAmounts(core=_ALL, memory=memory_left(device.memory_bytes))
        case RdmaNic():
            bandwidth = Quantity.of(device.bandwidth) if device.bandwidth else None
            ratio = None if device.bandwidth else _ALL
            return DeviceAmounts(bandwidth=bandwidth, bandwidth_ratio=ratio, vfs=len(device.vfs) or None)
        case _:
            return None


def allocatable(device: Device, offer: DeviceOffer) -> DeviceAmounts | None:
    """Return what of its capacity can be given, in use or not; None where nothing of it is counted.

    Args:
        device: The device.
        offer: How it is on offer, which an unhealthy one is not.
    """
    has = capacity(device)
    if has is None:
        return None
    # Of a NIC's bandwidth the virtual functions of a pool can have all.
    has_pool = isinstance(device, RdmaNic) and offer.parts and vf_pool(device) is not None
    is_whole = bool(offer) if isinstance(device, Gpu) else offer.whole or has_pool
    vfs = sum(vf.device_nodes_known for vf in device.vfs) if isinstance(device, RdmaNic) else 0
    return DeviceAmounts(
        core=None if has.core is None else has.core * is_whole,
        memory=has.memory if is_whole or has.memory is None else _ZERO,
        bandwidth=has.bandwidth if is_whole or has.bandwidth is None else _ZERO,
        bandwidth_ratio=None if has.bandwidth_ratio is None else has.bandwidth_ratio * is_whole,
        vfs=None if has.vfs is None else vfs * offer.parts,
    )


def allocated(device: Device, use: DeviceUse) -> DeviceAmounts | None:
    """Return what is allocated; None for nothing, or where nothing of it is counted."""
    if use.mode is None:
        return None
    match device:
        case Gpu():
            core = use.core + _core_of(use.partitions, device)
            return DeviceAmounts(core=min(core, MOST_CORE), memory=memory_allocated(use.memory))
        case RdmaNic():
            bandwidth = None if use.bandwidth is None else Quantity.of(use.bandwidth)
            return _some(DeviceAmounts(bandwidth=bandwidth, bandwidth_ratio=use.bandwidth_ratio, vfs=use.vfs))
        case _:
            return None


def largest_free(device: Device, offer: DeviceOffer, use: DeviceUse) -> DeviceFragment | None:
    """Return the most that one more claim can get; None where nothing is left, or nothing of the device is counted."""
    if not offer:
        return None
    match device:
        case Gpu():
            return _of_gpu(device, offer, use)
        case RdmaNic():
            return _of_nic(device, offer, use)
        case _:
            return None


def memory_allocated(amount: int | None) -> Quantity | None:
    """Return bytes of allocated memory as a Device object has them: in whole mebibytes, rounded up."""
    return None if amount is None else Quantity.of(-(-amount >> _MEBI) << _MEBI, binary=True)


def memory_left(amount: int | None) -> Quantity | None:
    """Return bytes of memory that there are, or that are free: in whole mebibytes, rounded down."""
    return None if amount is None else Quantity.of(amount >> _MEBI << _MEBI, binary=True)


def _of_gpu(gpu: Gpu, offer: DeviceOffer, use: DeviceUse) -> DeviceFragment | None:
    if use.mode == "whole":
        return None
    if use.mode in ("shared", "ratio"):
        if not offer.whole or (offer.most_shares is not None and use.shares >= offer.most_shares):
            return None
        return _share_left(gpu, offer, use)
    profile = _largest_profile(gpu, use.partitions) if offer.parts else None
    if use.mode is None and offer.whole:
        return DeviceFragment(
            core=_ALL, memory=memory_left(gpu.memory_bytes), profile=profile.name if profile else None
        )
    return DeviceFragment(memory=memory_left(profile.memory_bytes), profile=profile.name) if profile else None


def _share_left(gpu: Gpu, offer: DeviceOffer, use: DeviceUse) -> DeviceFragment | None:
    if gpu.memory_bytes is None or use.memory is None:
        core = _ALL - use.core
        return DeviceFragment(core=core) if core > 0 else None
    core = max(min(offer.core_total - use.core, _ALL), 0)
    if use.mode == "ratio":
        left, least = gpu.memory_bytes - use.memory, 1
    else:
        left, least = offer.memory_for_shares(gpu.memory_bytes) - use.memory, offer.memory_least
    return DeviceFragment(core=core, memory=memory_left(left)) if left >= least and core >= offer.core_least else None


def _of_nic(nic: RdmaNic, offer: DeviceOffer, use: DeviceUse) -> DeviceFragment | None:
    if use.mode == "whole":
        return None
    vfs = sum(vf.device_nodes_known for vf in nic.vfs) - (use.vfs or 0)
    if nic.vfs and (vfs <= 0 or not offer.parts):
        return None
    if nic.vfs and vf_pool(nic) is None:
        return DeviceFragment(vfs=vfs)
    bandwidth = nic.bandwidth - (use.bandwidth or 0) if nic.bandwidth else None
    ratio = None if nic.bandwidth else _ALL - (use.bandwidth_ratio or 0)
    if not nic.vfs and (ratio if bandwidth is None else bandwidth) == 0:
        return None
    left = None if bandwidth is None else Quantity.of(bandwidth)
    return DeviceFragment(bandwidth=left, bandwidth_ratio=ratio, vfs=vfs if nic.vfs else None)


def _largest_profile(gpu: Gpu, used: Sequence[MigPartition]) -> MigProfile | None:
    if gpu.mig is None:
        return None
    if not used and not has_static_layout(gpu):  # as most are: without making every partition
        return max((profile for profile in gpu.mig.profiles if profile.placements), key=_size, default=None)
    parts = (part for part in gpu_parts(gpu) if isinstance(part, MigPartition))
    if has_static_layout(gpu):
        names = {part.name for part in used}
        return max((part.profile for part in parts if part.name not in names), key=_size, default=None)
    fitting = {profile.profile_id for profile in gpu.mig.profiles if _fits(profile, used, gpu.mig.profiles)}
    free = (
        part.profile
        for part in parts
        if part.profile.profile_id in fitting and not any(part.placement.overlaps(other.placement) for other in used)
    )
    return max(free, key=_size, default=None)


def _fits(profile: MigProfile, used: Sequence[MigPartition], profiles: Sequence[MigProfile]) -> bool:
    """Whether, memory slices apart, enough is left for one more instance of a profile."""
    if Counter(part.profile.profile_id for part in used)[profile.profile_id] >= profile.max_instances:
        return False
    return all(
        sum(amount(part.profile) for part in used) + amount(profile)
        <= max(amount(other) * other.max_instances for other in profiles)
        for amount in _RESOURCES
    )


def _core_of(partitions: Iterable[MigPartition], gpu: Gpu) -> int:
    """Return the percent of the core, in proportion to compute slices."""
    taken = sum(part.profile.compute_slices for part in partitions)
    profiles = gpu.mig.profiles if gpu.mig else ()
    there = max((profile.compute_slices * profile.max_instances for profile in profiles), default=0)
    return _ALL * taken // there if there else 0


def _size(profile: MigProfile) -> tuple[int, int, int]:
    return profile.memory_bytes, profile.compute_slices, profile.max_instances


def _some(amounts: DeviceAmounts) -> DeviceAmounts | None:
    return None if amounts == DeviceAmounts() else amounts
