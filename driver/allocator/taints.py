"""Which taints keep a device from a request.

Source: taintPreventsAllocation in k8s.io/dynamic-resource-allocation v0.36.3,
structured/internal/incubating/allocator_incubating.go; ToleratesTaint in its package resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterable

from driver.api.resource_v1 import DeviceTaint, DeviceToleration

__all__ = ["refusing_taints"]

_REFUSING = frozenset({"NoSchedule", "NoExecute"})


def refusing_taints(taints: Iterable[DeviceTaint], tolerations: Iterable[DeviceToleration]) -> tuple[DeviceTaint, ...]:
    """The taints that refuse a request with these tolerations; in order."""
    tolerated = tuple(tolerations)
    return tuple(
        taint
        for taint in taints
        if taint.effect in _REFUSING and not any(_tolerates(item, taint) for item in tolerated)
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"
