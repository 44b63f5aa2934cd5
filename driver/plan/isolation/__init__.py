"""Isolation: how a share of a GPU is kept within its limits. One module a strategy, behind one small interface."""

from driver.plan.isolation.interface import (
    ClaimFile,
    GpuShare,
    HamiCoreLibrary,
    Isolation,
    IsolationHost,
    IsolationPlan,
    IsolationProvider,
)

__all__ = [
    "ClaimFile",
    "GpuShare",
    "HamiCoreLibrary",
    "Isolation",
    "IsolationHost",
    "IsolationPlan",
    "IsolationProvider",
]
