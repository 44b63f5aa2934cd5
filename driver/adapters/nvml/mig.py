"""Creates and destroys MIG devices through NVML. Needs root.

Every function is idempotent, also after a crash at any instruction: what exists already is used or completed, what is
gone already is fine. No other process may change the same GPU meanwhile.

MIG mode is switched on with the first MIG device of a GPU and off with the last. From Hopper on that takes no reset of
the GPU. On Ampere it does, which other users of the GPU prevent, so there the mode is left as it is (NVIDIA
Multi-Instance GPU User Guide, "Enable MIG Mode"; :func:`driver.model.parts.mig_mode_is_fixed`).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any, Final

import pynvml

from driver.adapters.host import HostRoot
from driver.adapters.nvml.device import DEFAULT_HINT, HINTS, NO_GPU, device_at, nvml_error
from driver.adapters.nvml.instances import (
    GpuInstance,
    all_compute_instances,
    compute_instances,
    gpu_instances,
    profile_infos,
    spanning_profiles,
)
from driver.adapters.nvml.partitions import mig_instance, mig_profile
from driver.adapters.nvml.session import ABSENT, ABSENT_NUMBER, NvmlCallError, call, session
from driver.errors import NodeError
from driver.model.devices import MigInstance, MigPlacement, MigProfile
from driver.model.parts import mig_mode_is_fixed
from driver.model.pci import PciAddress

__all__ = ["create_mig_device", "destroy_mig_device", "leave_mig_mode", "refuse_others"]

_LOG: Final = logging.getLogger(__name__)
_Undo = list[tuple[str, Callable[[], None]]]

_OFF: Final = pynvml.NVML_DEVICE_MIG_DISABLE
_ON: Final = pynvml.NVML_DEVICE_MIG_ENABLE


def create_mig_device(
    address: PciAddress, *, profile_id: int, start: int, size: int, capabilities: HostRoot
) -> MigInstance:
    """Create a MIG device: MIG mode on, a GPU instance at a placement, a compute instance that spans it.

    An existing one is returned, and a GPU instance without a compute instance is completed. After an error what this
    call has done is undone, and the message names what could not be.

    Args:
        address: The GPU's address.
        profile_id: NVML's number of the GPU instance's profile.
        start: The placement's first memory slice.
        size: The placement's number of memory slices.
        capabilities: The folder with this machine's ``proc``, where the driver names the instances' device nodes.

    Raises:
        NodeError: NVML failed; the message says how, and what helps.
    """
    undo: _Undo = []
    with session():
        try:
            made = _create(address, profile_id, MigPlacement(start=start, size=size), capabilities, undo)
        except (NvmlCallError, NodeError, UnicodeDecodeError) as error:
            what = f"GPU {address}: no MIG device of profile {profile_id} can be made at memory slice {start}"
            raise nvml_error(what, error, _roll_back(undo)) from error
    _LOG.info("MIG device ready", extra={"gpu": address, "profile": profile_id, "start": start, "uuid": made.uuid})
    return made


def destroy_mig_device(address: PciAddress, *, profile_id: int, start: int, size: int) -> None:
    """Destroy what :func:`create_mig_device` creates, also in part; MIG mode off after the last GPU instance.

    A GPU instance that is divided into several compute instances, or has one of a part of it, is an administrator's and
    stays.

    If MIG mode cannot be switched off without a reset of the GPU it stays on: that is logged and no error, for a retry
    would never help. A GPU that is no longer there, or lost, has no MIG devices.

    Args:
        address: The GPU's address.
        profile_id: NVML's number of the GPU instance's profile.
        start: The placement's first memory slice.
        size: The placement's number of memory slices.

    Raises:
        NodeError: NVML failed; the message says how, and what helps. The instances may be gone already.
    """
    what = f"GPU {address}: the MIG device of profile {profile_id} at memory slice {start} cannot be destroyed"
    with session():
        try:
            device = device_at(address)
            current, pending = call(pynvml.nvmlDeviceGetMigMode, device)
            left = False
            if current == _ON:
                for instance in _at(device, profile_id, MigPlacement(start=start, size=size)):
                    if not _is_like_ours(instance, _profile(device, profile_id)):
                        # The failed attempt to make one there is undone as well.
                        _LOG.warning(
                            "a GPU instance with compute instances that Rootport did not make is left as it is",
                            extra={"gpu": address, "profile": profile_id, "start": start},
                        )
                        continue
                    _destroy(instance)
                left = any(gpu_instances(device, info.id) for info in profile_infos(device))
            what = f"GPU {address}: MIG mode cannot be switched off after the last MIG device was destroyed"
            if not left and _ON in (current, pending) and not _mode_is_fixed(device):
                _switch_off(address, device)
        except NvmlCallError as error:
            if error.code in NO_GPU:
                _LOG.warning("the GPU of a MIG device is gone, and so is that", extra={"gpu": address, "error": error})
            elif error.code not in ABSENT:
                raise nvml_error(what, error) from error


def refuse_others(address: PciAddress, *, profile_id: int, start: int, size: int) -> None:
    """Refuse a placement where a GPU instance of this profile exists that Rootport did not create.

    :func:`create_mig_device` would take it for its own, and it would be destroyed with the claim.

    Args:
        address: The GPU's address.
        profile_id: NVML's number of the GPU instance's profile.
        start: The placement's first memory slice.
        size: The placement's number of memory slices.

    Raises:
        NodeError: There is such an instance, or NVML failed; the message says what helps.
    """
    what = f"GPU {address}: no MIG device of profile {profile_id} can be made at memory slice {start}"
    with session():
        try:
            device = device_at(address)
            if _ON in call(pynvml.nvmlDeviceGetMigMode, device) and _at(
                device, profile_id, MigPlacement(start=start, size=size)
            ):
                raise NodeError(
                    f"{what}: somebody else has made one there",
                    hint=HINTS[pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES],
                )
        except NvmlCallError as error:
            raise nvml_error(what, error) from error


def leave_mig_mode(address: PciAddress) -> None:
    """Switch MIG mode off if the GPU has no GPU instance: CUDA cannot use the whole GPU otherwise.

    Args:
        address: The GPU's address.

    Raises:
        NodeError: There are instances, or NVML failed; the message says what helps.
    """
    what = f"GPU {address}: MIG mode is on, and cannot be switched off"
    with session():
        try:
            device = device_at(address)
            if _ON not in call(pynvml.nvmlDeviceGetMigMode, device):
                return
            if any(gpu_instances(device, info.id) for info in profile_infos(device)):
                raise NodeError(
                    f"{what}: it has GPU instances",
                    hint="`nvidia-smi mig -lgi` lists them; those that Rootport did not make, `nvidia-smi mig -dgi` "
                    "destroys",
                )
            if _mode_is_fixed(device):
                raise NodeError(f"{what} without a reset of the GPU", hint=HINTS[pynvml.NVML_ERROR_RESET_REQUIRED])
            _require(_set_mode(device, _OFF))
        except NvmlCallError as error:
            if error.code not in ABSENT:
                raise nvml_error(what, error) from error


def _create(address: PciAddress, profile_id: int, placement: MigPlacement, proc: HostRoot, undo: _Undo) -> MigInstance:
    _switch_on(address, undo)
    device = device_at(address)
    profile = _profile(device, profile_id)
    instance = _gpu_instance(device, profile_id, placement, undo)
    minor = call(pynvml.nvmlDeviceGetMinorNumber, device)
    made = mig_instance(device, profile, instance, minor, proc)
    if made is None:
        _add_compute_instance(instance, profile, undo)
        made = mig_instance(device, profile, instance, minor, proc)
    if made is None:
        raise NodeError("the compute instance that was made has not all of the GPU instance", hint=DEFAULT_HINT)
    return made


def _profile(device: object, profile_id: int) -> MigProfile:
    for info in profile_infos(device):
        if info.id == profile_id:
            return mig_profile(info)
    raise NodeError("NVML lists no such profile on this GPU", hint="`nvidia-smi mig -lgip` on the node lists them")


def _at(device: object, profile_id: int, placement: MigPlacement) -> tuple[GpuInstance, ...]:
    """Return the GPU instance of this profile at this placement, one or none."""
    try:
        found = gpu_instances(device, profile_id)
    except NvmlCallError as error:
        if error.code in ABSENT_NUMBER:
            return ()
        raise
    return tuple(instance for instance in found if instance.placement == placement)


def _gpu_instance(device: object, profile_id: int, placement: MigPlacement, undo: _Undo) -> GpuInstance:
    for instance in _at(device, profile_id, placement):
        return instance
    wanted = ctypes.byref(pynvml.c_nvmlGpuInstancePlacement_t(start=placement.start, size=placement.size))
    handle = call(pynvml.nvmlDeviceCreateGpuInstanceWithPlacement, device, profile_id, wanted)
    undo.append(("the GPU instance", lambda: _quietly(pynvml.nvmlGpuInstanceDestroy, handle)))
    info = call(pynvml.nvmlGpuInstanceGetInfo, handle)
    return GpuInstance(handle=handle, id=info.id, placement=placement)


def _add_compute_instance(instance: GpuInstance, profile: MigProfile, undo: _Undo) -> None:
    if all_compute_instances(instance):
        raise NodeError(
            f"GPU instance {instance.id} is there and has compute instances that Rootport did not make",
            hint="`nvidia-smi mig -lci` lists them, and `nvidia-smi mig -dci` destroys them",
        )
    spanning = spanning_profiles(instance, profile.compute_slices)
    if not spanning:
        raise NodeError("no compute instance profile has all of the GPU instance", hint="see `nvidia-smi mig -lcip`")
    handle = call(pynvml.nvmlGpuInstanceCreateComputeInstance, instance.handle, spanning[0])
    undo.append(("the compute instance", lambda: _quietly(pynvml.nvmlComputeInstanceDestroy, handle)))


def _is_like_ours(instance: GpuInstance, profile: MigProfile) -> bool:
    """Whether it has one compute instance that spans it, or none yet: an administrator may have divided it."""
    compute = {found.id for found in all_compute_instances(instance)}
    if not compute:
        return True
    spanning = spanning_profiles(instance, profile.compute_slices)
    return compute == {found.id for number in spanning for found in compute_instances(instance, number)}


def _destroy(instance: GpuInstance) -> None:
    for compute in all_compute_instances(instance):
        call(pynvml.nvmlComputeInstanceDestroy, compute.handle)
    call(pynvml.nvmlGpuInstanceDestroy, instance.handle)


def _switch_on(address: PciAddress, undo: _Undo) -> None:
    # The handle is for this alone: a switch may unbind the GPU or reset it.
    device = device_at(address)
    current, pending = call(pynvml.nvmlDeviceGetMigMode, device)
    if current == pending == _ON:
        return
    if _mode_is_fixed(device):
        raise NodeError(
            "MIG mode is off, and on this GPU it changes with a reset only",
            hint=HINTS[pynvml.NVML_ERROR_RESET_REQUIRED],
        )
    if pending == _OFF and current == _OFF:
        # Noted before it is done, since the pending mode changes where the current one cannot.
        undo.append(("MIG mode", lambda: _require(_set_mode(device_at(address), _OFF))))
    _require(_set_mode(device, _ON))


def _mode_is_fixed(device: object) -> bool:
    major, minor = call(pynvml.nvmlDeviceGetCudaComputeCapability, device)
    return mig_mode_is_fixed(f"{major}.{minor}")


def _switch_off(address: PciAddress, device: object) -> None:
    status = _set_mode(device, _OFF)
    if status != pynvml.NVML_ERROR_RESET_REQUIRED:
        _require(status)
        return
    _set_mode(device, _ON)  # else the GPU would lose its next MIG devices with the next reset
    _LOG.warning("MIG mode stays on, since this GPU needs a reset to switch it off", extra={"gpu": address})


def _set_mode(device: object, mode: int) -> int:
    """Set the pending MIG mode; return what NVML says of its activation."""
    status: int = call(pynvml.nvmlDeviceSetMigMode, device, mode)
    return status


def _require(activation: int) -> None:
    if activation != pynvml.NVML_SUCCESS:
        raise NvmlCallError("MIG mode is not activated", pynvml.NVMLError(activation))


def _quietly(function: Callable[[Any], object], handle: object) -> None:
    call(function, handle)


def _roll_back(undo: _Undo) -> str:
    """Undo the steps, the last one first, up to one that fails; return what is left."""
    while undo:
        what, act = undo.pop()
        try:
            act()
        except NvmlCallError as error:
            left = ", ".join([what, *(name for name, _ in reversed(undo))])
            return f"; then this could not be undone: {left}: {error}"
    return ""
