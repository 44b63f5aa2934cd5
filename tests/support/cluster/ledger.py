"""Adds up, from what the API server stores alone, what claims hold of each GPU, and says where that is too much."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driver.api.quantity import Quantity

__all__ = ["SharedCertificates", "held_of", "oversold"]

_DRIVER: Final = "rootport.dev"


@dataclass(slots=True)
class SharedCertificates:
    """What claims hold of the devices of one node.

    Attributes:
        capacity: Device and capacity to the sum of what its shares consume.
        shares: Device to the number of claims that have it.
        counters: Counter set and counter to the sum of what the allocated devices consume; a device counts once.
    """

    capacity: Counter[tuple[str, str]] = field(default_factory=Counter)
    shares: Counter[str] = field(default_factory=Counter)
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)


def held_of(claims: Iterable[Mapping[str, Any]], slices: Iterable[Mapping[str, Any]]) -> SharedCertificates:
    """What the allocated claims hold."""
    devices = _devices(slices)
    held = SharedCertificates()
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation") or {"devices": {}}
        for result in allocation["devices"].get("results", []):
            if result["driver"] != _DRIVER:
                continue
            name = result["device"]
            if not held.shares[name]:
                for consumption in devices[name].get("consumesCounters", []):
                    for counter, value in consumption["counters"].items():
                        held.counters[consumption["counterSet"], counter] += _number(value)
            held.shares[name] += 1
            for capacity, amount in result.get("consumedCapacity", {}).items():
                held.capacity[name, capacity] += Quantity(amount).nano // 10**9
    return held


def oversold(claims: Iterable[Mapping[str, Any]], slices: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each thing of which claims hold more than there is, as a sentence; empty where all is well."""
    slices = list(slices)
    devices = _devices(slices)
    held = held_of(claims, slices)
    wrong = []
    for (name, capacity), amount in held.capacity.items():
        there = Quantity(devices[name]["capacity"][capacity]["value"]).nano // 10**9
        if amount > there:
            wrong.append(f"{amount} of {there} {capacity} of {name} are held")
    for name, times in held.shares.items():
        if times > 1 and not devices[name].get("allowMultipleAllocations"):
            wrong.append(f"{name} is held {times} times")
    there_of: defaultdict[tuple[str, str], int] = defaultdict(int)
    for item in slices:
        for counter_set in item["spec"].get("sharedCounters", []):
            for counter, value in counter_set["counters"].items():
                there_of[counter_set["name"], counter] = _number(value)
    for key, amount in held.counters.items():
        if amount > there_of[key]:
            wrong.append(f"{amount} of {there_of[key]} of counter {'/'.join(key)} are held")
    return wrong


def _devices(slices: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {device["name"]: device for item in slices for device in item["spec"].get("devices", [])}


def _number(counter: Mapping[str, str]) -> int:
    return Quantity(counter["value"]).nano // 10**9
