"""Which devices of a GPU could be published, by mode, and which of them can be in use at once.

The modes of a GPU exclude each other, and so do partitions that overlap or together want more of something than the GPU
has. Where not everything is published at once, what is published is chosen by what this module says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from driver.api.gpu_modes import GpuMode
from driver.api.gpu_policies import GpuPolicy
from driver.layout.counters import Scarce, fit_together, scarce_things
from driver.layout.offers import GpuOffer, all_modes
from driver.model.devices import DeviceName, Gpu
from driver.model.parts import MigPartition, has_static_layout

__all__ = ["GpuModes", "gpu_modes"]

_GPU: Final[GpuMode] = "gpu"
_RATIO: Final[GpuMode] = "gpu-ratio"
_MIG: Final[GpuMode] = "mig"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModes:
    """The devices that one GPU could publish, by mode.

    Attributes:
        gpu: The GPU's name.
        offered: The devices of each mode that the policies offer and the GPU can have, in the policies' order of modes;
            partitions in the order in which they are published. Empty where the GPU cannot be given.
        possible: The mode of every device that the GPU could publish if the policies offered every mode: what is in use
            is one of these, whatever the policies have become.
    """

    gpu: DeviceName
    offered: Mapping[GpuMode, tuple[DeviceName, ...]]
    possible: Mapping[DeviceName, GpuMode]
    _partitions: Mapping[DeviceName, MigPartition]
    _scarce: tuple[Scarce, ...]

    @property
    def names(self) -> tuple[DeviceName, ...]:
        """All devices that the policies offer, in the order of :attr:`offered`."""
        return tuple(name for names in self.offered.values() for name in names)

    def mode_of(self, device: DeviceName) -> GpuMode | None:
        """Return the mode that a device belongs to; None where the GPU could not publish it."""
        return self.possible.get(device)

    def fit(self, devices: Collection[DeviceName]) -> bool:
        """Return whether some devices can all be in use at once, so that they need no counters.

        More than whether any two of them can: three partitions may want more engines than the GPU has, though any
        two of them would have enough.

        Args:
            devices: Some of :attr:`possible`; what is not one of these is passed over.
        """
        chosen = {name for name in devices if name in self.possible}
        partitions = [self._partitions[name] for name in chosen if name in self._partitions]
        if len(partitions) < len(chosen):
            return len(chosen) == 1
        if not partitions or has_static_layout(partitions[0].gpu):
            return True
        return fit_together(partitions, self._scarce)


def gpu_modes(gpu: Gpu, policy: GpuPolicy) -> GpuModes:
    """Return what a GPU could publish.

    Args:
        gpu: The GPU.
        policy: The rules for it.
    """
    offer = all_modes(gpu)
    by_mode = _by_mode(offer)
    return GpuModes(
        gpu=gpu.name,
        offered={mode: by_mode[mode] for mode in policy.modes if by_mode[mode]},
        possible={name: mode for mode, names in by_mode.items() for name in names},
        _partitions={partition.name: partition for partition in offer.partitions},
        _scarce=scarce_things(offer.partitions),
    )


def _by_mode(offer: GpuOffer) -> dict[GpuMode, tuple[DeviceName, ...]]:
    return {
        _GPU: (offer.gpu.name,) if offer.is_whole else (),
        _RATIO: () if offer.ratio is None else (offer.ratio.name,),
        _MIG: tuple(partition.name for partition in offer.partitions),
    }
