"""What must hold when all pods have come: read from the API alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from driver.adapters.kubernetes.resources import JsonObject
from driver.api.quantity import Quantity

__all__ = ["allocated_milli", "given_too_often", "left_unbound"]


def given_too_often(claims: Iterable[JsonObject], slices: Iterable[JsonObject]) -> Iterator[str]:
    """Yield each device of which claims have more than there is."""
    has = {
        (part["spec"]["pool"]["name"], device["name"]): device
        for part in slices
        for device in part["spec"].get("devices", ())
    }
    for key, results in _by_device(claims).items():
        device = has.get(key)
        if device is None:
            yield f"{'/'.join(key)}: is not published, {len(results)} claims have it"
        elif not device.get("allowMultipleAllocations"):
            if len(results) > 1:
                yield f"{'/'.join(key)}: {len(results)} claims have it"
        else:
            for name, capacity in device["capacity"].items():
                used = sum(_value(each["consumedCapacity"][name]) for each in results)
                if used > _value(capacity["value"]):
                    given = f"{Quantity.from_nano(used)} of {capacity['value']} {name}"
                    yield f"{'/'.join(key)}: {given} in {len(results)} claims"


def allocated_milli(claims: Iterable[JsonObject]) -> int:
    """What claims have, in thousandths of GPUs, by the memory of which a share has as much as of the GPU."""
    return sum(
        int(1000 * _value(each["consumedCapacity"]["memory"]) / _value(f"{100 * 160}Mi"))
        for results in _by_device(claims).values()
        for each in results
    )


def left_unbound(claims: Iterable[JsonObject], pods: Iterable[JsonObject]) -> Iterator[str]:
    """Yield each claim that is allocated and no bound pod has, and each bound pod whose claim is not allocated."""
    bound = {pod["metadata"]["name"]: pod for pod in pods if pod["spec"].get("nodeName")}
    allocated = set()
    for claim in claims:
        status = claim.get("status") or {}
        if not status.get("allocation"):
            continue
        users = {each["name"] for each in status.get("reservedFor", ())}
        allocated.add(claim["metadata"]["name"])
        if not users & bound.keys():
            yield f"claim {claim['metadata']['name']}: allocated, and no bound pod has it"
    for name, pod in bound.items():
        for entry in pod["spec"].get("resourceClaims", ()):
            if entry["resourceClaimName"] not in allocated:
                yield f"pod {name}: bound, and its claim is not allocated"


def _by_device(claims: Iterable[JsonObject]) -> dict[tuple[str, str], list[JsonObject]]:
    found = defaultdict[tuple[str, str], list[JsonObject]](list)
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            found[result["pool"], result["device"]].append(result)
    return found


def _value(text: str) -> int:
    return Quantity(text).nano
