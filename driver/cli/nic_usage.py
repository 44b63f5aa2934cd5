"""Counts what is allocated and left of RDMA NICs that several claims share: their bandwidth, and VFs of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceRequestAllocationResult
from driver.layout import attributes
from driver.model.devices import DeviceName, RdmaNic
from driver.model.parts import AllocatableDevice, RdmaVfPool, vf_pool

__all__ = ["bandwidth_share", "nic_left", "nic_left_text", "vf_share"]


_ALL: Final = 100
_BANDWIDTHS: Final = (attributes.BANDWIDTH, attributes.BANDWIDTH_RATIO)


def vf_share(device: AllocatableDevice, vf: DeviceName | None) -> str:
    """Return which VF of a pool was allocated; empty for what is no pool."""
    return (vf or "1 VF") if isinstance(device, RdmaVfPool) else ""


def bandwidth_share(device: AllocatableDevice, result: DeviceRequestAllocationResult) -> str:
    """Return the bandwidth that was allocated of a NIC, or to a VF; empty for all of a NIC, and for nothing of it."""
    ratio, allocated = _amount(result, attributes.BANDWIDTH_RATIO), _amount(result, attributes.BANDWIDTH)
    has = device.bandwidth if isinstance(device, RdmaNic) else None
    if ratio:
        return f"{ratio}%" if ratio < _ALL or not isinstance(device, RdmaNic) else ""
    if not allocated or (has is not None and allocated >= has):
        return ""
    return f"{Quantity.of(allocated)}bit/s"


def nic_left(nic: RdmaNic, results: Sequence[DeviceRequestAllocationResult]) -> dict[str, Any]:
    """Return what is left of a NIC: its VFs, and its bandwidth in bits per second or in percent.

    Of a pool of VFs the bandwidth is told only where a VF has reserved some.
    """
    pool = vf_pool(nic)
    left: dict[str, Any] = {}
    if pool is not None and any(result.device == pool.name for result in results):
        total = len(pool.vfs)
        left = {"vfs": {"free": total - sum(result.device == pool.name for result in results), "total": total}}
        if not any(_amount(result, name) for result in results for name in _BANDWIDTHS):
            return left
    ratio = sum(_amount(result, attributes.BANDWIDTH_RATIO) for result in results)
    if ratio or not nic.bandwidth:
        return left | {"bandwidthRatio": _ALL - ratio}
    return left | {"bandwidth": nic.bandwidth - sum(_amount(result, attributes.BANDWIDTH) for result in results)}


def nic_left_text(nic: RdmaNic, results: Sequence[DeviceRequestAllocationResult]) -> str:
    """Return the same in a few words."""
    left = nic_left(nic, results)
    vfs = f"{left['vfs']['free']} of {left['vfs']['total']} VFs" if "vfs" in left else ""
    ratio = f"{left['bandwidthRatio']}%" if "bandwidthRatio" in left else ""
    bandwidth = f"{Quantity.of(left['bandwidth'])}bit/s" if "bandwidth" in left else ""
    return ", ".join(filter(None, (vfs, ratio, bandwidth)))


def _amount(result: DeviceRequestAllocationResult, name: str) -> int:
    allocated = result.consumed_capacity.get(name)
    return 0 if allocated is None else allocated.ceil()
