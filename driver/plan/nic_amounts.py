"""Reads how much of a NIC an allocation gives: bandwidth of a physical function, or one of its virtual functions.

As with GPUs (:mod:`driver.plan.amounts`), ``consumedCapacity`` is checked again. Bandwidth is advisory:
nothing keeps a container to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.validation.errors import FieldError, shown
from driver.errors import NodeError
from driver.model.devices import RdmaNic
from driver.model.parts import RdmaVfPool
from driver.plan.allocated import AllocatedDevice

__all__ = ["BANDWIDTH", "nic_amount_errors", "share_of_bandwidth"]

BANDWIDTH: Final = "bandwidth"
"""The capacity of a shareable NIC, in bits per second."""

_VFS: Final = "vfs"
_DOMAIN: Final = f"{DRIVER_NAME}/"


def nic_amount_errors(item: AllocatedDevice) -> Iterator[FieldError]:
    """Yield what is wrong with how much of a NIC or of its virtual functions was allocated; nothing for other devices.

    Without ``consumedCapacity`` and share id it is the whole NIC, or one virtual function: of clusters without the
    feature gate DRAConsumableCapacity.
    """
    if not isinstance(item.device, RdmaNic | RdmaVfPool) or (not item.consumed and item.share_id is None):
        return
    capacity = BANDWIDTH if isinstance(item.device, RdmaNic) else _VFS
    if item.share_id is None:
        what = "is missing: kube-scheduler gives one to each share of a device"
        yield FieldError(f"{item.where}.shareID", f"{what} ({item.at})")
    if not item.consumed:
        what = "is missing: a share of a device says how much of it"
        yield FieldError(f"{item.where}.consumedCapacity", f"{what} ({item.at})")
        return
    named = 0
    for key, value in item.consumed.items():
        path = item.capacity_path(key)
        if key.removeprefix(_DOMAIN) != capacity:
            what = f"a device of type {item.device.type} has {capacity} to consume"
            yield FieldError(path, f"{shown(str(value))}: {what} ({item.at})")
            continue
        named += 1
        if named > 1:
            yield FieldError(path, f"{shown(str(value))}: {capacity} is named twice ({item.at})")
        elif capacity == _VFS and value != Quantity.of(1):
            yield FieldError(path, f"{shown(str(value))}: expected 1 ({item.at})")
        elif not (value.is_whole() and value >= Quantity.of(1)):
            expected = "expected whole bits per second, at least 1"
            yield FieldError(path, f"{shown(str(value))}: {expected} ({item.at})")
    if not named:
        path = item.capacity_path(capacity)
        yield FieldError(path, f"is missing: a share says how much it takes ({item.at})")


def share_of_bandwidth(item: AllocatedDevice) -> int | None:
    """Return the bits per second of a share of a NIC; None where the NIC is given whole, and for other devices.

    Args:
        item: One in which :func:`nic_amount_errors` finds nothing.

    Raises:
        NodeError: It is more than the NIC has: the link is slower than when the claim was allocated.
    """
    if not isinstance(item.device, RdmaNic) or not item.consumed:
        return None
    asked = next(iter(item.consumed.values())).ceil()
    has = item.device.bandwidth
    if has is not None and asked > has and not item.admin_access:
        raise NodeError(
            f"{item.subject} was allocated {Quantity.of(asked)} bits per second, but its link has {Quantity.of(has)}",
            hint="check the NIC's cable and switch port, or delete the pod so that its claim is allocated anew",
        )
    return None if asked == has else asked
