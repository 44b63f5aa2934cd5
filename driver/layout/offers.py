"""In which ways each GPU is on offer: whole, by percent, by MIG partition; and why not in the others.

Each GPU is judged by itself: one that NVML describes badly loses its partitions, and no other GPU loses anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from driver.api.gpu_modes import ALL_MODES, GpuMode
from driver.api.validation.names import label
from driver.layout.counters import GpuCounters, fit_together, mig_counters, scarce_things, slice_count, whole_counters
from driver.layout.limits import COUNTERS_PER_SET
from driver.layout.partition_order import partitions_in_order
from driver.layout.values import identifier
from driver.model.devices import DeviceName, DeviceType, Gpu
from driver.model.parts import GpuRatio, MigPartition, gpu_parts, has_static_layout, mig_mode_is_fixed
from driver.model.pci import PciAddress, PciePath

__all__ = ["MOST_PARTITIONS", "GpuOffer", "all_modes", "gpu_offer", "memory_of"]

MOST_PARTITIONS: Final = 64
"""Of one GPU. No GPU has as many (an H100 has 25); NVML that lists more is broken, and a slice holds no more."""

_INT64: Final = 2**63 - 1
_KINDS_OF_GPUS: Final = 256
_DIGITS: Final = str.maketrans("123456789abcdef", "0" * 15)
_PARTITIONED: Final = "an administrator has partitioned it: its MIG partitions are published instead"
_PARTITIONED_ODDLY: Final = "an administrator has partitioned it in a way that cannot be published"
_IN_MIG_MODE: Final = "MIG mode is on, and NVML reports no partition that could be given"
_IN_FIXED_MODE: Final = (
    "MIG mode is on, and a GPU older than Hopper stays in it: its MIG partitions are published instead"
)
_POLICY: Final = "the GpuPolicies do not offer it whole"
_NO_MODE: Final = "the GpuPolicies offer it in no way that it can be given"
_STATIC_POLICY: Final = "an administrator has partitioned it, and the GpuPolicies do not offer MIG partitions of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOffer:
    """In which ways a GPU is on offer, or those of them that are published.

    Attributes:
        gpu: The GPU.
        is_whole: Whether the GPU itself is.
        ratio: Its percent device; None where that is not.
        partitions: Its partitions, in the order in which they are published.
        counters: What makes these exclude each other; None where all of them can be in use at once.
        left_out: Why something is not on offer: by the GPU's name, or, of its partitions, by the beginning of theirs.
    """

    gpu: Gpu
    is_whole: bool
    ratio: GpuRatio | None
    partitions: tuple[MigPartition, ...]
    counters: GpuCounters | None
    left_out: tuple[tuple[DeviceName, str], ...]

    def __bool__(self) -> bool:
        return bool(self.is_whole or self.ratio or self.partitions)

    @property
    def names(self) -> frozenset[DeviceName]:
        """The names of all its devices."""
        names = {partition.name for partition in self.partitions}
        if self.is_whole:
            names.add(self.gpu.name)
        if self.ratio is not None:
            names.add(self.ratio.name)
        return frozenset(names)

    def only(self, names: Collection[DeviceName]) -> GpuOffer:
        """Return the offer with these devices alone, and with the counters that they need among themselves."""
        is_whole = self.is_whole and self.gpu.name in names
        ratio = self.ratio if self.ratio is not None and self.ratio.name in names else None
        partitions = tuple(partition for partition in self.partitions if partition.name in names)
        counters = _counters(partitions, self.partitions, modes=is_whole + (ratio is not None))
        return replace(self, is_whole=is_whole, ratio=ratio, partitions=partitions, counters=counters)


def gpu_offer(gpu: Gpu, modes: Collection[GpuMode]) -> GpuOffer:
    """Return the ways in which a GPU is on offer.

    Args:
        gpu: The GPU.
        modes: The modes that its policy offers.
    """
    # A cluster has a few kinds of GPUs, and what distinguishes one from the next makes no difference here.
    zeros = PciAddress(gpu.address.translate(_DIGITS))
    kind = replace(gpu, address=zeros, pcie=PciePath(), index=0, minor=None, uuid=None, links=())
    offer = _offer(kind, frozenset(modes))
    of_kind, of_gpu = kind.name.removeprefix(DeviceType.GPU), gpu.name.removeprefix(DeviceType.GPU)
    return replace(
        offer,
        gpu=gpu,
        ratio=None if offer.ratio is None else GpuRatio(gpu=gpu),
        partitions=tuple(_of(gpu, partition) for partition in offer.partitions),
        left_out=tuple((DeviceName(name.replace(of_kind, of_gpu, 1)), reason) for name, reason in offer.left_out),
    )


def all_modes(gpu: Gpu) -> GpuOffer:
    """Return the offer of a GPU if its policy offered it in every mode that its hardware has."""
    return gpu_offer(gpu, ALL_MODES)


def memory_of(gpu: Gpu) -> int | None:
    """Return the card's memory in bytes; None where it is not known, or no amount that Kubernetes could hold."""
    memory = gpu.memory_bytes
    return memory if memory is not None and 0 < memory <= _INT64 else None


@lru_cache(maxsize=_KINDS_OF_GPUS)
def _offer(gpu: Gpu, modes: frozenset[GpuMode]) -> GpuOffer:
    parts = tuple(gpu_parts(gpu))
    found = tuple(part for part in parts if isinstance(part, MigPartition))
    odd = _odd(found) if found else None
    wants_partitions = "mig" in modes
    partitions = partitions_in_order(found) if odd is None and wants_partitions else ()
    left_out = [(_partitions_of(gpu), odd)] if odd is not None and wants_partitions else []
    in_the_way = _in_the_way(gpu, modes, has_usable_partitions=bool(found) and odd is None)
    is_whole = in_the_way is None and "gpu" in modes
    ratio = next((part for part in parts if isinstance(part, GpuRatio)), None)
    if in_the_way is not None or "gpu-ratio" not in modes or memory_of(gpu) is None:
        ratio = None
    if in_the_way is not None:
        left_out.append((gpu.name, in_the_way))
    elif not is_whole:
        left_out.append((gpu.name, _POLICY if ratio or partitions else _NO_MODE))
    return GpuOffer(
        gpu=gpu,
        is_whole=is_whole,
        ratio=ratio,
        partitions=partitions,
        counters=_counters(partitions, partitions, modes=is_whole + (ratio is not None)),
        left_out=tuple(left_out),
    )


def _of(gpu: Gpu, partition: MigPartition) -> MigPartition:
    return MigPartition(
        gpu=gpu,
        profile=partition.profile,
        placement=partition.placement,
        label=partition.label,
        instance=partition.instance,
    )


def _in_the_way(gpu: Gpu, modes: frozenset[GpuMode], *, has_usable_partitions: bool) -> str | None:
    """Return why the GPU can be given neither whole nor by percent, whatever the rules allow."""
    if has_static_layout(gpu):
        if "mig" not in modes:
            return _STATIC_POLICY
        return _PARTITIONED if has_usable_partitions else _PARTITIONED_ODDLY
    # NVIDIA MIG User Guide: with MIG mode on, no CUDA work runs on the GPU outside of its partitions. Where partitions
    # are known, Rootport switches the mode itself, if it can.
    if gpu.mig is None or not gpu.mig.enabled:
        return None
    if not has_usable_partitions:
        return _IN_MIG_MODE
    if not mig_mode_is_fixed(gpu.cuda_compute_capability):
        return None
    return _IN_FIXED_MODE if "mig" in modes else _NO_MODE


def _counters(partitions: Sequence[MigPartition], every: Sequence[MigPartition], *, modes: int) -> GpuCounters | None:
    """Return what makes devices of a GPU exclude each other: partitions, and so many ways to give all of it."""
    if not partitions:
        return whole_counters() if modes > 1 else None
    # Those of a static layout are there all at once.
    if has_static_layout(partitions[0].gpu) or (not modes and fit_together(partitions, scarce_things(every))):
        return None
    return mig_counters(partitions, every)


def _odd(partitions: Sequence[MigPartition]) -> str | None:
    """Return what keeps these partitions from being published."""
    if len(partitions) > MOST_PARTITIONS:
        return f"NVML lists {len(partitions)} MIG placements, at most {MOST_PARTITIONS} are possible"
    for partition in partitions:
        profile, place = partition.profile, partition.placement
        if place.start < 0 or place.size < 1 or place.start + place.size > COUNTERS_PER_SET:
            return f"NVML reports an impossible MIG placement: {place.size} memory slices from {place.start}"
        amounts = (
            profile.multiprocessors, profile.compute_slices, profile.copy_engines, profile.decoders, profile.encoders,
            profile.jpeg_engines, profile.ofa_engines,
        )  # fmt: skip
        if not 1 <= profile.memory_bytes <= _INT64 or profile.max_instances < 1 or min(amounts) < 0:
            return "NVML reports an impossible MIG profile"
        if max(amounts) * profile.max_instances > _INT64:
            return "NVML reports an impossible MIG profile"
        if identifier(profile.name) is None or not partition.label or any(label("", partition.name)):
            return "a MIG profile has no name that a device could have"
    times = Counter(partition.name for partition in partitions)
    numbers = {partition.profile for partition in partitions}
    if max(times.values()) > 1 or len({profile.profile_id for profile in numbers}) < len(numbers):
        return "NVML lists a MIG profile or placement twice"
    gpu = partitions[0].gpu
    if not has_static_layout(gpu):
        needed = mig_counters(partitions).totals
        if len(needed) > COUNTERS_PER_SET or any(error for name in needed for error in label("", name)):
            return f"its {slice_count(numbers)} memory slices and its engines need more counters than a slice holds"
    return None


def _partitions_of(gpu: Gpu) -> DeviceName:
    return DeviceName(gpu.name.replace(DeviceType.GPU, DeviceType.MIG, 1))
