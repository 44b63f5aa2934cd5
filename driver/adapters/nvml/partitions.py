"""Reads how MIG can partition a GPU, and how it does now, through NVML.

Profiles and placements are known whether MIG mode is on or off: nvmlDeviceGetGpuInstancePossiblePlacements_v2 "returns
all the possible placements for the given profile regardless of whether MIG is enabled or not" (NVML API reference).
Instances exist in MIG mode only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

from driver.adapters.host import HostRoot
from driver.adapters.nvml.instances import (
    GpuInstance,
    compute_instances,
    gpu_instances,
    mig_device_uuid,
    spanning_profiles,
)
from driver.adapters.nvml.mig_capabilities import capability_minors
from driver.adapters.nvml.session import ABSENT, ABSENT_NUMBER, NvmlCallError, NvmlReader
from driver.errors import NodeError
from driver.model.devices import MigInstance, MigPlacement, MigProfile, MigSupport
from driver.model.pci import PciAddress

__all__ = ["LeftOutPartition", "mig_instance", "mig_profile", "read_mig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutPartition:
    """A GPU instance that exists and is not a MIG device that a claim can use.

    Attributes:
        gpu: The GPU's address.
        profile_id: NVML's number of the GPU instance's profile.
        start: The first memory slice of its placement; None if NVML does not list the instances of the profile.
        note: The reason, in one sentence that names the GPU.
    """

    gpu: PciAddress
    profile_id: int
    start: int | None
    note: str


def read_mig(
    reader: NvmlReader, address: PciAddress, minor: int | None, proc: HostRoot | None
) -> tuple[MigSupport | None, tuple[LeftOutPartition, ...]]:
    """Return what NVML reports about MIG on one GPU, and the instances that are left out.

    Args:
        reader: Reads that GPU, and collects the notes.
        address: The GPU's address.
        minor: The GPU's minor number; None if NVML does not report it.
        proc: The folder that contains ``proc``; None if there is none.
    """
    mode = reader.read(pynvml.nvmlDeviceGetMigMode)
    if mode is None:
        return None, ()
    current, pending = (value == pynvml.NVML_DEVICE_MIG_ENABLE for value in mode)
    if current != pending:
        switched = {True: "on", False: "off"}
        reader.note(f"MIG mode is {switched[current]} and will be {switched[pending]} after a reset of the GPU")
    supported = (_profile(reader, number) for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT))
    profiles = tuple(profile for profile in supported if profile is not None)
    found = tuple(_instances(reader, address, profiles, minor, proc)) if current else ()
    return (
        MigSupport(
            enabled=current,
            profiles=profiles,
            instances=tuple(instance for instance in found if isinstance(instance, MigInstance)),
        ),
        tuple(partition for partition in found if isinstance(partition, LeftOutPartition)),
    )


def mig_instance(
    device: object, profile: MigProfile, instance: GpuInstance, minor: int, proc: HostRoot
) -> MigInstance | None:
    """Return the MIG device that spans a GPU instance; None if no compute instance spans it.

    Args:
        device: NVML's handle of the GPU.
        profile: The profile of the GPU instance.
        instance: The GPU instance.
        minor: The GPU's minor number.
        proc: The folder that contains ``proc``.

    Raises:
        NvmlCallError: NVML does not answer.
        NodeError: There is a compute instance, and NVML or the driver does not report what belongs to it.
    """
    for profile_id in spanning_profiles(instance, profile.compute_slices):
        for compute in compute_instances(instance, profile_id):
            uuid = mig_device_uuid(device, instance.id, compute.id)
            if uuid is None:
                raise NodeError(
                    f"NVML lists no MIG device of GPU instance {instance.id} and compute instance {compute.id}",
                    hint="see `nvidia-smi -L` on the node",
                )
            gpu_minor, compute_minor = capability_minors(proc, minor, instance.id, compute.id)
            return MigInstance(
                profile_id=profile.profile_id,
                placement=instance.placement,
                gpu_instance=instance.id,
                compute_instance=compute.id,
                uuid=uuid,
                gpu_instance_minor=gpu_minor,
                compute_instance_minor=compute_minor,
            )
    return None


def _instances(
    reader: NvmlReader, address: PciAddress, profiles: tuple[MigProfile, ...], minor: int | None, proc: HostRoot | None
) -> Iterator[MigInstance | LeftOutPartition]:
    for profile in profiles:
        if reader.lost:
            return
        try:
            found = gpu_instances(reader.handle, profile.profile_id)
        except NvmlCallError as error:
            if error.code not in ABSENT:  # the error of a GPU whose MIG mode was switched off meanwhile
                if error.code == pynvml.NVML_ERROR_GPU_IS_LOST:
                    reader.lost = True
                note = f"{reader.subject}: the GPU instances {profile.name}, if there are any, are left out: {error}"
                yield LeftOutPartition(gpu=address, profile_id=profile.profile_id, start=None, note=note)
            continue
        for instance in found:
            yield _instance(reader, address, profile, instance, minor, proc)


def _instance(
    reader: NvmlReader,
    address: PciAddress,
    profile: MigProfile,
    instance: GpuInstance,
    minor: int | None,
    proc: HostRoot | None,
) -> MigInstance | LeftOutPartition:
    why = "it has no compute instance that has all of it"
    if minor is None or proc is None:
        why = "its device nodes are not known"
    else:
        try:
            made = mig_instance(reader.handle, profile, instance, minor, proc)
            if made is not None:
                return made
        except NvmlCallError as error:
            reader.lost = reader.lost or error.code == pynvml.NVML_ERROR_GPU_IS_LOST
            why = str(error)
        except NodeError as error:
            why = error.message
        except UnicodeDecodeError:
            why = "its UUID is not UTF-8"
    where = f"the GPU instance {profile.name} at memory slice {instance.placement.start} is left out"
    return LeftOutPartition(
        gpu=address,
        profile_id=profile.profile_id,
        start=instance.placement.start,
        note=f"{reader.subject}: {where}: {why}",
    )


def _profile(reader: NvmlReader, number: int) -> MigProfile | None:
    info: Any = reader.read(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, number, absent=ABSENT_NUMBER)
    if info is None:
        return None
    try:
        return mig_profile(info, _placements(reader, info.id))
    except UnicodeDecodeError:
        reader.note(f"MIG profile {info.id} is left out: its name is not UTF-8")
        return None


def mig_profile(info: Any, placements: tuple[MigPlacement, ...] = ()) -> MigProfile:
    """Return the profile in an nvmlGpuInstanceProfileInfo_v2_t.

    Raises:
        UnicodeDecodeError: Its name is not UTF-8.
    """
    name: str = info.name
    return MigProfile(
        name=name.removeprefix("MIG "),
        profile_id=info.id,
        compute_slices=info.sliceCount,
        memory_bytes=info.memorySizeMB << 20,  # MiB, unlike the field's name
        max_instances=info.instanceCount,
        placements=placements,
        multiprocessors=info.multiprocessorCount,
        copy_engines=info.copyEngineCount,
        decoders=info.decoderCount,
        encoders=info.encoderCount,
        jpeg_engines=info.jpegCount,
        ofa_engines=info.ofaCount,
    )


def _placements(reader: NvmlReader, profile_id: int) -> tuple[MigPlacement, ...]:
    # Without an array the call only counts. It needs root, else "Insufficient Permissions".
    possible = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    count = ctypes.c_uint()
    if reader.read(possible, profile_id, None, ctypes.byref(count)) is None:
        return ()
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    if reader.read(possible, profile_id, places, ctypes.byref(count)) is None:
        return ()
    return tuple(MigPlacement(start=place.start, size=place.size) for place in places[: count.value])
