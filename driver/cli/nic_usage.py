"""Counts what is allocated and left of RDMA NICs that several claims share: bandwidth, and VFs of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceRequestAllocationResult
from driver.layout import attributes
from driver.model.devices import DeviceName, RdmaNic
from driver.model.parts import AllocatableDevice, RdmaVfPool, vf_pool

__all__ = ["bandwidth_share", "nic_left", "nic_left_text", "vf_share"]


def vf_share(device: AllocatableDevice, vf: DeviceName | None) -> str:
    """Return which VF of a pool was allocated; empty for what is no pool."""
    if not isinstance(device, RdmaVfPool):
        return ""
    return vf or "1 VF"


def bandwidth_share(device: AllocatableDevice, result: DeviceRequestAllocationResult) -> str:
    """Return the bandwidth that was allocated of a NIC; empty for all of it, and for what is no NIC."""
    allocated = _bandwidth(result)
    if not isinstance(device, RdmaNic) or allocated is None or allocated >= (device.bandwidth or 0):
        return ""
    return f"{Quantity.of(allocated)}bit/s"


def nic_left(nic: RdmaNic, results: Sequence[DeviceRequestAllocationResult]) -> dict[str, Any]:
    """Return what is left of a NIC: bits per second of bandwidth, or VFs."""
    pool = vf_pool(nic)
    if pool is not None and any(result.device == pool.name for result in results):
        total = len(pool.vfs)
        return {"vfs": {"free": total - sum(result.device == pool.name for result in results), "total": total}}
    return {"bandwidth": (nic.bandwidth or 0) - sum(_bandwidth(result) or 0 for result in results)}


def nic_left_text(nic: RdmaNic, results: Sequence[DeviceRequestAllocationResult]) -> str:
    """Return the same in a few words."""
    left = nic_left(nic, results)
    if "vfs" in left:
        return f"{left['vfs']['free']} of {left['vfs']['total']} VFs"
    return f"{Quantity.of(left['bandwidth'])}bit/s"


def _bandwidth(result: DeviceRequestAllocationResult) -> int | None:
    allocated = result.consumed_capacity.get(attributes.BANDWIDTH)
    return None if allocated is None else allocated.ceil()
