"""Which requests for a percentage can become prioritized lists, and what their alternatives ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.config.gpu_classes import SHARED_GPU_CLASSES, class_of_strategy
from driver.config.nearest import advice, nearest_amounts
from driver.layout import attributes
from driver.model.devices import DeviceType
from driver.ratios.sizes import Kind

__all__ = [
    "ADMIN_ACCESS",
    "MAX_ALTERNATIVES",
    "MAX_NAME",
    "Fields",
    "Ratio",
    "StaysError",
    "amounts_of",
    "checked",
    "percentage_of",
]

MAX_ALTERNATIVES: Final = 8
MAX_NAME: Final = 63
_MAX_SELECTORS: Final = 32
"""These three: k8s.io/api v0.37.2, resource/v1."""
_PERCENT: Final = 100
_PERCENT_DIGITS: Final = re.compile(r"[1-9][0-9]?|100", re.ASCII)
_FIELDS: Final = frozenset(
    {"name", "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"}
)
Fields: TypeAlias = Mapping[str, Any]

ADMIN_ACCESS: Final = "adminAccess"
_WHAT_DIFFERS: Final = re.compile(r"\b(?:type|capacity)\b", re.ASCII)
"""What a selector reads that differs between a GPU in bytes and one in percent. To read what a device does not have is
an error, which keeps the pod from every node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A class whose requests may name a percentage, and the class of the same devices by amounts.

    Attributes:
        percent: The capacity that is the percentage: ``memoryRatio``.
        amount: The capacity that is the amount: ``memory``.
        amount_class: The class whose devices have the amount.
        kind: These devices.
        binary: Whether the amounts are written in Mi and Gi, not in M and G.
    """

    percent: str
    amount: str
    amount_class: str
    kind: Kind
    binary: bool


_RDMA: Final = f"rdma.{DRIVER_NAME}"
_RATIOS: Final[Mapping[str, Ratio]] = {
    name: Ratio(
        percent=attributes.MEMORY_RATIO,
        amount=attributes.MEMORY,
        amount_class=class_of_strategy(DeviceType.GPU, strategy),
        kind=Kind(DeviceType.GPU.value, strategy),
        binary=True,
    )
    for name, (kind, strategy) in SHARED_GPU_CLASSES.items()
    if kind is DeviceType.GPU_RATIO
} | {
    _RDMA: Ratio(
        percent=attributes.BANDWIDTH_RATIO,
        amount=attributes.BANDWIDTH,
        amount_class=_RDMA,
        kind=Kind(DeviceType.RDMA.value),
        binary=False,
    )
}
"""By the class that a request names."""
_PERCENT_NAMES: Final = frozenset(ratio.percent for ratio in _RATIOS.values())


class StaysError(Exception):
    """A request stays as it is; the text says why."""


def percentage_of(part: Fields) -> tuple[str, object] | None:
    """Return the name of the first percentage that a request names, without its domain, and its amount."""
    for key, amount in amounts_of(part).items():
        if (name := key.removeprefix(f"{DRIVER_NAME}/")) in _PERCENT_NAMES:
            return name, amount
    return None


def amounts_of(part: Fields) -> Fields:
    """Return a request's ``capacity.requests``; empty where there are none."""
    capacity = part.get("capacity")
    requests = capacity.get("requests") if isinstance(capacity, Mapping) else None
    return requests if isinstance(requests, Mapping) else {}


def checked(part: Fields, capacity: str, percent: object, room: int) -> tuple[Ratio, int]:
    """Return how to rewrite a request, and its percentage.

    Raises:
        StaysError: It must stay as it is.
    """
    device_class = part.get("deviceClassName")
    ratio = _RATIOS.get(device_class) if isinstance(device_class, str) else None
    if ratio is None or ratio.percent != capacity:
        names = " or ".join(name for name, item in _RATIOS.items() if item.percent == capacity)
        if str(device_class).endswith(f".{DRIVER_NAME}"):
            raise StaysError(f"only requests of class {names} become lists")
        raise StaysError(f"its class is not {names}: which devices another class has is not known")
    if sum(key.removeprefix(f"{DRIVER_NAME}/") == capacity for key in amounts_of(part)) > 1:
        raise StaysError(f"it names {capacity} twice: expected it once")
    digits = str(percent) if isinstance(percent, str | int) else ""
    if not _PERCENT_DIGITS.fullmatch(digits):
        wrong = f"it is not a percentage: expected a whole number from 1 to {_PERCENT}"
        raise StaysError(f"{wrong}{_nearest(capacity, digits)}")
    if {ratio.amount, f"{DRIVER_NAME}/{ratio.amount}"} & amounts_of(part).keys():
        raise StaysError(f"it names {ratio.amount} as well: expected one of them")
    if part.get(ADMIN_ACCESS):
        raise StaysError("Kubernetes takes no adminAccess in a prioritized list")
    if part.get("allocationMode") == "All":
        raise StaysError("allocationMode All would take all devices of one size instead of all devices")
    if unknown := sorted(str(key)[:MAX_NAME] for key in part.keys() - _FIELDS):
        raise StaysError(f"whether an alternative may have {', '.join(unknown[:3])} is not known")
    selectors = part.get("selectors") or []
    if not isinstance(selectors, list) or len(selectors) >= _MAX_SELECTORS:
        raise StaysError(f"there is no room for another selector: {_MAX_SELECTORS} are the most that Kubernetes takes")
    if ratio.amount_class != device_class and any(_WHAT_DIFFERS.search(text) for text in _expressions(selectors)):
        raise StaysError(f"a selector reads type or capacity, which differ for devices of {ratio.amount_class}")
    if not room:
        raise StaysError(f"the list has no room: {MAX_ALTERNATIVES} alternatives are the most that Kubernetes takes")
    return ratio, int(digits)


def _nearest(capacity: str, text: str) -> str:
    """Return which amount to ask for instead of a wrong one, as the end of a message; empty where none is near."""
    try:
        return f"; {advice(nearest_amounts(capacity, capacity, Quantity(text)))}"
    except ValueError:
        return ""


def _expressions(selectors: Sequence[Any]) -> Iterator[str]:
    for selector in selectors:
        cel = selector.get("cel") if isinstance(selector, Mapping) else None
        expression = cel.get("expression") if isinstance(cel, Mapping) else None
        if isinstance(expression, str):
            yield expression
