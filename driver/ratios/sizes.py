"""The sizes of the GPUs and NICs of a cluster, of which shares can be asked for, counted from its ResourceSlices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.layout import attributes
from driver.model.devices import DeviceType

__all__ = ["NO_SIZES", "Kind", "Size", "SizeCounter", "Sizes"]

_PERCENT: Final = 100
_MAX_SIZES: Final = 1024
_MAX_STEPS: Final = 64
"""Sizes that are counted, and policies of one size; clusters have a few."""
_DEFAULT_STRATEGY: Final = "timeSlicing"
_CAPACITIES: Final[Mapping[str, str]] = {
    DeviceType.GPU.value: attributes.MEMORY,
    DeviceType.RDMA.value: attributes.BANDWIDTH,
}
"""The capacity that is a device's size, by the device's type."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Devices among which a request chooses.

    Attributes:
        type: Their attribute ``type``.
        strategy: How shares of them are kept apart, their attribute ``sharingStrategy``; empty for NICs.
    """

    type: str
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class _Steps:
    """The amounts that shares may have: ``least`` and any number of ``step`` more, up to ``most``; step 0 is any."""

    least: int
    step: int
    most: int

    def at_most(self, amount: int) -> int:
        """Return the largest allowed amount that is not above one; the least where that is above it."""
        if amount <= self.least:
            return self.least
        if self.step:
            amount = self.least + (amount - self.least) // self.step * self.step
        return min(amount, self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Devices of one size.

    Attributes:
        value: Their capacity, as published: bytes of memory, or bits per second.
        devices: How many there are.
        steps: The amounts that a share of them may have, of which policies may set several.
    """

    value: int
    devices: int
    steps: frozenset[_Steps]

    def share(self, percent: int) -> int:
        """Return the share of so many percent, rounded down, but at least the least that a share may have.

        Shares that add up to 100 percent fit on one device, unless one of them is below that least.

        Where policies differ it is the smallest: kube-scheduler rounds it up to each device's own steps, and then it is
        no more than that device's percentage, rounded down. All of a device is the largest instead: less would leave
        room for somebody else where another policy allows more.
        """
        wanted = max(1, self.value * percent // _PERCENT)
        choose = max if percent == _PERCENT else min
        return choose(steps.at_most(wanted) for steps in self.steps)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a cluster's devices, the smallest first, by their kind."""

    by_kind: Mapping[Kind, tuple[Size, ...]] = field(default_factory=dict)

    def of(self, kind: Kind, most: int) -> tuple[Size, ...]:
        """Return up to ``most`` sizes, the smallest first: those that most devices have, if there are more."""
        known = self.by_kind.get(kind, ())
        frequent = sorted(known, key=lambda size: (-size.devices, size.value))[: max(most, 0)]
        return tuple(sorted(frequent, key=lambda size: size.value))


NO_SIZES: Final = Sizes()


class SizeCounter:
    """Counts devices by their size."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Kind, int]] = Counter()
        self._steps: defaultdict[tuple[Kind, int], set[_Steps]] = defaultdict(set)

    def add(self, device: Mapping[str, Any]) -> None:
        """Count a device, if shares of it have an amount.

        Args:
            device: An entry of ``spec.devices`` of one of this driver's ResourceSlices, as JSON; one that is not as
                expected is passed over.
        """
        found = _size(device)
        if found is None:
            return
        kind, value, steps = found
        key = (kind, value)
        if key in self._counts or len(self._counts) < _MAX_SIZES:
            self._counts[key] += 1
            if len(self._steps[key]) < _MAX_STEPS:
                self._steps[key].add(steps)

    def sizes(self) -> Sizes:
        """Return the sizes of the devices that were counted."""
        by_kind: defaultdict[Kind, list[Size]] = defaultdict(list)
        for (kind, value), count in sorted(self._counts.items(), key=lambda item: item[0][1]):
            by_kind[kind].append(Size(value=value, devices=count, steps=frozenset(self._steps[kind, value])))
        return Sizes({kind: tuple(sizes) for kind, sizes in by_kind.items()})


def _size(device: Mapping[str, Any]) -> tuple[Kind, int, _Steps] | None:
    if device.get("allowMultipleAllocations") is not True:
        return None
    device_type = _text(device, attributes.TYPE)
    capacity = _CAPACITIES.get(device_type)
    published = _member(device.get("capacity"), capacity) if capacity else None
    value = _amount(_member(published, "value"))
    if value is None:
        return None
    policy = _member(published, "requestPolicy")
    valid = _member(policy, "validRange")
    least, step, most = (_amount(_member(valid, key)) for key in ("min", "step", "max"))
    strategy = (
        (_text(device, attributes.SHARING_STRATEGY) or _DEFAULT_STRATEGY) if device_type == DeviceType.GPU.value else ""
    )
    # A minimum of 0 is for requests that name no amount: the least share is a step above it.
    its_steps = _Steps(least=least or step or 1, step=step or 0, most=most or value)
    return Kind(device_type, strategy), value, its_steps


def _text(device: Mapping[str, Any], name: str) -> str:
    text = _member(_member(device.get("attributes"), name), "string")
    return text if isinstance(text, str) else ""


def _member(value: object, name: str) -> Any:
    """Return a member of a JSON object, whose name may have the driver's domain; None where it is not there."""
    if not isinstance(value, Mapping):
        return None
    return value.get(name, value.get(f"{DRIVER_NAME}/{name}"))


def _amount(value: object) -> int | None:
    """Return a quantity that is a positive whole number; None for anything else."""
    try:
        quantity = Quantity(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if quantity is None or not quantity.is_whole() or quantity.nano <= 0:
        return None
    return quantity.ceil()
