"""Reads with NVML how GPUs are at one moment.

Each GPU and each fact is read on its own, so that what one GPU does not answer costs nothing else.

Source of every call, number and error: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pynvml

from driver.adapters.nvml.device import device_at
from driver.adapters.nvml.session import NvmlCallError, NvmlReader
from driver.health.readings import GpuReading, RecoveryAction, Slowdown
from driver.model.devices import Gpu

__all__ = ["read_gpu_health"]

# By number: older releases of the binding lack the newest names. 5 and 6 (the IMEX domain, a bus reset) become
# OTHER, for nvidia-smi shows what they call for; 7 is a reboot of the system.
_RECOVERY_ACTIONS: Final = {
    0: RecoveryAction.NONE,
    1: RecoveryAction.GPU_RESET,
    2: RecoveryAction.NODE_REBOOT,
    3: RecoveryAction.DRAIN_P2P,
    4: RecoveryAction.DRAIN_AND_RESET,
    7: RecoveryAction.NODE_REBOOT,
}
_SLOWDOWNS: Final = {
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: Slowdown.THERMAL,
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: Slowdown.POWER_BRAKE,
}


def read_gpu_health(gpus: Sequence[Gpu]) -> tuple[GpuReading, ...]:
    """Read the health of NVIDIA GPUs, within :func:`driver.adapters.nvml.session.session`.

    No GPU raises an error: a fact that NVML does not have is None, and a GPU that cannot be read is ``lost`` or
    ``not_answering``.

    Args:
        gpus: GPUs of this machine, found by their PCI address; those of other vendors are left out.

    Returns:
        The readings, in the order of ``gpus``.
    """
    return tuple(_read(gpu) for gpu in gpus if gpu.vendor == "nvidia")


def _read(gpu: Gpu) -> GpuReading:
    reader = NvmlReader(gpu.name)
    try:
        reader.bind(device_at(gpu.address))
    except NvmlCallError as error:
        if error.code == pynvml.NVML_ERROR_GPU_IS_LOST:
            return GpuReading(device=gpu.name, lost=True)
        return GpuReading(device=gpu.name, not_answering=str(error))
    reading = _ask(gpu, reader)
    if reader.lost:
        return GpuReading(device=gpu.name, lost=True)
    if reader.notes and reading == GpuReading(device=gpu.name):
        # A GPU that needs a reset has a handle, and refuses everything else.
        return GpuReading(device=gpu.name, not_answering=reader.notes[0].removeprefix(f"{reader.subject}: "))
    return reading


def _ask(gpu: Gpu, reader: NvmlReader) -> GpuReading:
    rows = reader.read(pynvml.nvmlDeviceGetRemappedRows)
    utilization = reader.read(pynvml.nvmlDeviceGetUtilizationRates)
    milliwatts = reader.read(pynvml.nvmlDeviceGetPowerUsage)
    return GpuReading(
        device=gpu.name,
        recovery_action=_recovery_action(reader),
        uncorrected_errors=_ecc_errors(reader, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        corrected_errors=_ecc_errors(reader, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        retired_pages_pending=_true(reader.read(pynvml.nvmlDeviceGetRetiredPagesPendingStatus)),
        remapping_pending=None if rows is None else bool(rows[2]),
        remapping_failed=None if rows is None else bool(rows[3]),
        slowdowns=_slowdowns(reader),
        utilization=None if utilization is None else int(utilization.gpu),
        memory_used_bytes=_memory_used(reader),
        temperature_celsius=_temperature(reader),
        power_watts=None if milliwatts is None else milliwatts / 1000,
    )


def _recovery_action(reader: NvmlReader) -> RecoveryAction | None:
    values: Any = reader.read(pynvml.nvmlDeviceGetFieldValues, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    # Each value has its own error: an older driver does not know the field, and the call succeeds.
    if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return _RECOVERY_ACTIONS.get(values[0].value.uiVal, RecoveryAction.OTHER)


def _ecc_errors(reader: NvmlReader, kind: int) -> int | None:
    return reader.read(pynvml.nvmlDeviceGetTotalEccErrors, kind, pynvml.NVML_VOLATILE_ECC)


def _slowdowns(reader: NvmlReader) -> frozenset[Slowdown]:
    # Drivers before 535 know the call by its older name.
    reasons = reader.read(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if reasons is None:
        reasons = reader.read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    return frozenset(slowdown for bit, slowdown in _SLOWDOWNS.items() if (reasons or 0) & bit)


def _memory_used(reader: NvmlReader) -> int | None:
    # Without what the driver keeps for itself; drivers before 510 lack the second version, and count that in.
    for version in ((pynvml.nvmlMemory_v2,), ()):
        info = reader.read(pynvml.nvmlDeviceGetMemoryInfo, *version)
        if info is not None:
            return int(info.used)
    return None


def _temperature(reader: NvmlReader) -> int | None:
    # Older drivers lack the first; the second is deprecated, and will be gone in CUDA 14.
    for function in (pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature):
        degrees = reader.read(function, pynvml.NVML_TEMPERATURE_GPU)
        if degrees is not None:
            return int(degrees)
    return None


def _true(value: int | None) -> bool | None:
    return None if value is None else value == pynvml.NVML_FEATURE_ENABLED
