"""Reads how much of a NIC an allocation gives: of its bandwidth, by a share of the NIC itself or beside a VF of a pool.

As with GPUs (:mod:`driver.plan.amounts`), ``consumedCapacity`` is checked again. Bandwidth is advisory: nothing keeps
a container to it, but a VF may be limited to its own (:class:`driver.plan.effects.ConfigureVf`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.validation.errors import FieldError, shown
from driver.errors import NodeError
from driver.model.devices import RdmaNic
from driver.model.parts import RdmaVfPool
from driver.plan.allocated import AllocatedDevice

__all__ = ["BANDWIDTH", "NicAmount", "nic_amount_errors", "nic_amount_of"]

BANDWIDTH: Final = "bandwidth"
"""The capacity of NICs and of pools of VFs, in bits per second."""

_RATIO: Final = "bandwidthRatio"
"""The same in percent."""

_VFS: Final = "vfs"
_ALL: Final = 100
_DOMAIN: Final = f"{DRIVER_NAME}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class NicAmount:
    """An allocated amount of a NIC's bandwidth: of one unit, the other is None.

    Both are None for all of a NIC, for a VF without bandwidth of its own, and for other devices.

    Attributes:
        bandwidth: Bits per second.
        ratio: Percent of what the NIC has.
    """

    bandwidth: int | None = None
    ratio: int | None = None

    def __bool__(self) -> bool:
        return self.bandwidth is not None or self.ratio is not None

    def bits_per_second(self, has: int | None) -> int | None:
        """Return it in bits per second, rounded up; None where that cannot be said.

        Args:
            has: All of the NIC's bandwidth, in bits per second; None where it is not known.
        """
        if self.ratio is not None and has is not None:
            return -(-has * self.ratio // _ALL)
        return self.bandwidth


_NOTHING: Final = NicAmount()


def nic_amount_errors(item: AllocatedDevice) -> Iterator[FieldError]:
    """Yield what is wrong with how much of a NIC or of its virtual functions was allocated; nothing for other devices.

    Without ``consumedCapacity`` and share id it is the whole NIC, or one virtual function: of clusters without the
    feature gate DRAConsumableCapacity. An older Rootport published pools without bandwidth.
    """
    if not isinstance(item.device, RdmaNic | RdmaVfPool) or (not item.consumed and item.share_id is None):
        return
    if item.share_id is None:
        what = "is missing: kube-scheduler gives one to each share of a device"
        yield FieldError(f"{item.where}.shareID", f"{what} ({item.at})")
    if not item.consumed:
        what = "is missing: a share of a device says how much of it"
        yield FieldError(f"{item.where}.consumedCapacity", f"{what} ({item.at})")
        return
    is_pool = isinstance(item.device, RdmaVfPool)
    has = f"{BANDWIDTH} or {_RATIO}"
    named: set[str] = set()
    for key, value in item.consumed.items():
        path, name = item.capacity_path(key), key.removeprefix(_DOMAIN)
        if name not in (BANDWIDTH, _RATIO) and not (is_pool and name == _VFS):
            what = f"a device of type {item.device.type} has {f'{_VFS}, {has}' if is_pool else has} to consume"
            yield FieldError(path, f"{shown(str(value))}: {what} ({item.at})")
            continue
        if name in named:
            yield FieldError(path, f"{shown(str(value))}: {name} is named twice ({item.at})")
        named.add(name)
        if wrong := _wrong(name, value, least=0 if is_pool else 1):
            yield FieldError(path, f"{shown(str(value))}: {wrong} ({item.at})")
    if {BANDWIDTH, _RATIO} <= named:
        what = f"{BANDWIDTH} and {_RATIO} are two ways to say one amount: expected one of them"
        yield FieldError(f"{item.where}.consumedCapacity", f"{what} ({item.at})")
    if not named & ({_VFS} if is_pool else {BANDWIDTH, _RATIO}):
        path = item.capacity_path(_VFS if is_pool else BANDWIDTH)
        yield FieldError(path, f"is missing: a share says how much it takes ({item.at})")


def _wrong(name: str, value: Quantity, *, least: int) -> str | None:
    if name == _VFS:
        return None if value == Quantity.of(1) else "expected 1"
    is_enough = value.is_whole() and value >= Quantity.of(least)
    if name == BANDWIDTH:
        return None if is_enough else f"expected whole bits per second, at least {least}"
    return None if is_enough and value <= Quantity.of(_ALL) else f"expected whole percent from {least} to {_ALL}"


def nic_amount_of(item: AllocatedDevice) -> NicAmount:
    """Return how much of a NIC's bandwidth was allocated.

    Args:
        item: One in which :func:`nic_amount_errors` finds nothing.

    Raises:
        NodeError: It is more than the NIC has: the link is slower than when the claim was allocated.
    """
    if not isinstance(item.device, RdmaNic | RdmaVfPool):
        return _NOTHING
    consumed = {key.removeprefix(_DOMAIN): value.ceil() for key, value in item.consumed.items()}
    is_whole_nic = isinstance(item.device, RdmaNic)
    if ratio := consumed.get(_RATIO, 0):
        return _NOTHING if is_whole_nic and ratio == _ALL else NicAmount(ratio=ratio)
    asked = consumed.get(BANDWIDTH, 0)
    has = item.nic.bandwidth if item.nic is not None else None
    if has is not None and asked > has and not item.admin_access:
        raise NodeError(
            f"{item.subject} was allocated {Quantity.of(asked)} bits per second, but its link has {Quantity.of(has)}",
            hint="check the NIC's cable and switch port, or delete the pod so that its claim is allocated anew",
        )
    return _NOTHING if not asked or (is_whole_nic and asked == has) else NicAmount(bandwidth=asked)
