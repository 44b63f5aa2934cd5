"""Rootport's DeviceClasses of GPUs that claims can share (``resourceclasses/device-classes.yaml``), by strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver import DRIVER_NAME
from driver.model.devices import DeviceType

__all__ = ["SHARED_GPU_CLASSES", "class_of_strategy"]

_SUFFIXES: Final = {"timeSlicing": "", "mps": "-mps", "hamiCore": "-hami-core"}

SHARED_GPU_CLASSES: Final[Mapping[str, tuple[DeviceType, str]]] = {
    f"{kind}{suffix}.{DRIVER_NAME}": (kind, strategy)
    for kind in (DeviceType.GPU, DeviceType.GPU_RATIO)
    for strategy, suffix in _SUFFIXES.items()
}
"""The type of devices and the strategy for shares that each class selects, by the class's name."""


def class_of_strategy(kind: DeviceType, strategy: str) -> str:
    """Return the class whose GPUs are shared by a strategy.

    Args:
        kind: GPU or GPU_RATIO.
        strategy: ``timeSlicing``, ``mps`` or ``hamiCore``.
    """
    return f"{kind}{_SUFFIXES[strategy]}.{DRIVER_NAME}"
