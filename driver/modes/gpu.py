"""The devices of one GPU: what it could publish, what the policies offer of that, and what can be in use at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from driver.api.gpu_policies import GpuMode, GpuPolicy
from driver.layout.offers import gpu_offer
from driver.model.devices import DeviceName, Gpu
from driver.model.pci import PciePath

__all__ = ["GpuChoices", "GpuState", "gpu_choices"]

_GPUS: Final = 1024
_ALL_MODES: Final = GpuPolicy()
_NONE: Final[frozenset[DeviceName]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuChoices:
    """What of one GPU could be published.

    Attributes:
        gpu: The GPU's name.
        every: The names of all devices, whatever the policies say.
        partitions: Those of them that are MIG partitions.
        offered: Those that the policies offer: in the order of the policies' modes, then of allocation.
        consumed: What each device consumes of the GPU's counters.
        totals: How much there is of each counter; none where all devices can be in use at once.
    """

    gpu: DeviceName
    every: frozenset[DeviceName]
    partitions: frozenset[DeviceName]
    offered: tuple[DeviceName, ...]
    consumed: Mapping[DeviceName, Mapping[str, int]]
    totals: Mapping[str, int]

    def fit(self, names: Collection[DeviceName]) -> bool:
        """Return whether these devices can all be in use at once; one that the GPU does not have fits with nothing."""
        if not self.every.issuperset(names):
            return False
        used = Counter[str]()
        for name in set(names):
            used.update(self.consumed[name])
        return all(amount <= self.totals[counter] for counter, amount in used.items())

    def fitting(self, names: Iterable[DeviceName], beside: Collection[DeviceName] = _NONE) -> frozenset[DeviceName]:
        """Return those of the devices that can be in use at once, the first ones first.

        Args:
            names: The devices in the order of preference; those that the policies do not offer are passed over.
            beside: Devices that have to fit as well.
        """
        offered = set(self.offered)
        wanted = [name for name in names if name in offered]
        if self.fit({*beside, *wanted}):  # as it nearly always is
            return frozenset(wanted)
        chosen: set[DeviceName] = set()
        for name in wanted:
            if self.fit({*beside, *chosen, name}):
                chosen.add(name)
        return frozenset(chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """What there is of one GPU at the moment, by the names of its devices.

    Attributes:
        choices: What there could be.
        opened: The devices that are published, and that can be allocated.
        closed: The devices that are published with the taint that keeps them from being allocated.
        in_use: The devices that claims have.
        wish: The devices that pending claims need; none for no wish.
        is_healthy: Whether nothing but claims and this driver's own changes keeps it from being allocated.
    """

    choices: GpuChoices
    opened: frozenset[DeviceName] = _NONE
    closed: frozenset[DeviceName] = _NONE
    in_use: frozenset[DeviceName] = _NONE
    wish: frozenset[DeviceName] = _NONE
    is_healthy: bool = True


def gpu_choices(gpu: Gpu, policy: GpuPolicy) -> GpuChoices:
    """Return what of a GPU could be published.

    Args:
        gpu: The GPU.
        policy: The rules for it.
    """
    # Only what decides: GPUs of equal nodes have one answer.
    return _choices(replace(gpu, pcie=PciePath(), index=0, minor=None, uuid=None, links=()), policy.modes)


@lru_cache(maxsize=_GPUS)
def _choices(gpu: Gpu, modes: tuple[GpuMode, ...]) -> GpuChoices:
    every = gpu_offer(gpu, _ALL_MODES)
    partitions = {partition.name: partition for partition in every.partitions}
    by_mode: dict[GpuMode, tuple[DeviceName, ...]] = {
        "gpu": (gpu.name,) if every.is_whole else (),
        "gpu-ratio": (every.ratio.name,) if every.ratio is not None else (),
        "mig": tuple(partitions),
    }
    names = [name for names in by_mode.values() for name in names]
    counters = every.counters
    return GpuChoices(
        gpu=gpu.name,
        every=frozenset(names),
        partitions=frozenset(partitions),
        offered=tuple(name for mode in modes for name in by_mode[mode]),
        consumed={
            name: {}
            if counters is None
            else counters.of_partition(partitions[name])
            if name in partitions
            else counters.of_all
            for name in names
        },
        totals={} if counters is None else counters.totals,
    )
