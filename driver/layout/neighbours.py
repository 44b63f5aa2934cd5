"""Which devices belong together: GPUs joined by links, and devices under one PCIe switch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from driver.model.devices import Device, Gpu, LinkKind, RdmaVf
from driver.model.pci import PciAddress

__all__ = ["link_domains", "shared_switches"]


def link_domains(gpus: Iterable[Gpu]) -> Mapping[PciAddress, PciAddress]:
    """The link domain of each GPU that has links: the lowest address among the GPUs that it can reach over them.

    Links without a peer end at NVSwitches, which join all GPUs of the node that have such links.
    """
    known = {gpu.address: gpu for gpu in gpus if gpu.links}
    leader = {address: address for address in known}

    def find(address: PciAddress) -> PciAddress:
        while leader[address] != address:
            leader[address] = leader[leader[address]]
            address = leader[address]
        return address

    at_switch: dict[LinkKind, PciAddress] = {}
    for address, gpu in known.items():
        for link in gpu.links:
            peer = at_switch.setdefault(link.kind, address) if link.peer is None else link.peer
            if peer in known:
                low, high = sorted((find(address), find(peer)))
                leader[high] = low
    return {address: find(address) for address in known}


def shared_switches(devices: Iterable[Device]) -> Mapping[PciAddress, PciAddress]:
    """For each device below a switch: the nearest upstream switch that has another card below it as well.

    A switch that carries one card only is part of that card (AMD's MI200 and BlueField NICs have such), and would
    keep the card apart from its real neighbours. Where every switch carries this one card only: the outermost one.
    """
    devices = tuple(devices)
    cards: dict[PciAddress, set[str]] = {}
    for device in devices:
        for switch in device.pcie.switches:
            cards.setdefault(switch, set()).add(_card(device))
    return {
        device.address: next(
            (switch for switch in reversed(device.pcie.switches) if len(cards[switch]) > 1), device.pcie.switches[0]
        )
        for device in devices
        if device.pcie.switches
    }


def _card(device: Device) -> str:
    """The address without the function: functions of one card share it, and a VF belongs to its PF's card."""
    address = device.parent if isinstance(device, RdmaVf) else device.address
    return address.rpartition(".")[0]
