"""The health of a node's devices, as its plugin found it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from driver.model.devices import DeviceName, DeviceType
from driver.model.rivals import Rival

__all__ = [
    "CANNOT_PREPARE_TAINT",
    "FAULTS_OF_PARTS",
    "LINK_DOWN_FAULT",
    "STRATEGY_TAINT",
    "UNHEALTHY_TAINT",
    "Effect",
    "Fault",
    "NodeHealth",
]

LINK_DOWN_FAULT: Final = "LinkDown"
"""The reason of the fault of a NIC without a link. The layout gives that a taint of its own, out of the inventory."""

FAULTS_OF_PARTS: Final = MappingProxyType(
    {
        "MigDeviceNotCreated": frozenset({DeviceType.MIG}),
        "MigModeNotLeft": frozenset({DeviceType.GPU, DeviceType.GPU_RATIO}),
        "VfNotConfigured": frozenset({DeviceType.RDMA_VF}),
    }
)
"""What cannot be had of a device while it has a fault, by the fault's reason; all else of it is as good as before."""

UNHEALTHY_TAINT: Final = "rootport.dev/unhealthy"
"""The key of the taint of a device with a fault; its value is the fault's reason."""

CANNOT_PREPARE_TAINT: Final = "rootport.dev/cannot-prepare"
"""The key of the taint of all devices of a node whose plugin can prepare no claim; its value is the reason."""


STRATEGY_TAINT: Final = "rootport.dev/strategy-unavailable"
"""The key of the taint of a GPU whose strategy for shares the node cannot serve; its value is the strategy."""


class Effect(StrEnum):
    """What a fault does to the device: the effects of a device taint (KEP-5055, k8s.io/api v0.36.3, resource/v1)."""

    NONE = "None"
    """It is only reported: the device is degraded, not unhealthy."""

    NO_SCHEDULE = "NoSchedule"
    """Nothing new is given it; what has it keeps it."""

    NO_EXECUTE = "NoExecute"
    """Pods that have it are evicted as well."""

    @property
    def rank(self) -> int:
        """The effect's place by severity: the worst has 0."""
        return (Effect.NO_EXECUTE, Effect.NO_SCHEDULE, Effect.NONE).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with one device.

    Attributes:
        device: The whole device: a GPU, a NIC or an FPGA. Its partitions and virtual functions have its faults; some
            concern only a part of what it is given as: :data:`FAULTS_OF_PARTS`.
        reason: What is wrong, in one CamelCase word such as ``Xid79``, ``GpuLost`` or ``LinkDown``.
        effect: What that does to the device.
        since: When it began, in UTC and whole seconds.
        message: What is wrong and what to do, for a person.
    """

    device: DeviceName
    reason: str
    effect: Effect
    since: datetime
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """What a node's plugin reports of its devices.

    Attributes:
        watched: The whole devices that are watched; of all others nothing is known.
        faults: What is wrong; of a device each reason once.
        cannot_prepare: Why the plugin can prepare no claim at all, in one CamelCase word; empty where it can, or may.
        rivals: Who else gives out devices of the node.
        strategies: Which of the strategies that take something of the node it is known to serve; None where nobody
            looked, as in a simulation.
        prepares_before_binding: The types of devices that the plugin prepares before a pod is bound to the node.
    """

    watched: frozenset[DeviceName] = frozenset()
    faults: tuple[Fault, ...] = ()
    cannot_prepare: str = ""
    rivals: tuple[Rival, ...] = ()
    strategies: frozenset[str] | None = None
    prepares_before_binding: frozenset[str] = frozenset()

    def of(self, device: DeviceName) -> tuple[Fault, ...]:
        """Return a device's faults, the worst first: by effect, then by age."""
        return _sorted(fault for fault in self.faults if fault.device == device)

    def rivals_of(self, *devices: DeviceName) -> tuple[Rival, ...]:
        """Return who else gives out one of these devices."""
        return tuple(rival for rival in self.rivals if not set(devices).isdisjoint(rival.devices))

    def taints(self) -> dict[DeviceName, Fault]:
        """Return the worst fault of each device that must not be given, or a part of it not, by device."""
        worst: dict[DeviceName, Fault] = {}
        for fault in _sorted(self.faults):
            if fault.effect is not Effect.NONE:
                worst.setdefault(fault.device, fault)
        return worst


def _sorted(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: (fault.effect.rank, fault.since, fault.reason)))
