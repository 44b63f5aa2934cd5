"""The GPUs and NICs of a node, read from its slices.

A GPU is published as several devices (whole, by percent, as MIG partitions), of which the names tell that they are one:
all have its PCI address (:mod:`driver.model.parts`). Nodes of one kind have equal layouts, which are one object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.view import NodeView
from driver.api.resource_v1 import Device
from driver.layout import attributes
from driver.memo import Memo
from driver.model.devices import DeviceType
from driver.model.managed_nodes import TAINT

__all__ = ["GpuPlace", "Layouts", "NicPlace", "NodeLayout"]

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-9a-f](?![0-9a-z])")
_LINKS: Final = (attributes.NVLINK_DOMAIN, attributes.NVLINK_OCTET, attributes.NVLINK_QUAD, attributes.NVLINK_PAIR)
_GPUS: Final = frozenset({DeviceType.GPU.value, DeviceType.GPU_RATIO.value, DeviceType.MIG.value})
_NICS: Final = frozenset({DeviceType.RDMA.value, DeviceType.RDMA_VF.value})
_SLICE: Final = re.compile(r"m[0-9]+")
"""The counters of a GPU's memory slices (:mod:`driver.layout.counters`)."""
_REFUSING: Final = frozenset({"NoSchedule", "NoExecute"})
_KINDS: Final = 4096
_PARTS: Final = 1000


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """A GPU.

    Attributes:
        name: Of the GPU as a whole, for people and results.
        model: The product.
        sizes: Of its devices that are given in shares, by name: how much there is of each capacity, in nano-units.
        partitions: Its MIG partitions by name: how many thousandths of the GPU each takes.
        whole: The names of the devices that are the whole GPU, if nobody shares them.
        links: The groups that it is in, from the widest to the smallest: NVLink domain, octet, quad, pair; empty texts
            where it is in none.
        switch: Its PCIe switch; empty for none.
        numa: Its NUMA node; -1 where it is not known.
        is_open: Whether new claims may have it: no taint keeps them away, but for that of managed nodes.
    """

    name: str
    model: str
    sizes: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    partitions: tuple[tuple[str, int], ...]
    whole: tuple[str, ...]
    links: tuple[str, str, str, str]
    switch: str
    numa: int
    is_open: bool

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all its devices."""
        return (*self.whole, *[name for name, _ in self.partitions])


@dataclass(frozen=True, slots=True)
class NicPlace:
    """A NIC, a virtual function, or a NIC's pool of them: one device.

    Attributes:
        device: Its name.
        switch: Its PCIe switch; empty for none.
        numa: Its NUMA node; -1 where it is not known.
    """

    device: str
    switch: str
    numa: int


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The GPUs and NICs of a node.

    Attributes:
        gpus: In the order of their first devices in the slices.
        nics: In the order of the slices.
    """

    gpus: tuple[GpuPlace, ...]
    nics: tuple[NicPlace, ...]

    @property
    def model(self) -> str:
        """The model of its GPUs: all models, where it has several."""
        return " and ".join(dict.fromkeys(gpu.model for gpu in self.gpus))


class Layouts:
    """Reads layouts; equal ones are one object."""

    def __init__(self) -> None:
        self._known: Memo[NodeLayout, NodeLayout] = Memo(_KINDS)

    def of(self, view: NodeView) -> NodeLayout:
        """Return the layout of what a node sees."""
        gpus: dict[str, list[Device]] = {}
        nics: list[NicPlace] = []
        totals: dict[str, int] = {}
        for pool in view.pools:
            if pool.id.driver != DRIVER_NAME:
                continue
            for owner, counter in pool.counters:
                if _SLICE.fullmatch(counter):
                    totals[owner] = totals.get(owner, 0) + 1
            for part in pool.slices:
                for device in part.source:
                    kind = _text(device, attributes.TYPE) or DeviceType.GPU.value
                    if kind in _GPUS:
                        found = _ADDRESS.search(device.name)
                        gpus.setdefault(found.group() if found else device.name, []).append(device)
                    elif kind in _NICS:
                        switch, numa = _text(device, attributes.PCIE_SWITCH), _number(device, attributes.NUMA_NODE)
                        nics.append(NicPlace(device.name, switch, numa))
        layout = NodeLayout(tuple([_gpu(devices, totals) for devices in gpus.values()]), tuple(nics))
        return self._known.of(layout, lambda: layout)


def _gpu(devices: list[Device], slices: Mapping[str, int]) -> GpuPlace:
    """Return the GPU of these devices; ``slices`` has how many memory slices each counter set counts."""
    whole = [device for device in devices if _text(device, attributes.TYPE) != DeviceType.MIG.value]
    first = whole[0] if whole else devices[0]
    memory = max((_capacity(device).get(attributes.MEMORY, 0) for device in devices), default=0)
    return GpuPlace(
        name=first.name,
        model=_text(first, attributes.MODEL),
        sizes=tuple((device.name, tuple(sorted(_capacity(device).items()))) for device in whole),
        partitions=tuple(
            (device.name, _part(device, slices, memory))
            for device in devices
            if _text(device, attributes.TYPE) == DeviceType.MIG.value
        ),
        whole=tuple(device.name for device in whole),
        links=(
            _text(first, _LINKS[0]),
            _text(first, _LINKS[1]),
            _text(first, _LINKS[2]),
            _text(first, _LINKS[3]),
        ),
        switch=_text(first, attributes.PCIE_SWITCH),
        numa=_number(first, attributes.NUMA_NODE),
        is_open=not any(taint.effect in _REFUSING and taint.key != TAINT for taint in first.taints),
    )


def _part(device: Device, slices: Mapping[str, int], memory: int) -> int:
    """Return how many thousandths of its GPU a partition takes: by memory slices, or else by memory."""
    for consumed in device.consumes_counters:
        total = slices.get(consumed.counter_set, 0)
        if total:
            taken = sum(1 for name in consumed.counters if _SLICE.fullmatch(name))
            return _PARTS * taken // total
    own = _capacity(device).get(attributes.MEMORY, 0)
    return _PARTS * own // memory if memory else _PARTS


def _capacity(device: Device) -> dict[str, int]:
    return {name: capacity.value.nano for name, capacity in device.capacity.items() if capacity.value.nano > 0}


def _text(device: Device, name: str) -> str:
    value = device.attributes.get(name)
    if value is None:
        return ""
    # Of a list, the first is the device's own.
    return value.string_value or next(iter(value.string_values or ()), "")


def _number(device: Device, name: str) -> int:
    value = device.attributes.get(name)
    return value.int_value if value is not None and value.int_value is not None else -1
