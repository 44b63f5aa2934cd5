"""What a reading of a GPU, and an error that NVIDIA's driver reported, mean for the GPU's health.

Two kinds of faults. A *state* is there as long as readings show it: :func:`gpu_faults`. An *error* is reported once, by
an event; whether it is over is for :func:`xid_is_over`. What one reading cannot show (growth of a counter, whether a
state returned, how long it has been away) is the engine's.

Sources: the states are what nvml.h documents of each value; errors as in :mod:`driver.health.xids`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from driver.health.readings import GpuReading, RecoveryAction, Slowdown, XidEvent
from driver.health.xids import Remedy, Xid, xid
from driver.model.health import Effect, Fault

__all__ = [
    "QUIET",
    "SETTLED",
    "gpu_faults",
    "needs_second_reading",
    "without_consequences",
    "xid_fault",
    "xid_is_over",
]

QUIET: Final = timedelta(minutes=5)
"""An error that needs no action, or only a restart of the application, is over when it did not come again
for so long."""

SETTLED: Final = timedelta(seconds=30)
"""How long after an error the driver's "no action" is believed: the driver concludes some time after the error."""

_LOST: Final = "GpuLost"
_RECOVERY_NEEDED: Final = "RecoveryNeeded"
_SLOWDOWNS: Final = {
    Slowdown.THERMAL: (
        "ThermalSlowdown",
        "it is too hot, and its clocks are held down: see the cooling of the node",
    ),
    Slowdown.POWER_BRAKE: (
        "PowerBrakeSlowdown",
        "the power supply asks for less, and its clocks are held down: see the power supplies of the node",
    ),
}
_RECOVERY: Final = {
    RecoveryAction.GPU_RESET: "end what uses it, then reset it with `nvidia-smi --gpu-reset`",
    RecoveryAction.NODE_REBOOT: "drain and reboot the node",
    RecoveryAction.DRAIN_P2P: "end all work of GPUs that talk to it; the driver then says what else is needed",
    RecoveryAction.DRAIN_AND_RESET: (
        "it works with less than it has; let what uses it end, then reset it with `nvidia-smi --gpu-reset`"
    ),
    RecoveryAction.OTHER: "see `nvidia-smi -q` on the node",
}
_XID: Final = re.compile(r"Xid([0-9]{1,9})")


def gpu_faults(reading: GpuReading, now: datetime) -> tuple[Fault, ...]:
    """Return the states that a reading shows, each with ``since=now``; one that was there before keeps its own time.

    GpuLost evicts; GpuNotAnswering, RecoveryNeeded and RowRemapFailure keep new work away; RetiredPagesPending,
    RowRemapPending, ThermalSlowdown and PowerBrakeSlowdown are only reported. A lost GPU, or one that does not answer,
    shows nothing else.

    Args:
        reading: The GPU's.
        now: In UTC.
    """
    return tuple(
        Fault(device=reading.device, reason=reason, effect=effect, since=now.replace(microsecond=0), message=message)
        for reason, effect, message in _states(reading)
    )


def needs_second_reading(fault: Fault) -> bool:
    """Whether two readings in a row must show the state before it counts: clocks are held down for moments as well."""
    return fault.reason in {reason for reason, _ in _SLOWDOWNS.values()}


def xid_fault(event: XidEvent) -> Fault | None:
    """Return the fault that an error makes, ``Xid79`` for 79, with ``since=event.at``.

    None for an error that is not the GPU's (an application's), and for an event without a device: give each
    GPU that it counts for an event of its own.
    """
    known = xid(event.xid)
    if event.device is None or known.effect is None:
        return None
    return Fault(
        device=event.device,
        reason=f"Xid{event.xid}",
        effect=known.effect,
        since=event.at.replace(microsecond=0),
        message=f"NVIDIA's driver reported Xid {event.xid}, {known.name}: {known.action}",
    )


def xid_is_over(
    fault: Fault, reading: GpuReading | None, *, last_event: datetime, was_absent: bool, now: datetime
) -> bool | None:
    """Whether an error that :func:`xid_fault` reported is over.

    - A GPU that is lost or does not answer has recovered from nothing.
    - One that was lost or gone since the error, and answers, has been reset: the error is over.
    - What is only reported (Effect.NONE) is over when it did not come again for QUIET.
    - Else the driver's word counts, where it gives one: over when it needs no action, though not before SETTLED.
    - Without the driver's word, an error that the application had to be restarted for is over after QUIET. One that
      needs a reset never ends by mere time.

    Args:
        fault: One of :func:`xid_fault`.
        reading: The GPU's latest, taken after ``last_event``; None without one.
        last_event: When the driver reported this error last for this GPU, in UTC.
        was_absent: Whether the GPU was lost or not there at some time after ``last_event``.
        now: In UTC.

    Returns:
        True: it is over. False: it is not, or not yet. None: no reading shows it; a reboot of the node, or an
        administrator's word, ends it.
    """
    if reading is None or reading.lost or reading.not_answering:
        return False
    if was_absent:
        return True
    quiet = now - last_event >= QUIET
    known = _known(fault)
    if fault.effect is Effect.NONE:
        return quiet
    if reading.recovery_action is not None:
        return reading.recovery_action is RecoveryAction.NONE and now - last_event >= SETTLED
    if known is not None and known.remedy in (Remedy.NOTHING, Remedy.RESTART_APPLICATION):
        return quiet
    return None


def without_consequences(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the faults, in their order, without those that another fault of the same device explains.

    RecoveryNeeded is what the driver concludes from an error: where the device has an Xid fault that is at least as
    severe, that one has more detail.
    """
    found = tuple(faults)
    explained = {
        (error.device, effect)
        for error in found
        if _XID.fullmatch(error.reason)
        for effect in Effect
        if error.effect.rank <= effect.rank
    }
    return tuple(
        fault for fault in found if fault.reason != _RECOVERY_NEEDED or (fault.device, fault.effect) not in explained
    )


def _states(reading: GpuReading) -> Iterator[tuple[str, Effect, str]]:
    if reading.lost:
        yield (
            _LOST,
            Effect.NO_EXECUTE,
            "NVML says that the GPU is lost: it has fallen off the bus; see dmesg on the node, then reboot the node",
        )
        return
    if reading.not_answering:
        hint = "see `nvidia-smi` and dmesg on the node"
        yield "GpuNotAnswering", Effect.NO_SCHEDULE, f"NVML cannot be asked about it: {reading.not_answering}; {hint}"
        return
    action = reading.recovery_action
    if action is not None and action is not RecoveryAction.NONE:
        message = f"NVIDIA's driver says that it needs to be recovered ({action}): {_RECOVERY[action]}"
        yield _RECOVERY_NEEDED, Effect.NO_SCHEDULE, message
    if reading.remapping_failed:
        yield (
            "RowRemapFailure",
            Effect.NO_SCHEDULE,
            "rows of its memory could not be remapped, for the spare rows are used up: have the GPU replaced",
        )
    if reading.remapping_pending:
        yield (
            "RowRemapPending",
            Effect.NONE,
            "rows of its memory wait to be remapped: reset it with `nvidia-smi --gpu-reset` when nothing uses it",
        )
    if reading.retired_pages_pending:
        yield (
            "RetiredPagesPending",
            Effect.NONE,
            "pages of its memory wait to be retired: reset it with `nvidia-smi --gpu-reset` when nothing uses it",
        )
    for slowdown in sorted(reading.slowdowns):
        reason, message = _SLOWDOWNS[slowdown]
        yield reason, Effect.NONE, message


def _known(fault: Fault) -> Xid | None:
    number = _XID.fullmatch(fault.reason)
    return xid(int(number[1])) if number else None
