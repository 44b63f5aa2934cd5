"""Which taints keep a device from a request, and a node from a pod: the rule is the same.

Source: taintPreventsAllocation in k8s.io/dynamic-resource-allocation v0.37.2,
structured/internal/incubating/allocator_incubating.go; ToleratesTaint in its package resourceclaim. Of nodes:
ToleratesTaint in k8s.io/api v0.37.2, core/v1/toleration.go (operators Lt and Gt match nothing: the gate
TaintTolerationComparisonOperators is alpha).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from driver.budget import check

__all__ = ["refusing_taints"]

_REFUSING: Final = frozenset({"NoSchedule", "NoExecute"})


class _Taint(Protocol):
    """A DeviceTaint, or a node's."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class _Toleration(_Taint, Protocol):
    """A DeviceToleration, or a pod's."""

    @property
    def operator(self) -> str: ...


_T = TypeVar("_T", bound=_Taint)


def refusing_taints(taints: Iterable[_T], tolerations: Iterable[_Toleration]) -> tuple[_T, ...]:
    """Return the taints that refuse a request with these tolerations; in order."""
    tolerated = tuple(tolerations)
    return tuple(taint for taint in taints if taint.effect in _REFUSING and not _is_tolerated(taint, tolerated))


def _is_tolerated(taint: _Taint, tolerations: tuple[_Toleration, ...]) -> bool:
    check()  # a pod may have tens of thousands, and a node as many taints
    return any(_tolerates(item, taint) for item in tolerations)


def _tolerates(toleration: _Toleration, taint: _Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"
