"""Checks what a request asks of a GPU or a NIC: its ``capacity.requests``, when a claim is written or prepared.

kube-scheduler itself compares a request with a device's capacity and says of one that can never be met only that it
cannot allocate the claim. Each mistake leads to the nearest valid request (:mod:`driver.config.nearest`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.validation.errors import FieldError
from driver.config.nearest import Change, advice, nearest_amounts, one_bandwidth, one_way

__all__ = ["ShareError", "share_errors", "small_amount"]

_MAX_PERCENT: Final = 100
_DOMAIN: Final = f"{DRIVER_NAME}/"


_SMALLEST: Final[Mapping[str, tuple[int, str, tuple[str, str]]]] = {
    "memory": (2**20, "bytes", ("Gi", "Mi")),
    "bandwidth": (10**6, "bits per second", ("G", "M")),
}
"""Amounts too small to be meant, their unit, and the missing suffixes: for a small number and for a larger one."""


@dataclass(frozen=True, slots=True)
class ShareError(FieldError):
    """A mistake in what a request asks for.

    Attributes:
        nearest: What would make it right, the likeliest first; the message names all of it.
    """

    nearest: tuple[Change, ...]


def small_amount(name: str, amount: Quantity) -> str | None:
    """Return what was meant by a valid amount that is smaller than any device's: mostly a suffix was left out.

    Args:
        name: The capacity, without its domain.
        amount: How much of it.

    Returns:
        ``40 bytes; did you mean 40Gi?``; None where the amount is not suspicious.
    """
    if name not in _SMALLEST or not amount.is_whole():
        return None
    least, unit, (larger, smaller) = _SMALLEST[name]
    number = amount.ceil()
    if not 0 < number < least:
        return None
    return f"{number} {unit}; did you mean {number}{larger if number <= 1024 else smaller}?"


def share_errors(requests: Mapping[str, Quantity], where: str, device_class: str = "") -> tuple[ShareError, ...]:
    """Return every mistake in one request for a share of a GPU or of a NIC, or for virtual functions.

    Other capacities than theirs, and those of other domains, are left alone. Whether a device has so much is for the
    scheduler.

    Args:
        requests: A request's ``capacity.requests``: names with or without the domain ``rootport.dev/``.
        where: Its field path, for the errors.
        device_class: The request's DeviceClass; empty if it is not known.
    """
    own = {key: key.removeprefix(_DOMAIN) for key in requests}
    errors = []
    for key, name in own.items():
        if name in _CHECKS and (wrong := _CHECKS[name](requests[key])) is not None:
            nearest = nearest_amounts(key, name, requests[key])
            errors.append(ShareError(f"{where}[{key}]", f"{requests[key]} {wrong}; {advice(nearest)}", nearest))
    keys = {name: key for key, name in own.items()}
    if {"bandwidth", "bandwidthRatio"} <= keys.keys():
        nearest = one_bandwidth(keys)
        wrong = "bandwidth and bandwidthRatio are two ways to ask for bandwidth: expected one of them in a request"
        errors.append(ShareError(where, f"{wrong}; {advice(nearest)}", nearest))
    if {"memory", "memoryRatio"} <= keys.keys():
        nearest = one_way(keys, device_class)
        wrong = "memory and memoryRatio are two ways to ask for memory: expected one of them in a request"
        errors.append(ShareError(where, f"{wrong}; {advice(nearest)}", nearest))
    return tuple(errors)


def _percent(value: Quantity) -> str | None:
    if value.is_whole() and Quantity.of(1) <= value <= Quantity.of(_MAX_PERCENT):
        return None
    return f"is not a percentage: expected a whole number from 1 to {_MAX_PERCENT}"


def _bytes(value: Quantity) -> str | None:
    if value.is_whole() and value >= Quantity.of(1):
        return None
    return "is not an amount of memory: expected whole bytes, at least 1, such as 20Gi"


def _bits_per_second(value: Quantity) -> str | None:
    if value.is_whole() and value >= Quantity.of(1):
        return None
    return "is not a bandwidth: expected whole bits per second, at least 1, such as 100G"


def _one(value: Quantity) -> str | None:
    return None if value == Quantity.of(1) else "is not 1: each device of a request is one virtual function"


_CHECKS: Final[Mapping[str, Callable[[Quantity], str | None]]] = {
    "bandwidth": _bits_per_second,
    "bandwidthRatio": _percent,
    "core": _percent,
    "memory": _bytes,
    "memoryRatio": _percent,
    "vfs": _one,
}
"""Each returns what is wrong with an amount, as the end of a sentence; None where nothing is. What it refuses has its
nearest valid amounts in :mod:`driver.config.nearest`."""
