"""How a claim uses a GPU: what decides who else may use it at the same time."""

from __future__ import annotations

from dataclasses import dataclass

from driver.model.devices import DeviceName, DeviceType, MigPlacement

__all__ = ["GpuUse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """One claim's use of one GPU by one allocation result.

    Attributes:
        gpu: The whole GPU's name in the pool, whatever part of it was allocated.
        mode: GPU (whole, or a share by bytes), GPU_RATIO (a share by percent of memory) or MIG.
        whole: Whether the claim takes all of the GPU's core: nobody else can be given a share of it.
        sharing: The sharing strategy with the settings that all users of one GPU must agree on, such as
            ``timeSlicing interval=Default``; empty for MIG.
        core: Percent of the GPU's core, 1 to 100; None for MIG.
        memory_bytes: Memory in bytes, whichever way it was asked for; None where the GPU's is not known.
        placement: Of a MIG partition, its place.
        gpu_memory_bytes: All of the GPU's memory in bytes; None where it is not known.
    """

    gpu: DeviceName
    mode: DeviceType
    whole: bool
    sharing: str
    core: int | None
    memory_bytes: int | None
    placement: MigPlacement | None = None
    gpu_memory_bytes: int | None = None
