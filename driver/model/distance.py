"""Distances between the devices of a node, in the terms of ``nvidia-smi topo -m``.

The terms and their order are those of NVML (nvml.h, nvmlGpuTopologyLevel_t) and of the legend that nvidia-smi prints.
Pure data: what a matrix looks like on a terminal is the CLI's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import total_ordering
from typing import Final

from driver.errors import InputError
from driver.model.devices import Device, Gpu, LinkKind
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from driver.model.pci_tree import on_same_card

__all__ = ["LEGEND", "Distance", "DistanceMatrix", "DistanceRow", "Level", "distance", "distances", "matrix"]


class Level(IntEnum):
    """What connects two devices, nearest first."""

    X = 0
    NV = 1
    XGMI = 2
    PIX = 3
    PXB = 4
    PHB = 5
    NODE = 6
    SYS = 7


LEGEND: Final[Mapping[str, str]] = {
    "X": "the device itself",
    "NV#": "# NVLinks, direct or by way of NVSwitches",
    "XGMI#": "# direct xGMI links (AMD Infinity Fabric)",
    "PIX": "one PCIe switch at most (a card's own switch does not count)",
    "PXB": "several PCIe switches, without the CPU",
    "PHB": "the PCIe host bridge, typically the CPU",
    "NODE": "two PCIe host bridges of one NUMA node",
    "SYS": "the interconnect between NUMA nodes, such as UPI or Infinity Fabric",
}
"""What the texts of a :class:`Distance` mean."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Distance:
    """How two devices are connected; ``a < b`` means that a is nearer.

    Attributes:
        level: The connection.
        links: Number of links, for NV and XGMI; more links are nearer.
    """

    level: Level
    links: int = 0

    def __lt__(self, other: Distance) -> bool:
        return (self.level, -self.links) < (other.level, -other.links)

    def __str__(self) -> str:
        return f"{self.level.name}{self.links or ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceRow:
    """One device's row of the matrix.

    Attributes:
        label: ``GPU0``, ``NIC0``, ``NIC0-VF3``, ``FPGA0``.
        device: The device.
        distances: To each device of the matrix, in the order of its rows.
    """

    label: str
    device: Device
    distances: tuple[Distance, ...]

    @property
    def numa_node(self) -> int | None:
        """The device's NUMA affinity; None where it is not known."""
        return self.device.pcie.numa_node


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceMatrix:
    """All distances of a node.

    Attributes:
        rows: One a device; columns are in the same order.
    """

    rows: tuple[DistanceRow, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns' labels."""
        return tuple(row.label for row in self.rows)


def distance(inventory: Inventory, a: PciAddress, b: PciAddress) -> Distance:
    """Return how two devices of one node are connected.

    GPUs that are linked: NV# or XGMI#, whatever PCIe says. Otherwise, by the path in the PCIe tree:

    - functions of one card: PIX;
    - a common switch: PIX where it is the only switch on the way, PXB where there are more;
    - a common root port, but no common switch: PIX, or PXB where one of them is behind a switch of its own;
    - a common root: PHB, unless their NUMA nodes differ: clouds hang the devices of two sockets on one virtual bus;
    - a common NUMA node: NODE; different ones: SYS.

    A NIC with a Data Direct function has two paths, and the nearer one counts.

    A machine that reports no device's NUMA node has a single one (Linux gives -1 there): NODE. Where only some devices
    have one, a device without is taken to be far away (SYS): no nearness is promised that is not reported.

    Raises:
        InputError: The inventory has no device at one of the addresses.
    """
    return distances(inventory)(a, b)


def distances(inventory: Inventory) -> Callable[[PciAddress, PciAddress], Distance]:
    """Return :func:`distance` for one node, for callers that ask more than once: its devices are listed once."""
    devices = {device.address: device for device in inventory.devices()}
    one_numa_node = _has_no_numa_nodes(inventory)

    def between(a: PciAddress, b: PciAddress) -> Distance:
        for address in (a, b):
            if address not in devices:
                raise InputError(f"node {inventory.node} has no device at PCI address {address}")
        return _between(devices[a], devices[b], one_numa_node=one_numa_node)

    return between


def matrix(inventory: Inventory, *, virtual_functions: bool = False) -> DistanceMatrix:
    """Return the distances between all GPUs, NICs and FPGAs of a node, and between VFs where they are asked for."""
    labelled = list(_labelled(inventory, virtual_functions=virtual_functions))
    one_numa_node = _has_no_numa_nodes(inventory)
    half = [
        [_between(device, other, one_numa_node=one_numa_node) for _, other in labelled[: index + 1]]
        for index, (_, device) in enumerate(labelled)
    ]
    every = range(len(labelled))
    rows = tuple(
        DistanceRow(label=label, device=device, distances=tuple(half[max(i, j)][min(i, j)] for j in every))
        for i, (label, device) in enumerate(labelled)
    )
    return DistanceMatrix(rows=rows)


def _labelled(inventory: Inventory, *, virtual_functions: bool) -> Iterator[tuple[str, Device]]:
    for gpu in inventory.gpus:
        yield f"GPU{gpu.index}", gpu
    for nic in inventory.nics:
        yield f"NIC{nic.index}", nic
        if virtual_functions:
            for vf in nic.vfs:
                yield f"NIC{nic.index}-VF{vf.index}", vf
    for fpga in inventory.fpgas:
        yield f"FPGA{fpga.index}", fpga


def _has_no_numa_nodes(inventory: Inventory) -> bool:
    return all(device.pcie.numa_node is None for device in inventory.devices())


def _between(a: Device, b: Device, *, one_numa_node: bool) -> Distance:
    if a.address == b.address:
        return _X
    if isinstance(a, Gpu) and isinstance(b, Gpu):
        linked = _linked(a, b)
        if linked is not None:
            return linked
    if on_same_card(a.address, b.address):
        return _PIX
    ways = (_by_path(one, other, one_numa_node=one_numa_node) for one in _ways(a.pcie) for other in _ways(b.pcie))
    return min(ways)


def _ways(path: PciePath) -> tuple[PciePath, ...]:
    direct = path.direct
    if direct is None:
        return (path,)
    return path, PciePath(root=direct.root, switches=direct.switches, numa_node=direct.numa_node)


def _linked(a: Gpu, b: Gpu) -> Distance | None:
    for kind, level in _LINK_LEVELS:
        # A link has two ends; a source that sees only one of them is believed.
        direct = max(_links(a, kind, b.address), _links(b, kind, a.address))
        links = direct or min(_links(a, kind, None), _links(b, kind, None))
        if links:
            return Distance(level, links)
    return None


def _links(gpu: Gpu, kind: LinkKind, peer: PciAddress | None) -> int:
    return sum(link.count for link in gpu.links if link.kind is kind and link.peer == peer)


def _by_path(a: PciePath, b: PciePath, *, one_numa_node: bool) -> Distance:
    common = 0
    for one, other in zip(a.switches, b.switches, strict=False):
        if one != other:
            break
        common += 1
    if common:
        switches = 1 + (len(a.switches) - common) + (len(b.switches) - common)
        return _PIX if switches == 1 else _PXB
    if a.root_port is not None and a.root_port == b.root_port:
        return _PXB if a.switches or b.switches else _PIX
    numa_known = a.numa_node is not None and b.numa_node is not None
    if numa_known and a.numa_node != b.numa_node:
        return _SYS
    if a.root is not None and a.root == b.root:
        return _PHB
    return _NODE if numa_known or one_numa_node else _SYS


_LINK_LEVELS: Final = ((LinkKind.NVLINK, Level.NV), (LinkKind.XGMI, Level.XGMI))
_X: Final = Distance(Level.X)
_PIX: Final = Distance(Level.PIX)
_PXB: Final = Distance(Level.PXB)
_PHB: Final = Distance(Level.PHB)
_NODE: Final = Distance(Level.NODE)
_SYS: Final = Distance(Level.SYS)
