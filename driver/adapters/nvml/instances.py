"""Lists the MIG instances that a GPU has now: GPU instances, compute instances, and the MIG devices' UUIDs.

A MIG device is a GPU instance together with a compute instance in it. Those that Rootport makes have one compute
instance that spans the GPU instance; :func:`spanning_profiles` returns the profiles of such.

Every function raises :class:`driver.adapters.nvml.session.NvmlCallError` if NVML does not answer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from driver.adapters.nvml.session import ABSENT_NUMBER, NvmlCallError, call
from driver.model.devices import MigPlacement

__all__ = [
    "ComputeInstance",
    "GpuInstance",
    "all_compute_instances",
    "compute_instances",
    "gpu_instances",
    "mig_device_uuid",
    "profile_infos",
    "spanning_profiles",
]

# A GPU has at most eight memory slices, a GPU instance at most eight compute slices. NVML writes as many handles as
# there are, into an array whose length it does not know.
_ROOM: Final = 64

# An instance or a MIG device that was destroyed while it was read.
_GONE: Final = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstance:
    """A GPU instance that exists.

    Attributes:
        handle: NVML's handle, valid in this process's session.
        id: NVML's id on its GPU.
    """

    handle: Any
    id: int
    placement: MigPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstance:
    """A compute instance that exists.

    Attributes:
        handle: NVML's handle, valid in this process's session.
        id: NVML's id in its GPU instance.
    """

    handle: Any
    id: int


def profile_infos(device: object) -> Iterator[Any]:
    """Yield NVML's data of each GPU instance profile of a GPU (nvmlGpuInstanceProfileInfo_v2_t)."""
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            yield call(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, device, number)
        except NvmlCallError as error:
            if error.code not in ABSENT_NUMBER:
                raise


def gpu_instances(device: object, profile_id: int) -> tuple[GpuInstance, ...]:
    """Return the GPU instances of one profile, by placement. The GPU must be in MIG mode."""
    count, handles = ctypes.c_uint(), (pynvml.c_nvmlGpuInstance_t * _ROOM)()
    call(pynvml.nvmlDeviceGetGpuInstances, device, profile_id, handles, ctypes.byref(count))
    found = []
    for handle in handles[: count.value]:
        try:
            info = call(pynvml.nvmlGpuInstanceGetInfo, handle)
        except NvmlCallError as error:
            if error.code not in _GONE:
                raise
            continue
        placement = MigPlacement(start=info.placement.start, size=info.placement.size)
        found.append(GpuInstance(handle=handle, id=info.id, placement=placement))
    return tuple(sorted(found, key=lambda instance: instance.placement.start))


def spanning_profiles(instance: GpuInstance, slices: int) -> tuple[int, ...]:
    """Return the ids of the compute instance profiles that span a GPU instance, the default one first.

    Args:
        instance: The GPU instance.
        slices: The compute slices of its profile.
    """
    found = [info for info in _compute_profiles(instance) if info.sliceCount == slices]
    # Of the profiles with as many slices, the one with the most multiprocessors is nvidia-smi's default, and of those
    # the one with the lowest number (NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE before 7_SLICE_NVL). sort() is stable.
    found.sort(key=lambda info: -info.multiprocessorCount)
    return tuple(info.id for info in found)


def compute_instances(instance: GpuInstance, profile_id: int) -> tuple[ComputeInstance, ...]:
    """Return the compute instances of one profile in a GPU instance."""
    count, handles = ctypes.c_uint(), (pynvml.c_nvmlComputeInstance_t * _ROOM)()
    function = pynvml.nvmlGpuInstanceGetComputeInstances
    call(function, instance.handle, profile_id, handles, ctypes.byref(count))
    found = []
    for handle in handles[: count.value]:
        try:
            info = call(pynvml.nvmlComputeInstanceGetInfo, handle)
        except NvmlCallError as error:
            if error.code not in _GONE:
                raise
            continue
        found.append(ComputeInstance(handle=handle, id=info.id))
    return tuple(sorted(found, key=lambda compute: compute.id))


def all_compute_instances(instance: GpuInstance) -> tuple[ComputeInstance, ...]:
    """Return the compute instances of every profile in a GPU instance."""
    profiles = dict.fromkeys(info.id for info in _compute_profiles(instance))
    return tuple(found for profile in profiles for found in compute_instances(instance, profile))


def mig_device_uuid(device: object, gpu_instance: int, compute_instance: int) -> str | None:
    """Return the UUID of the MIG device made of the two instances; None if NVML lists no such device."""
    for index in range(call(pynvml.nvmlDeviceGetMaxMigDeviceCount, device)):
        try:
            mig = call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, device, index)
            ids = (call(pynvml.nvmlDeviceGetGpuInstanceId, mig), call(pynvml.nvmlDeviceGetComputeInstanceId, mig))
            if ids == (gpu_instance, compute_instance):
                uuid: str = call(pynvml.nvmlDeviceGetUUID, mig)
                return uuid
        except NvmlCallError as error:
            # MIG devices are numbered with gaps.
            if error.code not in _GONE:
                raise
    return None


def _compute_profiles(instance: GpuInstance) -> Iterator[Any]:
    shared = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            yield call(pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, instance.handle, number, shared)
        except NvmlCallError as error:
            if error.code not in ABSENT_NUMBER:
                raise
