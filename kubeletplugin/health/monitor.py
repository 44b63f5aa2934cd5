"""Computes the latest health of the node's devices from readings, reported errors and the history of faults.

Three threads use it, and none waits for another's hardware: one reads the GPUs (NVML may hang on a broken one), one
the NICs, one waits for the errors that NVIDIA's driver reports.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from driver.errors import RootportError
from driver.health.engine import HealthEngine
from driver.health.flapping import Damping
from driver.health.readings import GpuReading, NicReading, XidEvent
from driver.health.recovered import RECOVERED_ANNOTATION, read_recovered
from driver.model.devices import DeviceName, Gpu
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory
from kubeletplugin.health.fault_history_file import FaultHistoryFile
from kubeletplugin.health.hardware import HostReader
from kubeletplugin.internal_errors import guarded

__all__ = ["HealthMonitor"]

_LOG: Final = logging.getLogger(__name__)
_LATE_S: Final = 30.0
"""A reading of 16 GPUs takes well below a second, and some seconds where the driver is not kept loaded."""


class HealthMonitor:
    """Holds the latest health of the node's devices. Safe to use from any thread.

    Args:
        history: The history of faults, which outlives the process.
        inventory: Returns what the node has; None if that is not known yet.
        certain: Returns whether the inventory is complete.
        reader: Reads the devices.
        on_change: Called after the health has changed, without a lock held.
        damping: How long states are held.
        now: Returns the time.
        late_s: Seconds after which GPUs count as not answering, when a reading of them does not end.
    """

    def __init__(
        self,
        history: FaultHistoryFile,
        *,
        inventory: Callable[[], Inventory | None],
        certain: Callable[[], bool],
        reader: HostReader,
        on_change: Callable[[], None],
        damping: Damping | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        late_s: float = _LATE_S,
    ) -> None:
        self._history = history
        self._inventory = inventory
        self._certain = certain
        self._reader = reader
        self._on_change = on_change
        self._now = now
        self._late_s = late_s
        self._lock = threading.Lock()
        self._engine = HealthEngine(history.load(), damping)
        self._health = NodeHealth()
        self._gpus: tuple[GpuReading, ...] | None = None
        self._nics: tuple[NicReading, ...] | None = None
        self._reading_since: float | None = None
        self._recovered_text = ""
        self._recovered: Mapping[DeviceName, datetime] = {}

    def readings(self) -> tuple[tuple[GpuReading, ...], tuple[NicReading, ...]]:
        """Return the latest readings of GPUs and of NICs; empty before the first."""
        with self._lock:
            return self._gpus or (), self._nics or ()

    def health(self) -> NodeHealth:
        """Return the latest health; empty before the first reading or error."""
        with self._lock:
            return self._health

    def settled_health(self) -> NodeHealth | None:
        """Return the latest health; None until GPUs and NICs have been read once: what is published still counts."""
        with self._lock:
            return None if self._gpus is None or self._nics is None else self._health

    def nvidia_gpus(self) -> tuple[Gpu, ...]:
        """Return NVIDIA's GPUs, which NVML reports."""
        inventory = self._inventory()
        return tuple(gpu for gpu in inventory.gpus if gpu.vendor == "nvidia") if inventory else ()

    def read_gpus(self) -> None:
        """Read the GPUs and update their health.

        Raises:
            RootportError: The history could not be written; the health is updated all the same.
        """
        inventory = self._inventory()
        if inventory is None:
            return
        self._reading_since = time.monotonic()
        try:
            readings = self._reader.gpus(self.nvidia_gpus())
        finally:
            self._reading_since = None
        self._observe(inventory, gpus=readings)

    def read_nics(self) -> None:
        """Read the NICs and update their health, and that of GPUs whose reading does not end.

        Raises:
            RootportError: sysfs cannot be read, or as above.
        """
        inventory = self._inventory()
        if inventory is None:
            return
        since = self._reading_since
        late = None
        if since is not None and time.monotonic() - since > self._late_s:
            why = f"NVML has not answered for {self._late_s:g} s: see nvidia-smi and dmesg on the node"
            late = tuple(GpuReading(device=gpu.name, not_answering=why) for gpu in self.nvidia_gpus())
        self._observe(inventory, gpus=late, nics=self._reader.nics(inventory.nics))

    def take(self, events: Sequence[XidEvent]) -> None:
        """Update the health after errors that the driver reported.

        If they cannot be written down, the next reading tries again, and raises.
        """
        for (device, xid), times in Counter((event.device, event.xid) for event in events).items():
            fields = {"xid": xid, "device": device or "all", "times": times}
            _LOG.warning("NVIDIA's driver reported an error", extra=fields)
        inventory = self._inventory()
        if inventory is not None:
            with suppress(RootportError), guarded("health", "errors that NVIDIA's driver reported"):
                self._observe(inventory, events=events)

    def report(self, fault: Fault) -> None:
        """Update the health after a device has failed at what was asked of it.

        If that cannot be written down, the next reading tries again, and raises.
        """
        inventory = self._inventory()
        if inventory is not None:
            with suppress(RootportError), guarded("health", f"a failure of {fault.device}"):
                self._observe(inventory, failures=[fault])

    def recover(self, annotation: str) -> None:
        """Apply an administrator's annotation (:data:`driver.health.recovered.RECOVERED_ANNOTATION`).

        If the change cannot be written down, the next reading tries again, and raises.
        """
        inventory = self._inventory()
        if annotation == self._recovered_text or inventory is None:
            return
        with suppress(RootportError), guarded("health", f"the annotation {RECOVERED_ANNOTATION}"):
            self._recover(annotation, inventory)

    def _recover(self, annotation: str, inventory: Inventory) -> None:
        found, problems = read_recovered(annotation, self._now())
        unknown = found.keys() - {device.name for device in inventory.devices()}
        problems = (*problems, *(f"{name!r} is no device of this node now" for name in sorted(unknown)))
        for problem in problems:
            _LOG.warning("an entry of an annotation is ignored", extra={"problem": problem})
        self._recovered_text, self._recovered = annotation, found
        self._observe(inventory)

    def _observe(
        self,
        inventory: Inventory,
        *,
        gpus: tuple[GpuReading, ...] | None = None,
        nics: tuple[NicReading, ...] | None = None,
        events: Sequence[XidEvent] = (),
        failures: Sequence[Fault] = (),
    ) -> None:
        with self._lock:
            now = self._now()
            before = self._health, self._gpus is None or self._nics is None
            if (others := self._history.read_others()) is not None:
                self._engine.adopt(others, now)
            self._gpus = self._gpus if gpus is None else gpus
            self._nics = self._nics if nics is None else nics
            self._health = self._engine.observe(
                inventory,
                now,
                certain=self._certain(),
                gpus=gpus,
                nics=nics,
                events=events,
                failures=failures,
                recovered=self._recovered,
            )
            after = self._health, self._gpus is None or self._nics is None
        if after != before:
            _log(before[0], after[0])
            self._on_change()
        # The health is reported first: a full disk must not keep it back.
        with self._lock:
            self._history.save(self._engine.history())


def _log(before: NodeHealth, after: NodeHealth) -> None:
    old, new = _known(before), _known(after)
    for key, fault in new.items():
        if key not in old:
            level = logging.INFO if fault.effect is Effect.NONE else logging.WARNING
            fields = {"device": fault.device, "reason": fault.reason, "effect": fault.effect, "fault": fault.message}
            _LOG.log(level, "a device has a fault", extra=fields)
    for key, fault in old.items():
        if key not in new:
            _LOG.info("a fault of a device is over", extra={"device": fault.device, "reason": fault.reason})


def _known(health: NodeHealth) -> dict[tuple[DeviceName, str], Fault]:
    return {(fault.device, fault.reason): fault for fault in health.faults}
