"""Reads amounts of resources (``requests``, ``allocatable``) as kube-scheduler counts them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final

from driver.api.quantity import Quantity

__all__ = ["CPU", "amounts"]

CPU: Final = "cpu"
"""The resource that is counted in thousandths."""

_LARGEST: Final = 2**62
_DIFFERENT: Final = 8192


def amounts(wire: Mapping[str, Any]) -> dict[str, int]:
    """Return amounts by the resource's name: CPU in thousandths of a core, all else in whole units; rounded up.

    As MilliValue and Value of a Quantity (k8s.io/apimachinery v0.37.2, pkg/api/resource/quantity.go).
    """
    return {intern(str(name)): _amount(str(amount), is_cpu=name == CPU) for name, amount in wire.items()}


@lru_cache(maxsize=_DIFFERENT)
def _amount(written: str, *, is_cpu: bool) -> int:
    nano = Quantity(written).nano
    return max(0, min(-(-nano // (10**6 if is_cpu else 10**9)), _LARGEST))
