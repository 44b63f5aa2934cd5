"""Finds GPUs that are joined by links, directly or through others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from driver.model.devices import Gpu, LinkKind
from driver.model.pci import PciAddress

__all__ = ["link_domains"]


def link_domains(gpus: Iterable[Gpu]) -> Mapping[PciAddress, PciAddress]:
    """Return the link domain of each GPU that has links: the lowest address among the GPUs that it reaches over them.

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
