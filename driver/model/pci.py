"""PCI addresses and a device's path through the PCIe tree.

Terms are the PCI Express Base Specification's: a *root complex* has *root ports*; a *switch* has one *upstream port*
and several *downstream ports*. A switch is named by the bus id of its upstream port, as NCCL does in its topology
files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NewType

__all__ = [
    "DirectPath",
    "PciAddress",
    "PciePath",
    "is_standard_bus_id",
    "is_virtual_switch",
    "parse_pci_address",
    "pci_order",
]

PciAddress = NewType("PciAddress", str)
"""A function's address, ``dddd:bb:dd.f``, lower case; the domain has 4 digits, or more where the number needs them."""

_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII | re.IGNORECASE)
# A "virtual switch" in an NCCL topology file has bus ids of this domain and bus: clouds hide the real one.
_VIRTUAL_PREFIX: Final = "ffff:ff:"


def parse_pci_address(text: str) -> PciAddress:
    """Bring a PCI address to the one form used here.

    NVML writes an 8-digit domain and upper case, sysfs 4 digits and lower case, ``lspci`` may leave the domain out.

    Raises:
        ValueError: ``text`` is no PCI address.
    """
    match = _ADDRESS.fullmatch(text.strip()) if len(text) <= 32 else None
    if match is None or int(match[3], 16) > 0x1F:
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ValueError(f"{shown!r} is not a PCI address: expected domain:bus:device.function, such as 0000:3b:00.0")
    return PciAddress(f"{int(match[1] or '0', 16):04x}:{match[2].lower()}:{match[3].lower()}.{match[4]}")


def pci_order(address: PciAddress) -> tuple[int, str]:
    """Return a sort key: domain, bus, device and function number."""
    # A domain has 4 digits, or more without leading zeros: the longer is the larger.
    return len(address), address


def is_standard_bus_id(address: PciAddress) -> bool:
    """Whether the standard attribute ``resource.kubernetes.io/pciBusID`` can carry the address (a 4-digit domain).

    Source: k8s.io/dynamic-resource-allocation v0.36.3, deviceattribute.
    """
    return len(address) == len("0000:00:00.0")


def is_virtual_switch(address: PciAddress) -> bool:
    """Whether it is a switch that NCCL topology files of clouds invent to group devices (domain ffff, bus ff)."""
    return address.startswith(_VIRTUAL_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectPath:
    """A second path of a NIC: that of its Data Direct function, by which it reaches a GPU's memory without the CPU.

    ConnectX-8 in a GB300 hangs at the CPU, and this function of it at the PCIe switch of the GPU (linux-rdma/rdma-core,
    kernel-boot/rdma_topo; Linux, drivers/infiniband/hw/mlx5/data_direct.c).

    Attributes:
        address: The function's address.
        root: As of a :class:`PciePath`, likewise the following.
        switches: The upstream ports of the switches on the way, outermost first.
        numa_node: The NUMA node.
    """

    address: PciAddress
    root: str | None = None
    switches: tuple[PciAddress, ...] = ()
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PciePath:
    """Where a device hangs: machine → NUMA node → root complex → root port → switches → device.

    Attributes:
        root: The root complex's host bridge as the standard attribute ``resource.kubernetes.io/pcieRoot`` names it,
            ``pci<domain>:<bus>``; None where the source of the inventory does not report it.
        root_port: The root port's address; None where unknown, or where the device is integrated in the root complex.
        switches: The upstream ports of the switches on the way, outermost first; empty without a switch.
        numa_node: The NUMA node of the root complex; None where the platform does not report it (-1 in sysfs).
        near_numa_nodes: The other NUMA nodes of the same socket that are nearest to that one and equally near, by the
            platform's table of distances (ACPI SLIT): where a socket is divided (SNC, NPS).
        direct: The second path of a NIC that has one.
    """

    root: str | None = None
    root_port: PciAddress | None = None
    switches: tuple[PciAddress, ...] = ()
    numa_node: int | None = None
    near_numa_nodes: tuple[int, ...] = ()
    direct: DirectPath | None = None

    @property
    def switch(self) -> PciAddress | None:
        """The nearest upstream switch."""
        return self.switches[-1] if self.switches else None
