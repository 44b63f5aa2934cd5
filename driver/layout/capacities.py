"""Capacities of which a claim takes a part: what there is, and which amounts a share may have.

kube-scheduler rounds what a claim asks for up to an allowed amount, and gives the default to one that asks for none.
Source of the rules: k8s.io/api v0.36.3, resource/v1/types.go, CapacityRequestPolicy; KEP-5075.
"""

from __future__ import annotations

from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity

__all__ = ["in_steps", "one_each"]

_ONE: Final = Quantity.of(1)


def in_steps(whole: int, *, minimum: int, step: int, binary: bool = False) -> DeviceCapacity:
    """Return a capacity whose shares have ``minimum`` and any number of steps more; by default, they have the most.

    ``binary`` chooses how amounts are written (:meth:`driver.api.quantity.Quantity.of`).
    """
    minimum = min(minimum, whole)
    most = minimum + (whole - minimum) // step * step

    def quantity(amount: int) -> Quantity:
        return Quantity.of(amount, binary=binary)

    # The API server refuses a step that does not fit above the minimum once.
    valid = CapacityRequestPolicyRange(
        min=quantity(minimum), max=quantity(most), step=quantity(step) if most > minimum else None
    )
    return DeviceCapacity(
        value=quantity(whole),
        request_policy=CapacityRequestPolicy(default=quantity(most), valid_range=valid),
    )


def one_each(count: int) -> DeviceCapacity:
    """Return a capacity of ``count``, of which each share takes 1."""
    policy = CapacityRequestPolicy(default=_ONE, valid_values=(_ONE,))
    return DeviceCapacity(value=Quantity.of(count), request_policy=policy)
