"""Assumes what an inventory's source cannot record of NICs: virtual functions, link speeds, interfaces."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from driver.model.devices import LinkLayer, RdmaNic, RdmaPort, RdmaVf
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress

__all__ = ["INTERFACES_ASSUMED", "MAX_VFS", "with_assumed_interfaces", "with_assumed_speed", "with_assumed_vfs"]

INTERFACES_ASSUMED: Final = "topology files name no network interfaces: each NIC is taken to have one"
"""The note of a plan that moves such an interface into a pod."""

MAX_VFS: Final = 127
"""The most VFs of one NIC: as many as NVIDIA's ConnectX-7 has."""

_ROUTING_IDS: Final = 1 << 16
"""Addresses of a PCI domain: 8 bits of bus, 5 of device, 3 of function."""


def with_assumed_vfs(inventory: Inventory, count: int) -> Inventory:
    """Return the node with ``count`` VFs on each RDMA NIC that has none, and a note that says so.

    A VF is as its PF, on free PCI addresses behind it, with made-up names (``mlx5_8``, ``ib0v0``) and device nodes.
    """
    if not any(not nic.vfs for nic in inventory.nics) or count < 1:
        return inventory
    used = {_card(device.address) for device in inventory.devices()}
    numbers = itertools.count(len(inventory.nics))
    nics = tuple(nic if nic.vfs else replace(nic, vfs=_vfs(nic, count, used, numbers)) for nic in inventory.nics)
    note = f"Assumed, as you asked: {count} VFs on each RDMA NIC, with made-up addresses and names."
    return replace(inventory, nics=nics, notes=(*inventory.notes, note))


def with_assumed_speed(inventory: Inventory, gbps: int) -> Inventory:
    """Return the node with this speed, in Gb/s, for each RDMA NIC of unknown speed, and a note that says so."""
    if all(nic.speed_gbps for nic in inventory.nics):
        return inventory
    nics = tuple(nic if nic.speed_gbps else _at_speed(nic, gbps) for nic in inventory.nics)
    note = f"Assumed, as you asked: {gbps} Gb/s for each RDMA NIC whose speed is not known."
    return replace(inventory, nics=nics, notes=(*inventory.notes, note))


def with_assumed_interfaces(inventory: Inventory) -> Inventory:
    """Return the node of a topology file with a network interface of a made-up name for each NIC that has none.

    No such file names any. Other sources do, so that what they do not name is not there.
    """
    if inventory.source is not InventorySource.NCCL_TOPOLOGY:
        return inventory
    nics = tuple(nic if nic.if_names else replace(nic, if_names=(_interface(nic),)) for nic in inventory.nics)
    return replace(inventory, nics=nics)


def _interface(nic: RdmaNic) -> str:
    is_ethernet = bool(nic.ports) and nic.ports[0].link_layer is LinkLayer.ETHERNET
    return f"{'eth' if is_ethernet else 'ib'}{nic.index}"


def _at_speed(nic: RdmaNic, gbps: int) -> RdmaNic:
    ports = nic.ports or (RdmaPort(),)
    return replace(nic, ports=(replace(ports[0], speed_gbps=gbps), *ports[1:]))


def _vfs(nic: RdmaNic, count: int, used: Collection[str], numbers: Iterator[int]) -> tuple[RdmaVf, ...]:
    ports = tuple(replace(port, guid=None) for port in nic.ports)
    vfs = []
    for index, address in enumerate(itertools.islice(_behind(nic.address, used), count)):
        number = next(numbers)
        vfs.append(
            RdmaVf(
                address=address,
                pcie=nic.pcie,
                index=index,
                parent=nic.address,
                rdma_device=f"mlx5_{number}",
                if_names=(f"{_interface(nic)}v{index}",),
                model=nic.model,
                ports=ports,
                verbs_minor=number,
                rail=nic.rail,
            )
        )
    return tuple(vfs)


def _behind(pf: PciAddress, used: Collection[str]) -> Iterator[PciAddress]:
    """Return free addresses behind the PF's, as many as a NIC can need; those of other cards are skipped."""
    domain, bus, rest = pf.split(":")
    device, _, function = rest.partition(".")
    start = (int(bus, 16) << 8) | (int(device, 16) << 3) | int(function)
    own = _card(pf)
    for step in range(2, _ROUTING_IDS):  # functions 0 and 1 are the ports of a NIC with two
        number = (start + step) % _ROUTING_IDS
        text = f"{domain}:{number >> 8:02x}:{(number >> 3) & 31:02x}.{number & 7}"
        if _card(text) == own or _card(text) not in used:
            yield PciAddress(text)


def _card(address: str) -> str:
    return address.rpartition(".")[0]
