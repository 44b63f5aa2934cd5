"""What a test runs in a process of its own, since NVML stays loaded in a process."""

from __future__ import annotations

from driver.model.devices import MigInstance
from driver.plan.effects import CreateMigDevice
from kubeletplugin.effects.mig import MigDevices
from kubeletplugin.node.roots import Roots

__all__ = ["do", "undo"]


def do(roots: Roots, effect: CreateMigDevice) -> MigInstance:
    return MigDevices(roots).do(effect)


def undo(roots: Roots, effect: CreateMigDevice) -> None:
    MigDevices(roots).undo(effect)
