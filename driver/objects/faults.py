"""Writes the health of a node's devices as the status of its NodeInventory has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from driver.api.bounds import MAX_FAULTS, MAX_NOTE_LENGTH
from driver.api.node_status import DeviceFault, DeviceRival
from driver.api.times import time_text
from driver.model.devices import DeviceName
from driver.model.health import NodeHealth
from driver.model.rivals import Rival

__all__ = ["PREPARE_CONDITIONS", "STRATEGY_CONDITIONS", "device_faults", "device_rivals", "known_rivals"]

PREPARE_CONDITIONS: Final = ("Registered", "StateDirectoryWritable", "CdiDirectoryWritable")
"""The conditions of a NodeInventory without each of which its node's plugin can prepare no claim at all."""

STRATEGY_CONDITIONS: Final = {"mps": "MpsAvailable", "hamiCore": "HamiCoreAvailable"}
"""The condition of a NodeInventory that says whether the node can serve a strategy, of those that take something."""


def device_faults(health: NodeHealth) -> tuple[DeviceFault, ...]:
    """Return the faults as a NodeInventory's status has them, by device and reason; of too many, the worst."""
    worst = sorted(health.faults, key=lambda fault: (fault.effect.rank, fault.since, fault.device, fault.reason))
    kept = sorted(worst[:MAX_FAULTS], key=lambda fault: (fault.device, fault.reason))
    return tuple(
        DeviceFault(
            device=fault.device,
            reason=fault.reason,
            effect=fault.effect.value,
            since=time_text(fault.since),
            message=fault.message[:MAX_NOTE_LENGTH],
        )
        for fault in kept
    )


def device_rivals(rivals: Iterable[Rival]) -> tuple[DeviceRival, ...]:
    """Return the rivals as a NodeInventory's status has them, by name and kind."""
    return tuple(
        DeviceRival(name=rival.name, kind=rival.kind, devices=rival.devices, message=rival.message)
        for rival in sorted(rivals, key=lambda rival: (rival.name, rival.kind))
    )


def known_rivals(rivals: Iterable[DeviceRival]) -> tuple[Rival, ...]:
    """Return the rivals that a NodeInventory's status has."""
    return tuple(
        Rival(
            name=item.name,
            kind=item.kind,
            devices=tuple(map(DeviceName, item.devices)),
            message=item.message,
        )
        for item in rivals
    )
