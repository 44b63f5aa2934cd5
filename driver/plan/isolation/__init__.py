"""Isolation keeps a share of a GPU within its limits: one module for each strategy, behind one small interface."""

from driver.plan.isolation.allowed import allowed_sharing
from driver.plan.isolation.provider import (
    ClaimFile,
    GpuShare,
    HamiCoreLibrary,
    Isolation,
    IsolationHost,
    IsolationPlan,
    IsolationProvider,
)
from driver.plan.isolation.providers import plan_isolation

__all__ = [
    "ClaimFile",
    "GpuShare",
    "HamiCoreLibrary",
    "Isolation",
    "IsolationHost",
    "IsolationPlan",
    "IsolationProvider",
    "allowed_sharing",
    "plan_isolation",
]
