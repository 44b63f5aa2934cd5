"""Refuses an allocation that gives something twice: a device, more of a card than there is, or a GPU in two modes.

kube-scheduler allows none of it; a claim may be allocated by somebody else, though. Admin access is no use of a device
(KEP-5018): it never stands in the way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from driver.api.quantity import Quantity
from driver.errors import InputError
from driver.model.devices import DeviceName, RdmaNic
from driver.model.parts import MigPartition
from driver.plan.amounts import Amount
from driver.plan.given import Given

__all__ = ["refuse_double_use"]

_ONCE: Final = "Kubernetes gives a device once unless it is shareable: delete the claim and create it anew"
_SUM: Final = "Kubernetes gives no more than there is: delete the claim and create it anew"
_ONE_MODE: Final = (
    "a GPU is given whole, in shares or in MIG partitions, one at a time: delete the claim and create it anew, with "
    "requests that differ so in claims of their own"
)


def refuse_double_use(
    given: Sequence[Given], amounts: Sequence[Amount | None], bandwidths: Sequence[int | None]
) -> None:
    """Refuse a claim that was given something twice.

    Args:
        given: What the claim was given.
        amounts: How much of each GPU; None for other devices.
        bandwidths: How many bits per second of each NIC; None where it is given whole, and for other devices.

    Raises:
        InputError: Something was given twice.
    """
    seen: set[tuple[str, DeviceName, str | None]] = set()
    for item in given:
        key = (item.base_request, item.device.name, item.share_id)
        if key in seen:
            raise InputError(f"{item.subject} is allocated twice to one request", hint=_ONCE)
        seen.add(key)
    by_device = defaultdict[DeviceName, list[Given]](list)
    by_gpu = defaultdict[DeviceName, list[tuple[Given, Amount | None]]](list)
    by_nic = defaultdict[DeviceName, list[tuple[Given, int | None]]](list)
    for item, amount, bandwidth in zip(given, amounts, bandwidths, strict=True):
        if item.admin_access:
            continue
        _refuse_second(by_device[item.device.name], item)
        by_device[item.device.name].append(item)
        if item.gpu is not None:
            by_gpu[item.gpu.name].append((item, amount))
        if isinstance(item.device, RdmaNic):
            by_nic[item.device.name].append((item, bandwidth))
    for uses in by_gpu.values():
        if len(uses) > 1:
            _refuse_modes([item for item, _ in uses])
            _refuse_sum(uses)
    for shares in by_nic.values():
        if len(shares) > 1:
            _refuse_bandwidth(shares)


def _refuse_second(others: Sequence[Given], item: Given) -> None:
    for other in others:
        if item.share_id == other.share_id or item.share_id is None or other.share_id is None:
            twice = f"{item.subject} is allocated to request {other.base_request} as well"
            raise InputError(twice, hint=_ONCE)


def _refuse_modes(uses: Sequence[Given]) -> None:
    for index, item in enumerate(uses):
        for other in uses[:index]:
            if item.device.type is not other.device.type:
                raise InputError(
                    f"{item.subject} excludes {other.device.name}, which is allocated to request {other.base_request}: "
                    "both are of one GPU",
                    hint=_ONE_MODE,
                )
            if (
                isinstance(item.device, MigPartition)
                and isinstance(other.device, MigPartition)
                and item.device.placement.overlaps(other.device.placement)
            ):
                raise InputError(
                    f"{item.subject} overlaps {other.device.name}, which is allocated to request {other.base_request}",
                    hint=_SUM,
                )


def _refuse_sum(uses: Sequence[tuple[Given, Amount | None]]) -> None:
    core = memory = 0
    for item, amount in uses:
        if amount is None or item.gpu is None:
            continue
        core += amount.core
        memory += amount.memory_bytes or 0
        if core > 100:
            raise InputError(
                f"{item.subject}: the claim's shares of this GPU are {core} percent of its core", hint=_SUM
            )
        has = item.gpu.memory_bytes
        if has is not None and memory > has:
            total, most = Quantity.of(memory, binary=True), Quantity.of(has, binary=True)
            message = f"{item.subject}: the claim's shares of this GPU are {total} of its {most} of memory"
            raise InputError(message, hint=_SUM)


def _refuse_bandwidth(shares: Sequence[tuple[Given, int | None]]) -> None:
    total = 0
    for place, (item, bandwidth) in enumerate(shares):
        has = item.nic.bandwidth if item.nic else None
        others = [other for at, (other, _) in enumerate(shares) if at != place]
        if bandwidth is None:
            raise InputError(
                f"{item.subject} is allocated with all of its bandwidth, and to request {others[0].base_request} as "
                "well",
                hint=_SUM,
            )
        total += bandwidth
        if has is not None and total > has:
            raise InputError(
                f"{item.subject}: the claim's shares of this NIC are {Quantity.of(total)} of its {Quantity.of(has)} "
                "bits per second",
                hint=_SUM,
            )
