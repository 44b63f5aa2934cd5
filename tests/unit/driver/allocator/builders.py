"""Short forms of the API's objects, and one way to ask the allocator."""

from __future__ import annotations

from typing import Any

from driver.allocator import ALL_FEATURES, Allocator, Features
from driver.api.resource_v1 import AllocationResult, DeviceClass, Node, ResourceClaim, ResourceSlice

__all__ = [
    "allocator",
    "claim",
    "device",
    "device_class",
    "distinct",
    "exactly",
    "given",
    "held",
    "match",
    "node",
    "resource_slice",
]

Json = dict[str, Any]
_KINDS = {str: "string", int: "int", bool: "bool", list: "ints"}


def node(name: str = "n", **labels: str) -> Node:
    return Node.model_validate({"metadata": {"name": name, "labels": labels}})


def device(name: str, *, extra: Json | None = None, **attributes: object) -> Json:
    """A device; attributes of the domain ``d``, the driver's own."""
    values = {key: {_KINDS[type(value)]: value} for key, value in attributes.items()}
    return {"name": name, "attributes": values, **(extra or {})}


def resource_slice(*devices: Json, name: str = "s", pool: str = "p", driver: str = "d", **spec: Any) -> ResourceSlice:
    """A slice, the only one of its pool and for the node ``n`` unless ``spec`` says otherwise."""
    generation, count = spec.pop("generation", 1), spec.pop("count", 1)
    where = {} if {"nodeSelector", "allNodes", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": "n"}
    return ResourceSlice.model_validate(
        {
            "metadata": {"name": name},
            "spec": {
                "driver": driver,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                **where,
                **({"devices": devices} if devices else {}),
                **spec,
            },
        }
    )


def device_class(name: str = "any", *expressions: str, config: list[Json] | None = None) -> DeviceClass:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return DeviceClass.model_validate(
        {"metadata": {"name": name}, "spec": {"selectors": selectors, "config": config or []}}
    )


def exactly(name: str, count: int | str = 1, *expressions: str, cls: str = "any", **extra: Any) -> Json:
    """A request for ``count`` devices, or for "All"."""
    mode: Json = {"allocationMode": "All"} if count == "All" else {"allocationMode": "ExactCount", "count": count}
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": name, "exactly": {"deviceClassName": cls, "selectors": selectors, **mode, **extra}}


def match(attribute: str, *requests: str) -> Json:
    return {"matchAttribute": attribute, "requests": requests}


def distinct(attribute: str, *requests: str) -> Json:
    return {"distinctAttribute": attribute, "requests": requests}


def claim(*requests: Json, constraints: list[Json] | None = None, name: str = "c", **devices: Any) -> ResourceClaim:
    return ResourceClaim.model_validate(
        {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"devices": {"requests": requests, "constraints": constraints or [], **devices}},
        }
    )


def held(*devices: str, **extra: Any) -> ResourceClaim:
    """An allocated claim that holds devices of the pool ``p`` of the driver ``d``."""
    results = [{"request": "r", "driver": "d", "pool": "p", "device": name, **extra} for name in devices]
    return ResourceClaim.model_validate(
        {"metadata": {"name": "held"}, "status": {"allocation": {"devices": {"results": results}}}}
    )


def allocator(
    *slices: ResourceSlice,
    classes: tuple[DeviceClass, ...] = (device_class(),),
    allocated: tuple[ResourceClaim, ...] = (),
    features: Features = ALL_FEATURES,
    **options: int,
) -> Allocator:
    """``options``: ``max_steps``."""
    return Allocator(slices, classes, allocated=allocated, features=features, new_share_id=lambda: "share", **options)


def given(results: tuple[AllocationResult, ...] | None) -> list[list[str]] | None:
    """``request=device`` of each claim; None where nothing fits."""
    if results is None:
        return None
    return [[f"{item.request}={item.device}" for item in result.devices.results] for result in results]
