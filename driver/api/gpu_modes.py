"""The modes in which GPUs are given, as GpuPolicies name them, and how much of a GPU is promised at most."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["ALL_MODES", "MOST_CORE", "GpuMode"]

GpuMode: TypeAlias = Literal["gpu", "gpu-ratio", "mig"]
"""A way in which a GPU is given: the type of the device that is published for it."""

ALL_MODES: Final[tuple[GpuMode, ...]] = ("gpu", "gpu-ratio", "mig")
"""In the order that holds where GpuPolicies say nothing."""

MOST_CORE: Final = 10_000
"""Up to so many percent GpuPolicies let the core of one GPU be promised to shares (``core.total``)."""
