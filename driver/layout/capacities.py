"""Capacities of which a claim takes a part: what there is, and which amounts a share may have.

kube-scheduler rounds what a claim asks for up to an allowed amount, and gives the default to one that asks for none.
Source of the rules: k8s.io/api v0.36.3, resource/v1/types.go, CapacityRequestPolicy; KEP-5075.
"""

from __future__ import annotations

from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from driver.model.shares import given_in_shares, largest_share

__all__ = ["in_steps", "one_each", "promised"]

_ONE: Final = Quantity.of(1)


def in_steps(whole: int, *, minimum: int, step: int, binary: bool = False) -> DeviceCapacity:
    """Return a capacity whose shares have ``minimum`` and any number of steps more; by default, they have the most.

    Whoever has the most has the device alone: where the rest would be enough for another share, it is not published.
    ``binary`` chooses how amounts are written (:meth:`driver.api.quantity.Quantity.of`).
    """
    minimum = min(minimum, whole)
    most = largest_share(whole, minimum=minimum, step=step)
    given = given_in_shares(whole, minimum=minimum, step=step)
    return _ranged(given, minimum=minimum, step=step, most=most, default=most, binary=binary)


def promised(total: int, *, most: int, minimum: int, step: int, default: int) -> DeviceCapacity:
    """Return a capacity of which ``total`` is given in all, and at most ``most`` to one share.

    Args:
        total: How much is given in all.
        most: ``minimum`` and a multiple of ``step``.
        minimum: The least that a share has that asks for some.
        step: What is between two amounts that a share may have.
        default: What a share has that asks for none: an amount that it may have, or 0 where minimum and step are equal.
    """
    # The API server takes no default below the minimum. Without steps in between, whoever asks for some has one.
    return _ranged(total, minimum=min(minimum, default), step=step, most=most, default=default)


def _ranged(whole: int, *, minimum: int, step: int, most: int, default: int, binary: bool = False) -> DeviceCapacity:
    def quantity(amount: int) -> Quantity:
        return Quantity.of(amount, binary=binary)

    # The API server refuses a step that does not fit above the minimum once.
    valid = CapacityRequestPolicyRange(
        min=quantity(minimum), max=quantity(most), step=quantity(step) if most > minimum else None
    )
    return DeviceCapacity(
        value=quantity(whole),
        request_policy=CapacityRequestPolicy(default=quantity(default), valid_range=valid),
    )


def one_each(count: int) -> DeviceCapacity:
    """Return a capacity of ``count``, of which each share takes 1."""
    policy = CapacityRequestPolicy(default=_ONE, valid_values=(_ONE,))
    return DeviceCapacity(value=Quantity.of(count), request_policy=policy)
