"""What a node's ResourceSlices cost the cluster: how much of everything there is in them.

kube-scheduler reads all slices of a node again for each pod with claims that it tries there, so its cost grows with
these numbers: with the devices, and with what they consume of counters. What that comes to was measured
(docs/dev/performance.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from driver.api.resource_v1 import ResourceSlice

__all__ = ["Price", "price"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """How much there is in the slices of one node.

    Attributes:
        devices: Devices.
        attributes: Attributes of all devices together.
        counters: Counters that the slices have, all sets together.
        consumed: How often a device consumes a counter.
        slices: ResourceSlices.
        size: Their size as compact JSON, in bytes.
    """

    devices: int
    attributes: int
    counters: int
    consumed: int
    slices: int
    size: int


def price(slices: Sequence[ResourceSlice]) -> Price:
    """Return how much there is in a node's slices.

    Args:
        slices: All slices of the node.
    """
    devices = [device for item in slices for device in item.spec.devices]
    return Price(
        devices=len(devices),
        attributes=sum(len(device.attributes) for device in devices),
        counters=sum(len(each.counters) for item in slices for each in item.spec.shared_counters),
        consumed=sum(len(each.counters) for device in devices for each in device.consumes_counters),
        slices=len(slices),
        size=sum(len(json.dumps(item.to_wire(), separators=(",", ":")).encode()) for item in slices),
    )
