"""Consumable capacity: how much of a device a request takes.

Source: k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/incubating/consumable_capacity.go. A request
takes some of *every* capacity of the device: what it asks for, rounded up as the capacity's policy says, or, where it
asks for nothing, the policy's default, or all of it. Devices that are not shared are held to the same sizes.
Steps are counted in whole units, rounded up; with the gate DRAFractionalCapacityRange in thousandths, where the range
can be written in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver.allocator.demands import Demand
from driver.allocator.errors import CapacityError
from driver.api.quantity import Quantity
from driver.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

__all__ = ["consumption", "fits"]

_MILLI: Final = 10**6
_UNIT: Final = 10**9
_MOST: Final = 2**63 - 1
"""Nano-units in the two units of upstream's arithmetic, and how many of them it can count."""


def consumption(demand: Demand, device: Device) -> dict[str, Quantity] | None:
    """Return what ``demand`` takes of each capacity of ``device`` if nothing is in use.

    Returns:
        The amounts by capacity name; None where the request names a capacity that the device has not, asks for more
        than all of it, or for an amount that the capacity's policy does not allow.

    Raises:
        CapacityError: An amount is negative, or cannot be rounded as the policy says; the scheduler ends with an error.
    """
    wanted = dict(demand.capacity)
    if not wanted.keys() <= device.capacity.keys():
        return None
    consumed = {
        name: _consumed(name, wanted.get(name), capacity, fractional=demand.fractional_ranges)
        for name, capacity in device.capacity.items()
    }
    for name, capacity in device.capacity.items():
        if consumed[name] > capacity.value or _violates(
            consumed[name], capacity.request_policy, fractional=demand.fractional_ranges
        ):
            return None
    return consumed


def fits(consumed: Mapping[str, Quantity], used: Mapping[str, int], device: Device) -> bool:
    """Whether ``consumed`` fits beside ``used`` (nano-units by capacity name)."""
    return all(amount.nano + used.get(name, 0) <= device.capacity[name].value.nano for name, amount in consumed.items())


def _consumed(name: str, wanted: Quantity | None, capacity: DeviceCapacity, *, fractional: bool) -> Quantity:
    policy = capacity.request_policy
    amount = wanted
    if amount is None:
        amount = policy.default if policy is not None and policy.default is not None else capacity.value
    elif policy is not None and policy.valid_range is not None and policy.valid_range.min is not None:
        amount = _round_up(name, amount, policy.valid_range, policy.valid_range.min, fractional=fractional)
    elif policy is not None:
        amount = next((value for value in policy.valid_values if amount <= value), amount)
    if amount.nano < 0:
        raise CapacityError(f"capacity {name}: {amount} is negative")
    return amount


def _round_up(
    name: str, wanted: Quantity, valid: CapacityRequestPolicyRange, minimum: Quantity, *, fractional: bool
) -> Quantity:
    if wanted < minimum:
        return minimum
    if valid.step is None or valid.step.nano <= 0:
        return wanted
    unit = _unit(valid, fractional=fractional)
    low, step, asked = (-(-amount.nano // unit) for amount in (minimum, valid.step, wanted))
    rounded = low - (low - asked) // step * step
    if (unit == _MILLI and wanted.nano % _MILLI) or rounded > _MOST:
        raise CapacityError(f"capacity {name}: {wanted} cannot be rounded up to a step of {valid.step}")
    return Quantity.from_nano(rounded * unit, valid.step.format)


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None, *, fractional: bool) -> bool:
    if policy is None or amount == policy.default:
        return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and amount not in policy.valid_values
    if valid.max is not None and amount > valid.max:
        return True
    if valid.step is None or valid.step.nano <= 0:
        return False
    unit = _unit(valid, fractional=fractional)
    low, step, taken = (-(-item.nano // unit) for item in (valid.min or Quantity.of(0), valid.step, amount))
    return (unit == _MILLI and amount.nano % _MILLI != 0) or (taken - low) % step != 0


def _unit(valid: CapacityRequestPolicyRange, *, fractional: bool) -> int:
    """Return the unit of a range: thousandths where the gate allows it and nothing is lost, else whole units."""
    if not fractional:
        return _UNIT
    bounds = [bound.nano for bound in (valid.min, valid.max, valid.step) if bound is not None]
    in_milli = all(bound % _MILLI == 0 and bound // _MILLI <= _MOST for bound in bounds)
    return _MILLI if in_milli else _UNIT
