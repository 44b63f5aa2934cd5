"""Converts between the health of a node's devices and the status of its NodeInventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from driver.api.rootport_v1alpha1 import MAX_FAULTS, MAX_NOTE_LENGTH, Condition, DeviceFault, NodeInventoryStatus
from driver.api.times import time_text
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault, NodeHealth

__all__ = ["PREPARE_CONDITIONS", "device_faults", "node_health"]

PREPARE_CONDITIONS: Final = ("Registered", "StateDirectoryWritable", "CdiDirectoryWritable")
"""The conditions of a NodeInventory without each of which its node's plugin can prepare no claim at all."""

_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


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


def node_health(inventory: Mapping[str, Any]) -> NodeHealth:
    """Return the health in a stored NodeInventory; nothing is known where its status cannot be read.

    A fault whose time cannot be read counts all the same, as one of long ago.

    Args:
        inventory: A NodeInventory as the API server stores it.
    """
    try:
        status = NodeInventoryStatus.model_validate(inventory.get("status") or {})
        faults = tuple(
            Fault(
                device=DeviceName(item.device),
                reason=item.reason,
                effect=Effect(item.effect),
                since=_since(item.since),
                message=item.message,
            )
            for item in status.faults
        )
    except ValidationError:
        return NodeHealth()
    return NodeHealth(
        watched=frozenset(map(DeviceName, status.watched)),
        faults=faults,
        cannot_prepare=_cannot_prepare(status.conditions),
    )


def _cannot_prepare(conditions: Iterable[Condition]) -> str:
    false = {item.type: item.reason for item in conditions if item.status == "False"}
    return next((false[name] for name in PREPARE_CONDITIONS if name in false), "")


def _since(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        # The CRD wants a time zone; a dump that a person has edited may have none. Near the ends of the calendar a time
        # may have no counterpart in UTC.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return _LONG_AGO
