"""Consumable capacity: how much of a device a request takes.

Source: k8s.io/dynamic-resource-allocation v0.36.3, structured/internal/incubating/consumable_capacity.go. A request
takes some of *every* capacity of the device: what it asks for, rounded up as the capacity's policy says, or, where it
asks for nothing, the policy's default, or all of it. Devices that are not shared are held to the same sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver.allocator.demands import Demand
from driver.api.quantity import Quantity
from driver.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

__all__ = ["consumption", "fits"]

_ONE: Final = Quantity.of(1)


def consumption(demand: Demand, device: Device) -> dict[str, Quantity] | None:
    """What ``demand`` takes of each capacity of ``device``, whatever is free.

    Returns:
        The amounts by capacity name; None where the request names a capacity that the device has not, asks for more
        than all of it, or for an amount that the capacity's policy does not allow.
    """
    wanted = dict(demand.capacity)
    if not wanted.keys() <= device.capacity.keys():
        return None
    consumed: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        amount = _consumed(wanted.get(name), capacity)
        if amount > capacity.value or _violates(amount, capacity.request_policy):
            return None
        consumed[name] = amount
    return consumed


def fits(consumed: Mapping[str, Quantity], used: Mapping[str, int], device: Device) -> bool:
    """Whether ``consumed`` fits beside ``used`` (nano-units by capacity name)."""
    return all(amount.nano + used.get(name, 0) <= device.capacity[name].value.nano for name, amount in consumed.items())


def _consumed(wanted: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    if wanted is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(wanted, policy.valid_range, policy.valid_range.min)
    return next((value for value in policy.valid_values if wanted <= value), wanted)


def _round_up(wanted: Quantity, valid: CapacityRequestPolicyRange, minimum: Quantity) -> Quantity:
    if wanted < minimum:
        return minimum
    if valid.step is None or valid.step < _ONE:
        return wanted
    # Upstream counts steps in whole units, and writes the sum with binary suffixes.
    low, step = minimum.ceil(), valid.step.ceil()
    return Quantity.of(low - (low - wanted.ceil()) // step * step, binary=True)


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or amount == policy.default:
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount > valid.max:
            return True
        low = valid.min.ceil() if valid.min is not None else 0
        return valid.step is not None and valid.step >= _ONE and (amount.ceil() - low) % valid.step.ceil() != 0
    return bool(policy.valid_values) and amount not in policy.valid_values
