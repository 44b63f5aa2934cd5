"""Koordinator's view of devices: resources of GPUs, NICs and FPGAs by their minors, and a node's summary in its shape.

Sources: koordinator-sh/koordinator, pkg/scheduler/plugins/deviceshare (the shape of the summary) and
apis/extension/device_share.go (the names of the resources). As there,

- the keys of a type's devices are minors: N of /dev/nvidiaN; for NICs and FPGAs their order on the node,
- a NIC and an FPGA are 100 each, a part of a NIC (a VF or a share) in proportion,
- a device that is not available, such as an unhealthy one, has no resources at all.

The devices of a claim whose pods are not known yet count as used, but are in no entry of ``allocateSet``. The devices
of a claim with several pods are in the entry of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import Device, DeviceAllocation, DeviceAmounts, DeviceStatus
from driver.status.overview import ReadyState, has_rival, is_offered

__all__ = ["DOMAINS", "TODAY", "Card", "Resources", "add", "node_device_summary", "wire"]

TODAY: Final = "koordinator.sh"
"""The domain of the resources' names today."""

DOMAINS: Final = (TODAY, "kubernetes.io")
"""Today's, and that of the first releases and of the documentation's examples."""

_ALL: Final = 100
_TYPES: Final = ("gpu", "rdma", "fpga")  # a VF is a part of its NIC

Resources: TypeAlias = dict[str, Quantity]
"""Amounts by the resources' names, without their domain."""

_Detail: TypeAlias = dict[str, dict[str, Resources]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU, a NIC with its VFs, or an FPGA.

    Attributes:
        type: ``gpu``, ``rdma`` or ``fpga``.
        name: The device's name in the pool.
        minor: Which of its type it is on the node.
        memory: A GPU's memory; None where it is not known.
        status: What it has and what of it is allocated; None where it has no status.
    """

    type: str
    name: str
    minor: int
    memory: Quantity | None = None
    status: DeviceStatus | None = None

    def total(self) -> Resources:
        """Return all of it."""
        if self.type != "gpu":
            return {self.type: Quantity.of(_ALL)}
        found = {"gpu-core": Quantity.of(_ALL)}
        memory = self._memory
        return found if memory is None else found | {"gpu-memory": memory, "gpu-memory-ratio": Quantity.of(_ALL)}

    def used(self) -> Resources:
        """Return what is allocated of it."""
        allocated = self.status.allocated if self.status else None
        if self.type == "gpu":
            core, memory = (allocated.core, allocated.memory) if allocated else (None, None)
            return self._gpu(core or 0, memory or Quantity.of(0))
        is_held = self.status is not None and bool(self.status.allocations)
        of, whole = self._measure(allocated or DeviceAmounts())
        return {self.type: Quantity.of(_percent(of, whole) if is_held else 0)}

    def parts(self, items: Iterable[DeviceAllocation]) -> Iterator[Resources]:
        """Yield what each of these allocations has of the card.

        Of a NIC these are whole percent that add up to the percent of all of them, rounded up: of 8 VFs one has 13, and
        the next 12.
        """
        if self.type == "gpu":
            yield from (self._gpu(item.core, item.memory) for item in items)
            return
        sums: dict[int, int] = {}  # by what all of it is: a NIC is given by bandwidth or by VFs
        for item in items:
            of, whole = self._measure(self._amounts(item))
            before = sums.get(whole, 0)
            sums[whole] = before + of
            yield {self.type: Quantity.of(_percent(before + of, whole) - _percent(before, whole))}

    def _amounts(self, item: DeviceAllocation) -> DeviceAmounts:
        is_vf = item.device != self.name
        return DeviceAmounts(bandwidth=item.bandwidth, bandwidth_ratio=item.bandwidth_ratio, vfs=1 if is_vf else None)

    def _measure(self, amounts: DeviceAmounts) -> tuple[int, int]:
        """Return an amount of a NIC or FPGA and what all of it is; all of it where it is not given in parts."""
        capacity = (self.status.capacity if self.status else None) or DeviceAmounts()
        if capacity.vfs and amounts.vfs:
            # VFs without device nodes can be given to nobody; while none can, such as on an unhealthy NIC, all count.
            allocatable = self.status.allocatable if self.status else None
            return amounts.vfs, (allocatable.vfs if allocatable else None) or capacity.vfs
        if capacity.bandwidth and amounts.bandwidth:
            return amounts.bandwidth.ceil(), capacity.bandwidth.ceil()
        if capacity.bandwidth_ratio and amounts.bandwidth_ratio:
            return amounts.bandwidth_ratio, capacity.bandwidth_ratio
        return _ALL, _ALL

    def _gpu(self, core: int | None, memory: Quantity | None) -> Resources:
        found = {} if core is None else {"gpu-core": Quantity.of(core)}
        whole = self._memory
        if memory is not None and whole is not None:
            ratio = _percent(memory.ceil(), whole.ceil())
            found |= {"gpu-memory": memory, "gpu-memory-ratio": Quantity.of(ratio)}
        return found

    @property
    def _memory(self) -> Quantity | None:
        capacity = self.status.capacity if self.status else None
        return (capacity.memory if capacity else None) or self.memory


@dataclass(frozen=True, slots=True)
class _Summary:
    total: _Detail = field(default_factory=dict)
    free: _Detail = field(default_factory=dict)
    used: _Detail = field(default_factory=dict)
    allocated: dict[str, dict[str, dict[str, Resources]]] = field(default_factory=dict)


def node_device_summary(
    devices: Iterable[Device], *, state: ReadyState, cannot_prepare: bool = False, domain: str
) -> dict[str, Any]:
    """Return the summary of one node, as JSON.

    Args:
        devices: The node's Device objects.
        state: Whether its plugin reports that it is ready; the devices of a silent node are not available.
        cannot_prepare: Whether its plugin can prepare no claim; its devices are not available either then.
        domain: The domain of the resources' names, one of :data:`DOMAINS`.
    """
    made = _Summary()
    is_away = state == "Silent" or cannot_prepare
    for device in devices:
        if device.spec.type not in _TYPES:
            continue
        card = _card(device)
        minor = str(card.minor)
        total, used = {} if is_away or not _is_available(device) else card.total(), card.used()
        made.total.setdefault(card.type, {})[minor] = total
        made.used.setdefault(card.type, {})[minor] = used
        made.free.setdefault(card.type, {})[minor] = {name: _left(total[name], used.get(name)) for name in total}
        for pod, resources in _holders(card):
            there = made.allocated.setdefault(card.type, {}).setdefault(pod, {}).setdefault(minor, {})
            add(there, resources)
    return {
        "deviceTotal": wire(_sum(made.total), domain),
        "deviceFree": wire(_sum(made.free), domain),
        "deviceUsed": wire(_sum(made.used), domain),
        "deviceTotalDetail": _detail(made.total, domain),
        "deviceFreeDetail": _detail(made.free, domain),
        "deviceUsedDetail": _detail(made.used, domain),
        "allocateSet": {kind: _detail(pods, domain) for kind, pods in made.allocated.items()},
    }


def add(into: Resources, more: Mapping[str, Quantity]) -> None:
    """Add the amounts of ``more`` to those of ``into``."""
    for name, amount in more.items():
        into[name] = into[name] + amount if name in into else amount


def wire(resources: Resources, domain: str) -> dict[str, str]:
    """Return resources as JSON, by their full names in order."""
    return {f"{domain}/{name}": str(amount) for name, amount in sorted(resources.items())}


def _card(device: Device) -> Card:
    spec = device.spec
    minor = spec.minor if spec.type == "gpu" and spec.minor is not None else spec.index
    return Card(type=spec.type, name=spec.device_name, minor=minor, memory=spec.memory, status=device.status)


def _is_available(device: Device) -> bool:
    is_unhealthy = device.status is not None and device.status.state == "Unhealthy"
    return is_offered(device) and not is_unhealthy and not has_rival(device)


def _holders(card: Card) -> Iterator[tuple[str, Resources]]:
    items: Sequence[DeviceAllocation] = card.status.allocations if card.status else ()
    for item, resources in zip(items, card.parts(items), strict=True):
        yield from ((f"{item.namespace}/{pod.name}", resources) for pod in item.pods)


def _percent(part: int, whole: int) -> int:
    """Return the percentage, rounded up, so that nothing in use is shown as free."""
    return min(-(-part * _ALL // whole), _ALL) if whole > 0 else 0


def _left(total: Quantity, used: Quantity | None) -> Quantity:
    left = total if used is None else total - used
    return left if left.nano >= 0 else Quantity.of(0)


def _sum(detail: _Detail) -> Resources:
    found: Resources = {}
    for devices in detail.values():
        for resources in devices.values():
            add(found, resources)
    return found


def _detail(detail: Mapping[str, Mapping[str, Resources]], domain: str) -> dict[str, Any]:
    return {
        kind: {
            minor: wire(resources, domain)
            for minor, resources in sorted(devices.items(), key=lambda item: int(item[0]))
        }
        for kind, devices in detail.items()
    }
