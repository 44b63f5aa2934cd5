"""Decides what is wrong with a node's devices, out of readings, reported errors and what is remembered of both.

Nothing here reads hardware or a clock. A *state* is a fault while readings show it, and for a while longer
(:mod:`driver.health.flapping`). An *error* (an Xid) is reported once; it is a fault until it is known to be over
(:func:`driver.health.gpu_rules.xid_is_over`), never because time went by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from driver.health.fault_history import FaultHistory, KnownFault
from driver.health.flapping import Damping, not_seen, not_shown, seen
from driver.health.gpu_rules import gpu_faults, needs_second_reading, without_consequences, xid_fault, xid_is_over
from driver.health.rdma_rules import NicHistory, nic_faults
from driver.health.readings import GpuReading, NicReading, XidEvent
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory

__all__ = ["HealthEngine"]

_ECC_UNCORRECTED: Final = "EccUncorrected"
_MAX_ERRORS: Final = 32
"""Different errors of one GPU that are remembered; the oldest of the mildest beyond that are forgotten."""

# What a lost GPU, or one that does not answer, shows; all else is not known then.
_UNREACHABLE: Final = frozenset({"GpuLost", "GpuNotAnswering"})


class HealthEngine:
    """The health of one node's devices. For one thread at a time.

    Args:
        history: What is remembered of this boot.
        damping: How long states are held.
    """

    def __init__(self, history: FaultHistory, damping: Damping | None = None) -> None:
        self._damping = damping or Damping()
        self._boot_id = history.boot_id
        self._faults: dict[tuple[DeviceName, str], KnownFault] = {(f.device, f.reason): f for f in history.faults}
        self._away: dict[DeviceName, datetime] = dict(history.away)
        self._nics = NicHistory(history.downs)
        self._latest = history.latest()
        self._gpu_readings: dict[DeviceName, GpuReading] = {}
        self._nic_readings: dict[DeviceName, NicReading] = {}

    def history(self) -> FaultHistory:
        """Return what is to be remembered."""
        return FaultHistory(
            boot_id=self._boot_id,
            faults=tuple(known for _, known in sorted(self._faults.items())),
            away=dict(sorted(self._away.items())),
            downs=self._nics.downs(),
        )

    def adopt(self, history: FaultHistory, now: datetime) -> None:
        """Take over the errors that another instance received, which this one may have started too late to receive.

        Args:
            history: The other's. What it has of a clock that was ahead is left out.
            now: The time, in UTC.
        """
        for found in history.faults:
            key = found.device, found.reason
            known = self._faults.get(key)
            if found.xid is not None and found.last <= now and (known is None or known.last < found.last):
                self._faults[key] = found if known is None else replace(found, since=known.since)
                self._forget_surplus(found.device)
        for device, at in history.away.items():
            if at <= now:
                self._away[device] = max(at, self._away.get(device, at))

    def observe(
        self,
        inventory: Inventory,
        now: datetime,
        *,
        certain: bool = True,
        gpus: Sequence[GpuReading] | None = None,
        nics: Sequence[NicReading] | None = None,
        events: Sequence[XidEvent] = (),
        failures: Sequence[Fault] = (),
        recovered: Mapping[DeviceName, datetime] | None = None,
    ) -> NodeHealth:
        """Record what was seen, and return what is wrong.

        Args:
            inventory: What the node has.
            now: The time, in UTC.
            certain: Whether the inventory is all there is; else a device that it lacks may be there.
            gpus: New readings of the GPUs; None where they were not read now.
            nics: New readings of the NICs; None likewise.
            events: The errors that were reported since the last call.
            failures: What else was found wrong: states that no reading shows, so that they are over once they have been
                held.
            recovered: Until when an administrator has seen to a device's errors.

        Returns:
            The health of the devices of the inventory; faults by device and reason.
        """
        self._take_clock(now)
        present = {device.name for device in inventory.devices()}
        if certain:
            self._take_absent(present, now)
        for event in events:
            self._report(event, [gpu.name for gpu in inventory.gpus if gpu.vendor == "nvidia"])
        if gpus is not None:
            self._gpu_readings = {reading.device: reading for reading in gpus if reading.device in present}
            for reading in self._gpu_readings.values():
                self._take_gpu(reading, now)
        if nics is not None:
            self._nic_readings = {reading.device: reading for reading in nics if reading.device in present}
            for nic in self._nic_readings.values():
                self._take_nic(nic, now)
        for fault in map(_clean, failures):
            key = (fault.device, fault.reason)
            self._faults[key] = seen(fault, self._faults.get(key), now)
        self._end_errors(recovered or {}, now, read=gpus is not None)
        return self.health(present)

    def health(self, present: Iterable[DeviceName]) -> NodeHealth:
        """Return what is known of these devices."""
        devices = frozenset(present)
        by_device: defaultdict[DeviceName, list[Fault]] = defaultdict(list)
        for (device, _), known in sorted(self._faults.items()):
            if known.is_reported and device in devices:
                by_device[device].append(known.fault)
        faults = tuple(fault for found in by_device.values() for fault in without_consequences(found))
        watched = (self._gpu_readings.keys() | self._nic_readings.keys()) & devices
        return NodeHealth(watched=frozenset(watched), faults=faults)

    def _take_clock(self, now: datetime) -> None:
        """Move all that is remembered back with the clock: else it would count for as long as that was ahead."""
        if self._latest is not None and (by := self._latest - now) > timedelta():
            self._faults = {key: known.moved_back(by, now) for key, known in self._faults.items()}
            self._away = {device: at - by for device, at in self._away.items()}
            self._nics.move_back(by)
        self._latest = now

    def _report(self, event: XidEvent, gpus: Sequence[DeviceName]) -> None:
        for device in gpus if event.device is None else [event.device]:
            fault = xid_fault(replace(event, device=device))
            if fault is None:
                continue
            known = self._faults.get((device, fault.reason))
            fault = _clean(fault)
            self._faults[device, fault.reason] = KnownFault(
                device=device,
                reason=fault.reason,
                effect=fault.effect,
                since=known.since if known else fault.since,
                message=fault.message,
                xid=event.xid,
                last=event.at,
            )
            self._forget_surplus(device)

    def _forget_surplus(self, device: DeviceName) -> None:
        errors = [known for known in self._faults.values() if known.device == device and known.xid is not None]
        errors.sort(key=lambda known: (known.effect.rank, -known.last.timestamp()))
        for known in errors[_MAX_ERRORS:]:
            del self._faults[device, known.reason]

    def _take_absent(self, present: Collection[DeviceName], now: datetime) -> None:
        """End the states of devices that are gone. Their errors stay until they are back: they were reset by then."""
        for key, known in list(self._faults.items()):
            if known.device in present:
                continue
            if known.xid is None:
                del self._faults[key]
            else:
                self._away[known.device] = now

    def _take_gpu(self, reading: GpuReading, now: datetime) -> None:
        if reading.lost:
            self._away[reading.device] = now
        shown = [_clean(fault) for fault in (*gpu_faults(reading, now), *_ecc(reading, now))]
        silent = reading.lost or bool(reading.not_answering)
        self._take_states(reading.device, shown, now, silent=silent)

    def _take_nic(self, reading: NicReading, now: datetime) -> None:
        self._nics.take(reading, now)
        shown = [_clean(fault) for fault in nic_faults(reading, self._nics, now)]
        self._take_states(reading.device, shown, now, silent=not reading.ports)

    def _take_states(self, device: DeviceName, shown: Sequence[Fault], now: datetime, *, silent: bool) -> None:
        reasons = {fault.reason for fault in shown}
        for fault in shown:
            key = (device, fault.reason)
            needed = 2 if needs_second_reading(fault) else 1
            self._faults[key] = seen(_whole_seconds(fault), self._faults.get(key), now, needed=needed)
        for key, known in list(self._faults.items()):
            if known.device != device or known.xid is not None or known.reason in reasons:
                continue
            if silent and known.reason not in _UNREACHABLE:
                self._faults[key] = not_shown(known)
            elif (kept := not_seen(known, self._damping, now)) is not None:
                self._faults[key] = kept
            else:
                del self._faults[key]

    def _end_errors(self, recovered: Mapping[DeviceName, datetime], now: datetime, *, read: bool) -> None:
        for key, known in list(self._faults.items()):
            if known.xid is None:
                continue
            until = recovered.get(known.device)
            away = self._away.get(known.device)
            if (until is not None and known.last <= until) or xid_is_over(
                known.fault,
                # A reading from before the error would say that all is well.
                self._gpu_readings.get(known.device) if read else None,
                last_event=known.last,
                was_absent=away is not None and away > known.last,
                now=now,
            ):
                del self._faults[key]
        troubled = {device for device, _ in self._faults}
        self._away = {device: at for device, at in self._away.items() if device in troubled}


def _whole_seconds(fault: Fault) -> Fault:
    return replace(fault, since=fault.since.astimezone(UTC).replace(microsecond=0))


def _ecc(reading: GpuReading, now: datetime) -> Iterator[Fault]:
    """Yield the fault of uncorrected errors since the driver was loaded: a reset of the GPU sets the count to zero."""
    if reading.uncorrected_errors:
        yield Fault(
            device=reading.device,
            reason=_ECC_UNCORRECTED,
            effect=Effect.NONE,
            since=now,
            # Without the count: a message that changes would be a write each time.
            message="memory errors that ECC could not correct have occurred since the GPU's last reset: reset it when "
            "it is idle; have it exchanged if they go on",
        )


def _clean(fault: Fault) -> Fault:
    """Return the fault as the API server takes it: one printable line, and a time of whole seconds."""
    line = "".join(char if char.isprintable() else " " for char in fault.message)
    return replace(_whole_seconds(fault), message=" ".join(line.split()))
