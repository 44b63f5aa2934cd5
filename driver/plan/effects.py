"""What preparing a claim does to the node beside writing files: as data, so that it can be journalled and undone.

An effect is written down before it is begun, and forgotten after it is undone. Doing one twice, or undoing what was
never done, changes nothing. Claims may have an equal effect: it is done for the first and undone after the last.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["CreateMigDevice", "Effect", "LeaveMigMode", "RunMpsDaemon", "SetTimeSlice", "TimeSliceInterval"]

TimeSliceInterval: TypeAlias = Literal["Default", "Short", "Medium", "Long"]
"""``nvidia-smi compute-policy --set-timeslice``: 0, 1, 2, 3."""


class _Effect(BaseModel):
    """An effect on one GPU.

    Attributes:
        gpu: The whole GPU's name in the pool, such as ``gpu-0000-1b-00-0``.
        uuid: The GPU's UUID: NVIDIA's tools and NVML name it so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    gpu: str
    uuid: str


class CreateMigDevice(_Effect):
    """Make a MIG device: MIG mode on, a GPU instance at a place, a compute instance that has all of it.

    Undone, both instances are gone; and MIG mode is off again when no instance is left on the GPU.

    Attributes:
        profile_id: NVML's number of the GPU instance's profile.
        profile: Its name, such as ``1g.10gb``, for messages.
        start: The placement's first memory slice.
        size: The placement's number of memory slices.
    """

    kind: Literal["CreateMigDevice"] = "CreateMigDevice"
    profile_id: int
    profile: str
    start: int
    size: int


class LeaveMigMode(_Effect):
    """Switch MIG mode off, which an administrator has left on: CUDA does not work on the whole GPU in it.

    There is nothing to undo: the next MIG device switches it on.
    """

    kind: Literal["LeaveMigMode"] = "LeaveMigMode"


class SetTimeSlice(_Effect):
    """Set the GPU's time slice. Undone, it is the driver's default again.

    Attributes:
        interval: How long a slice is.
    """

    kind: Literal["SetTimeSlice"] = "SetTimeSlice"
    interval: TimeSliceInterval


class RunMpsDaemon(_Effect):
    """Run an MPS control daemon for the GPU, whose compute mode is then EXCLUSIVE_PROCESS.

    Undone, the daemon is stopped and the compute mode is DEFAULT.

    Attributes:
        folder: The host's folder of the daemon's pipe and log folders: ``<runtime root>/mps/<gpu>``.
    """

    kind: Literal["RunMpsDaemon"] = "RunMpsDaemon"
    folder: str


Effect: TypeAlias = Annotated[CreateMigDevice | LeaveMigMode | SetTimeSlice | RunMpsDaemon, Field(discriminator="kind")]
