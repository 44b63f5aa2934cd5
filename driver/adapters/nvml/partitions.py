"""How a GPU can be partitioned by MIG, and how it is now, as NVML tells it.

Profiles and placements are told whether MIG mode is on or off: nvmlDeviceGetGpuInstancePossiblePlacements_v2 "returns
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
from driver.adapters.nvml.session import ABSENT, ABSENT_NUMBER, Asker, NvmlCallError
from driver.errors import NodeError
from driver.model.devices import MigInstance, MigPlacement, MigProfile, MigSupport
from driver.model.pci import PciAddress

__all__ = ["LeftOutPartition", "mig_instance", "mig_profile", "read_mig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutPartition:
    """A GPU instance that exists and is no MIG device that can be given to somebody.

    Attributes:
        gpu: The GPU's address.
        profile_id: NVML's number of the GPU instance's profile.
        start: The first memory slice of its placement; None where NVML does not tell which instances of the profile
            there are.
        note: Why, in one sentence that names the GPU.
    """

    gpu: PciAddress
    profile_id: int
    start: int | None
    note: str


def read_mig(
    asker: Asker, address: PciAddress, minor: int | None, proc: HostRoot | None
) -> tuple[MigSupport | None, tuple[LeftOutPartition, ...]]:
    """What NVML says about MIG on one GPU, and the instances that are left out.

    Args:
        asker: Asks that GPU, and gets the notes.
        address: The GPU's.
        minor: The GPU's; None where NVML does not tell it.
        proc: Holds ``proc``; None where it is not there.
    """
    mode = asker.ask(pynvml.nvmlDeviceGetMigMode)
    if mode is None:
        return None, ()
    current, pending = (value == pynvml.NVML_DEVICE_MIG_ENABLE for value in mode)
    if current != pending:
        switched = {True: "on", False: "off"}
        asker.note(f"MIG mode is {switched[current]} and will be {switched[pending]} after a reset of the GPU")
    told = (_profile(asker, number) for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT))
    profiles = tuple(profile for profile in told if profile is not None)
    found = tuple(_instances(asker, address, profiles, minor, proc)) if current else ()
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
    """The MIG device that has all of a GPU instance; None where no compute instance has all of it.

    Args:
        device: NVML's handle of the GPU.
        profile: The GPU instance's.
        instance: The GPU instance.
        minor: The GPU's.
        proc: Holds ``proc``.

    Raises:
        NvmlCallError: NVML does not answer.
        NodeError: There is a compute instance, and NVML or the driver does not tell what belongs to it.
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
    asker: Asker, address: PciAddress, profiles: tuple[MigProfile, ...], minor: int | None, proc: HostRoot | None
) -> Iterator[MigInstance | LeftOutPartition]:
    for profile in profiles:
        if asker.lost:
            return
        try:
            found = gpu_instances(asker.handle, profile.profile_id)
        except NvmlCallError as error:
            if error.code not in ABSENT:  # that is what a GPU says whose MIG mode was switched off meanwhile
                if error.code == pynvml.NVML_ERROR_GPU_IS_LOST:
                    asker.lost = True
                note = f"{asker.subject}: the GPU instances {profile.name}, if there are any, are left out: {error}"
                yield LeftOutPartition(gpu=address, profile_id=profile.profile_id, start=None, note=note)
            continue
        for instance in found:
            yield _instance(asker, address, profile, instance, minor, proc)


def _instance(
    asker: Asker,
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
            made = mig_instance(asker.handle, profile, instance, minor, proc)
            if made is not None:
                return made
        except NvmlCallError as error:
            asker.lost = asker.lost or error.code == pynvml.NVML_ERROR_GPU_IS_LOST
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
        note=f"{asker.subject}: {where}: {why}",
    )


def _profile(asker: Asker, number: int) -> MigProfile | None:
    info: Any = asker.ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, number, absent=ABSENT_NUMBER)
    if info is None:
        return None
    try:
        return mig_profile(info, _placements(asker, info.id))
    except UnicodeDecodeError:
        asker.note(f"MIG profile {info.id} is left out: its name is not UTF-8")
        return None


def mig_profile(info: Any, placements: tuple[MigPlacement, ...] = ()) -> MigProfile:
    """The profile in an nvmlGpuInstanceProfileInfo_v2_t.

    Raises:
        UnicodeDecodeError: Its name is not UTF-8.
    """
    name: str = info.name
    return MigProfile(
        name=name.removeprefix("MIG "),
        profile_id=info.id,
        compute_slices=info.sliceCount,
        memory_bytes=info.memorySizeMB << 20,  # MiB, whatever the field's name says
        max_instances=info.instanceCount,
        placements=placements,
        multiprocessors=info.multiprocessorCount,
        copy_engines=info.copyEngineCount,
        decoders=info.decoderCount,
        encoders=info.encoderCount,
        jpeg_engines=info.jpegCount,
        ofa_engines=info.ofaCount,
    )


def _placements(asker: Asker, profile_id: int) -> tuple[MigPlacement, ...]:
    # Without an array the call only counts. It needs root, else "Insufficient Permissions".
    possible = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    count = ctypes.c_uint()
    if asker.ask(possible, profile_id, None, ctypes.byref(count)) is None:
        return ()
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    if asker.ask(possible, profile_id, places, ctypes.byref(count)) is None:
        return ()
    return tuple(MigPlacement(start=place.start, size=place.size) for place in places[: count.value])
