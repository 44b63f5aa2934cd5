"""Reads how much of a GPU an allocation gives: percent of its core, bytes of its memory.

kube-scheduler writes what a share takes of each capacity into ``consumedCapacity``, after the request policies of the
ResourceSlice (KEP-5075). What stands there is checked again: this is the last place before a container gets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from driver import DRIVER_NAME
from driver.api.allocated_claim import AnyAlternative, AnyClaim, AnyDeviceRequest, AnyRequest
from driver.api.quantity import Quantity
from driver.api.validation.errors import FieldError, shown
from driver.config.shares import share_errors
from driver.model.devices import Gpu, RdmaNic
from driver.model.parts import GpuRatio, RdmaVfPool
from driver.model.shares import LEAST_MEMORY, largest_share
from driver.plan.allocated import AllocatedDevice
from driver.plan.nic_amounts import BANDWIDTH

if TYPE_CHECKING:  # most plugins have read none, and need not load it
    from driver.api.gpu_policies import GpuPolicy

__all__ = ["GpuAmount", "amount_of", "request_errors"]

_CORE: Final = "core"
_MEMORY: Final = "memory"
_MEMORY_RATIO: Final = "memoryRatio"
_SHARES: Final = "shares"
_ALL: Final = 100
_DOMAIN: Final = f"{DRIVER_NAME}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAmount:
    """An allocated amount of a GPU.

    Attributes:
        core: Percent of its core that is reserved, 0 to 100; all of it where nobody else can be given a share.
        memory_bytes: Bytes of its memory, at least 1 and at most all of it; None where the GPU's is not known.
        whole: Whether nobody else can be given a share: it is all of the memory, or, where the GPU's memory is not
            known, all of the core.
    """

    core: int
    memory_bytes: int | None
    whole: bool


def amount_of(item: AllocatedDevice, policy: GpuPolicy | None = None) -> GpuAmount | tuple[FieldError, ...] | None:
    """Return how much of a GPU was allocated; None for devices without shares; or what is wrong with the allocation.

    Without ``consumedCapacity`` it is the whole GPU: slices of before shares, and clusters without the feature gate
    DRAConsumableCapacity.

    Args:
        item: The device that was allocated.
        policy: The administrator's rules for it, which tell how much memory a share can have at most; None for none.
    """
    if isinstance(item.device, RdmaNic | RdmaVfPool):
        return None  # driver.plan.nic_amounts
    if not isinstance(item.device, Gpu | GpuRatio):
        return tuple(_no_share(item)) or None
    if not item.consumed:
        if item.share_id is not None:
            what = "is missing: a share of a device says how much of it"
            return (FieldError(f"{item.where}.consumedCapacity", f"{what} ({item.at})"),)
        return GpuAmount(core=_ALL, memory_bytes=item.gpu.memory_bytes if item.gpu else None, whole=True)
    return _consumed(item, item.device, policy)


def request_errors(claim: AnyClaim, allocated: Sequence[AllocatedDevice]) -> Iterator[FieldError]:
    """Yield what is wrong with the capacities that the claim asks for, where a request was given a GPU or a NIC.

    A request policy rounds: a claim that asks for 33.3 percent is allocated 34. So the allocation alone is not enough.
    The alternatives of a prioritized list that were not taken may be other drivers': they are left alone.
    """
    by_request: dict[str, list[AllocatedDevice]] = {}
    for item in allocated:
        if item.gpu is not None or item.nic is not None:
            by_request.setdefault(item.request, []).append(item)
    requests: Sequence[AnyDeviceRequest] = claim.spec.devices.requests
    for index, request in enumerate(requests):
        for path, name, part in _parts(f"spec.devices.requests[{index}]", request):
            if name in by_request and part.capacity is not None:
                where = f"{path}.capacity.requests"
                yield from share_errors(part.capacity.requests, where)
                yield from _over_the_card(part.capacity.requests, where, by_request[name])


def _parts(path: str, request: AnyDeviceRequest) -> Iterator[tuple[str, str, AnyRequest]]:
    if request.exactly is not None:
        yield f"{path}.exactly", request.name, request.exactly
    alternatives: Sequence[AnyAlternative] = request.first_available
    for index, part in enumerate(alternatives):
        yield f"{path}.firstAvailable[{index}]", f"{request.name}/{part.name}", part


def _over_the_card(
    requests: Mapping[str, Quantity], where: str, allocated: Sequence[AllocatedDevice]
) -> Iterator[FieldError]:
    for key, value in requests.items():
        name = key.removeprefix(_DOMAIN)
        for item in allocated:
            has = _has(item, name)
            if has is not None and value > has:
                yield FieldError(f"{where}[{key}]", f"{shown(str(value))} is more than {item.device.name} has ({has})")
                break


def _has(item: AllocatedDevice, capacity: str) -> Quantity | None:
    if capacity == _MEMORY and item.gpu is not None and item.gpu.memory_bytes is not None:
        return Quantity.of(item.gpu.memory_bytes, binary=True)
    if capacity == BANDWIDTH and item.nic is not None:
        bandwidth = item.nic.bandwidth
        return None if bandwidth is None else Quantity.of(bandwidth)
    return None


def _no_share(item: AllocatedDevice) -> Iterator[FieldError]:
    """Yield what is wrong with a device that is given once and as a whole."""
    if item.share_id is not None:
        what = f"{shown(item.share_id)}: devices of type {item.device.type} are not given in shares"
        yield FieldError(f"{item.where}.shareID", f"{what} ({item.at})")
    for key, value in item.consumed.items():
        what = f"{shown(str(value))}: devices of type {item.device.type} have no capacity to consume"
        yield FieldError(item.capacity_path(key), f"{what} ({item.at})")


def _consumed(
    item: AllocatedDevice, device: Gpu | GpuRatio, policy: GpuPolicy | None
) -> GpuAmount | tuple[FieldError, ...]:
    errors: list[FieldError] = []
    values = _values(item, _MEMORY_RATIO if isinstance(device, GpuRatio) else _MEMORY, errors)
    if item.share_id is None and not errors:
        what = "is missing: kube-scheduler gives one to each share of a device"
        errors.append(FieldError(f"{item.where}.shareID", f"{what} ({item.at})"))
    core = _within(item, values, _CORE, _ALL, "percent", errors, least=0)
    if isinstance(device, GpuRatio):
        ratio = _within(item, values, _MEMORY_RATIO, _ALL, "percent", errors)
        memory, whole = device.memory_bytes(ratio), ratio == _ALL
    elif device.memory_bytes is None:
        # What the slice said once is not known any more; only all of the core needs no limit.
        memory, whole = None, core == _ALL
        if core != _ALL and _MEMORY in values:
            what = f"{shown(str(values[_MEMORY][1]))}: the node's inventory does not have the GPU's memory any more"
            errors.append(FieldError(item.capacity_path(values[_MEMORY][0]), f"{what} ({item.at})"))
    elif _MEMORY not in values and core == _ALL:
        memory, whole = device.memory_bytes, True
    else:
        memory = _within(item, values, _MEMORY, device.memory_bytes, "bytes", errors)
        whole = memory >= _most_memory(device.memory_bytes, policy)
    if errors:
        return tuple(errors)
    return GpuAmount(core=_ALL if whole else core, memory_bytes=memory, whole=whole)


def _most_memory(memory: int, policy: GpuPolicy | None) -> int:
    if policy is None:
        return largest_share(memory, minimum=LEAST_MEMORY, step=LEAST_MEMORY)
    return largest_share(memory, minimum=policy.memory.minimum.ceil(), step=policy.memory.step.ceil())


def _values(item: AllocatedDevice, memory: str, errors: list[FieldError]) -> dict[str, tuple[str, Quantity]]:
    """Return the consumed capacity by name without the driver's domain, each with the key as it is written."""
    values: dict[str, tuple[str, Quantity]] = {}
    for key, value in item.consumed.items():
        name = key.removeprefix(_DOMAIN)
        if name not in (_CORE, memory, _SHARES):
            known = f"a device of type {item.device.type} has {_CORE} and {memory}"
            what = f"{shown(str(value))}: {known} to consume ({item.at})"
            errors.append(FieldError(item.capacity_path(key), what))
        elif name in values:
            errors.append(
                FieldError(item.capacity_path(key), f"{shown(str(value))}: {name} is named twice ({item.at})")
            )
        else:
            values[name] = (key, value)
    if _SHARES in values and values[_SHARES][1] != Quantity.of(1):
        key, value = values[_SHARES]
        errors.append(FieldError(item.capacity_path(key), f"{shown(str(value))}: expected 1 ({item.at})"))
    return values


def _within(
    item: AllocatedDevice,
    values: Mapping[str, tuple[str, Quantity]],
    name: str,
    most: int,
    unit: str,
    errors: list[FieldError],
    *,
    least: int = 1,
) -> int:
    if name not in values:
        errors.append(FieldError(item.capacity_path(name), f"is missing: a share says how much it takes ({item.at})"))
        return 1
    key, value = values[name]
    if not value.is_whole() or not least <= value.ceil() <= most:
        expected = f"expected a whole number of {unit} from {least} to {most}"
        errors.append(FieldError(item.capacity_path(key), f"{shown(str(value))}: {expected} ({item.at})"))
        return 1
    return value.ceil()
