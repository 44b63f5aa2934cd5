"""The conditions of a Device: whether it is healthy, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

from driver.api.rootport_v1alpha1 import Condition
from driver.api.times import time_text
from driver.model.devices import Device, RdmaNic
from driver.model.health import LINK_DOWN_FAULT, Effect, Fault
from driver.model.rivals import Rival

__all__ = ["DEGRADED", "HAS_RIVAL", "HEALTHY", "DeviceState", "conditions_of", "state_of", "with_rivals"]

DeviceState: TypeAlias = Literal["Healthy", "Unhealthy", "Unknown"]

HEALTHY: Final = "Healthy"
"""The condition that is False where the device must not be allocated, and Unknown where it is not watched."""

DEGRADED: Final = "Degraded"
"""The condition that is True where something is wrong that does not keep work away; it is absent otherwise."""

HAS_RIVAL: Final = "HasRival"
"""The condition that is True where another system may give the device out as well; it is absent otherwise."""

_MESSAGE_LENGTH: Final = 4096
_STATES: Final[dict[str, DeviceState]] = {"True": "Healthy", "False": "Unhealthy", "Unknown": "Unknown"}


def conditions_of(
    device: Device,
    faults: Sequence[Fault],
    *,
    is_watched: bool,
    is_silent: bool = False,
    rivals: Sequence[Rival] = (),
) -> tuple[Condition, ...]:
    """Return the conditions, Healthy first.

    ``lastTransitionTime`` is when the faults began, and empty where they have no time: then who writes the condition
    knows when it changed.

    What a silent node has reported of a fault holds until it reports otherwise: a fault does not end by silence.

    Args:
        device: A GPU, NIC or FPGA; of a virtual function its NIC.
        faults: Its faults, the worst first.
        is_watched: Whether the device is watched.
        is_silent: Whether nothing is heard of its node.
        rivals: Who else gives it out.
    """
    severe = [fault for fault in faults if fault.effect is not Effect.NONE]
    mild = [fault for fault in faults if fault.effect is Effect.NONE]
    if severe:
        healthy = _of_faults(HEALTHY, "False", severe)
    elif isinstance(device, RdmaNic) and device.link_is_down:
        healthy = _condition(
            HEALTHY, "False", LINK_DOWN_FAULT, "No port of the NIC is active: check the cable, the peer."
        )
    elif is_silent:
        message = "Nothing is heard of the node's plugin: see the node's NodeInventory, and the plugin's pod there."
        healthy = _condition(HEALTHY, "Unknown", "NodeSilent", message)
    elif is_watched:
        healthy = _condition(HEALTHY, "True", "Healthy", "It is watched, and nothing that matters is wrong with it.")
    else:
        healthy = _condition(HEALTHY, "Unknown", "NotWatched", "Nobody on the node watches the health of this device.")
    return with_rivals((healthy, _of_faults(DEGRADED, "True", mild)) if mild else (healthy,), rivals)


def with_rivals(conditions: Sequence[Condition], rivals: Sequence[Rival]) -> tuple[Condition, ...]:
    """Return the conditions with that of these rivals, in place of others; the same where there are none."""
    if not rivals:
        return tuple(conditions)
    message = "; ".join(rival.message or rival.name for rival in rivals)
    rest = (item for item in conditions if item.type != HAS_RIVAL)
    return (*rest, _condition(HAS_RIVAL, "True", rivals[0].kind, message))


def state_of(conditions: Sequence[Condition]) -> DeviceState:
    """Return the state that goes with the conditions."""
    return next((_STATES[item.status] for item in conditions if item.type == HEALTHY), "Unknown")


def _of_faults(type_: str, status: Literal["True", "False"], faults: Sequence[Fault]) -> Condition:
    worst, *others = faults
    message = worst.message or worst.reason
    if others:
        message += f" Also: {', '.join(fault.reason for fault in others)}."
    return _condition(type_, status, worst.reason, message, since=min(fault.since for fault in faults))


def _condition(
    type_: str, status: Literal["True", "False", "Unknown"], reason: str, message: str, since: datetime | None = None
) -> Condition:
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message[:_MESSAGE_LENGTH],
        last_transition_time="" if since is None else time_text(since),
    )
