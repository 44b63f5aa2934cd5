"""Readings of a node's devices, for their health and for metrics. All of it may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from driver.model.devices import DeviceName

__all__ = ["GpuReading", "NicReading", "PortReading", "RecoveryAction", "Slowdown", "XidEvent"]


class RecoveryAction(StrEnum):
    """The recovery that NVIDIA's driver asks for (nvmlDeviceGpuRecoveryAction_t of nvml.h, since driver branch 565)."""

    NONE = "none"
    GPU_RESET = "gpu-reset"
    NODE_REBOOT = "node-reboot"
    DRAIN_P2P = "drain-p2p"
    DRAIN_AND_RESET = "drain-and-reset"
    OTHER = "other"
    """One of a newer driver, that this version does not know."""


class Slowdown(StrEnum):
    """Why a GPU's clocks are held down by hardware (nvml.h: nvmlClocksEventReason*)."""

    THERMAL = "thermal"
    """HW thermal slowdown: the GPU is too hot."""

    POWER_BRAKE = "power-brake"
    """HW power brake: an external signal, usually of the power supply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """What NVML reports of a GPU at one moment; None where it does not report it.

    Attributes:
        device: The GPU's name in the pool.
        lost: Whether NVML answers "GPU is lost": it has fallen off the bus.
        not_answering: Why NVML could not be asked about the GPU at all; empty where it could.
        recovery_action: The recovery that the driver asks for.
        uncorrected_errors: ECC errors that could not be corrected, since the driver was loaded (volatile).
        corrected_errors: ECC errors that were corrected, likewise.
        retired_pages_pending: Whether memory pages wait for a reset to be retired (Volta and older).
        remapping_pending: Whether memory rows wait for a reset to be remapped (Ampere and newer).
        remapping_failed: Whether remapping of rows has failed: the spare rows are used up.
        slowdowns: Why hardware holds the clocks down.
        utilization: Percent of the time in which a kernel ran.
        memory_used_bytes: Bytes of memory in use.
        temperature_celsius: Of the GPU, in degrees Celsius.
        power_watts: Drawn by the board, in watts.
    """

    device: DeviceName
    lost: bool = False
    not_answering: str = ""
    recovery_action: RecoveryAction | None = None
    uncorrected_errors: int | None = None
    corrected_errors: int | None = None
    retired_pages_pending: bool | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    slowdowns: frozenset[Slowdown] = frozenset()
    utilization: int | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """An error that NVIDIA's driver reported.

    Attributes:
        device: The GPU's name in the pool; None where NVML did not report which: it counts for all.
        xid: The error's number.
        at: When it was reported, in UTC.
    """

    device: DeviceName | None
    xid: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReading:
    """What sysfs shows of an RDMA port at one moment.

    Attributes:
        number: From 1.
        state: As the kernel reports it: ``active``, ``down``, ``init``, ``armed``; None where it does not.
        counters: Error counters of ``ports/N/counters`` and ``ports/N/hw_counters``, by their names in sysfs.
    """

    number: int
    state: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NicReading:
    """What sysfs shows of a NIC at one moment.

    Attributes:
        device: The NIC's name in the pool.
        ports: Its ports, by number; none while its RDMA device is in a pod's network namespace.
    """

    device: DeviceName
    ports: tuple[PortReading, ...] = ()
