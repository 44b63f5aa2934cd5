"""How far the GPUs and the NICs of one claim are from each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from driver.model.alignment import pair_distances
from driver.plan.decide import Decision

__all__ = ["distances_of"]


def distances_of(decision: Decision) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Of each GPU of the claim its NICs, and of each NIC its GPUs: name in the pool and distance, such as ``PIX``.

    By name in the pool, in the allocation's order; nothing unless the claim has both. What it only watches over does
    not count.
    """
    used = [device.given for device in decision.devices if not device.given.admin_access]
    if not (any(item.gpu for item in used) and any(item.nic for item in used)):
        return {}
    # Two shares of one card are equally far from everything.
    devices = {item.device.name: item.device for item in used if item.gpu or item.nic}
    found = defaultdict[str, list[tuple[str, str]]](list)
    for pair in pair_distances(decision.inventory, tuple(devices.values())):
        found[pair.gpu].append((pair.nic, str(pair.distance)))
        found[pair.nic].append((pair.gpu, str(pair.distance)))
    return {name: tuple(others) for name, others in found.items()}
