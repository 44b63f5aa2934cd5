"""Capacities of a device and their request policies.

Source: validateMultiAllocatableDeviceCapacity, validateRequestPolicy and what they call in k8s.io/kubernetes v1.37.2,
pkg/apis/resource/validation/validation.go, with the gate DRAFractionalCapacityRange off, as it is by default. Steps
are compared as whole numbers, rounded up, as upstream does (``Quantity.Value``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from driver.api.validation.errors import FieldError, each

__all__ = ["capacity"]

_VALID_VALUES: Final = 10


def capacity(path: str, value: DeviceCapacity, *, shareable: bool) -> Iterator[FieldError]:
    """Check one capacity of a device; a request policy is only for devices that allow multiple allocations."""
    policy, path = value.request_policy, f"{path}.requestPolicy"
    if policy is None:
        return
    if not shareable:
        yield FieldError(path, "is allowed only on a device with allowMultipleAllocations")
    elif policy.valid_values and policy.valid_range is not None:
        yield FieldError(path, "only one of validValues and validRange is allowed")
    elif policy.default is None and (policy.valid_values or policy.valid_range is not None):
        yield FieldError(f"{path}.default", "is required with validValues or validRange")
    elif policy.default is not None and policy.valid_values:
        yield from _values(f"{path}.validValues", policy, policy.default, value.value)
    elif policy.default is not None and policy.valid_range is not None:
        yield from _range(f"{path}.validRange", policy.valid_range, policy.default, value.value)


def _values(path: str, policy: CapacityRequestPolicy, default: Quantity, whole: Quantity) -> Iterator[FieldError]:
    def value(item_path: str, item: Quantity) -> Iterator[FieldError]:
        if item > whole:
            yield FieldError(item_path, f"{item} is more than the capacity, {whole}")

    values = policy.valid_values
    yield from each(path, values, value, limit=_VALID_VALUES, key=Quantity.ceil)
    for index, (before, after) in enumerate(pairwise(values), start=1):
        if before > after:
            yield FieldError(f"{path}[{index}]", f"{after} is less than {before} before it: values must be ascending")
    if default not in values:
        yield FieldError(path, f"the default, {default}, is not among them")


def _range(path: str, valid: CapacityRequestPolicyRange, default: Quantity, whole: Quantity) -> Iterator[FieldError]:
    minimum = valid.min
    if minimum is None:
        yield FieldError(f"{path}.min", "is required")
        return
    if minimum > whole:
        yield FieldError(f"{path}.min", f"{minimum} is more than the capacity, {whole}")
    if default < minimum:
        yield FieldError(f"{path}.min", f"{minimum} is more than the default, {default}")
    if valid.max is not None:
        if minimum > valid.max:
            yield FieldError(f"{path}.max", f"{valid.max} is less than min, {minimum}")
        if valid.max > whole:
            yield FieldError(f"{path}.max", f"{valid.max} is more than the capacity, {whole}")
        if default > valid.max:
            yield FieldError(f"{path}.max", f"{valid.max} is less than the default, {default}")
    if valid.step is not None:
        bounds = {"default": default, "min": minimum, "max": valid.max, "step": valid.step}
        yield from _step(path, valid.step, {name: bound for name, bound in bounds.items() if bound is not None}, whole)


def _step(path: str, step: Quantity, bounds: dict[str, Quantity], whole: Quantity) -> Iterator[FieldError]:
    minimum = bounds["min"]
    if step.nano <= 0:
        yield FieldError(f"{path}.step", "must be more than zero")
        return
    if minimum + step > whole:
        yield FieldError(f"{path}.step", f"min and one step, {minimum + step}, are more than the capacity, {whole}")
    wrong = [name for name, bound in bounds.items() if bound.nano < 0 or bound.ceil() >= 2**63]
    for name in wrong:
        yield FieldError(f"{path}.{name}", f"{bounds[name]} is not between 0 and 2^63 - 1")
    for name in ("default", "max"):
        if not wrong and name in bounds and (bounds[name].ceil() - minimum.ceil()) % step.ceil():
            yield FieldError(f"{path}.step", f"{name}, {bounds[name]}, is not min, {minimum}, and a multiple of {step}")
