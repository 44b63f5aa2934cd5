"""What is given and what is left of RDMA NICs that several claims share: bandwidth, and virtual functions of a pool."""

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
    """Of a pool, which VF was given; empty for what is no pool."""
    if not isinstance(device, RdmaVfPool):
        return ""
    return vf or "1 VF"


def bandwidth_share(device: AllocatableDevice, result: DeviceRequestAllocationResult) -> str:
    """Of a NIC, the bandwidth that was given; empty where that is all of it, or no NIC."""
    given = _bandwidth(result)
    if not isinstance(device, RdmaNic) or given is None or given >= (device.bandwidth or 0):
        return ""
    return f"{Quantity.of(given)}bit/s"


def nic_left(nic: RdmaNic, results: Sequence[DeviceRequestAllocationResult]) -> dict[str, Any]:
    """As data: bits per second of bandwidth, or VFs, that are left of a NIC of which these were given."""
    pool = vf_pool(nic)
    if pool is not None and any(result.device == pool.name for result in results):
        total = len(pool.vfs)
        return {"vfs": {"free": total - sum(result.device == pool.name for result in results), "total": total}}
    return {"bandwidth": (nic.bandwidth or 0) - sum(_bandwidth(result) or 0 for result in results)}


def nic_left_text(nic: RdmaNic, results: Sequence[DeviceRequestAllocationResult]) -> str:
    """As :func:`nic_left`, in a few words."""
    left = nic_left(nic, results)
    if "vfs" in left:
        return f"{left['vfs']['free']} of {left['vfs']['total']} VFs"
    return f"{Quantity.of(left['bandwidth'])}bit/s"


def _bandwidth(result: DeviceRequestAllocationResult) -> int | None:
    given = result.consumed_capacity.get(attributes.BANDWIDTH)
    return None if given is None else given.ceil()
