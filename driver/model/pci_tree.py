"""Finds which PCIe switches join devices, and which are only part of one card, for every source of an inventory."""

from __future__ import annotations

from collections.abc import Mapping

from driver.model.pci import PciAddress

__all__ = ["meaningful_switches", "on_same_card"]


def on_same_card(a: PciAddress, b: PciAddress) -> bool:
    """Whether they are functions of one PCI device: addresses that differ in nothing but the function number."""
    return _card(a) == _card(b)


def meaningful_switches(
    chains: Mapping[PciAddress, tuple[PciAddress, ...]],
) -> dict[PciAddress, tuple[PciAddress, ...]]:
    """Drop from each device's chain of switches those that are part of a single card.

    Many cards bring a switch of their own: AMD's MI50 to MI300X show one or two bridges above the GPU, SmartNICs one
    above their functions. If such a switch were a device's nearest one, no GPU would ever share its nearest switch with
    a NIC, and "a GPU and a NIC under the same switch" could never be met. A switch is dropped where every device below
    it is one card (same domain, bus and device number), whatever its depth and even if it is the only one: a switch
    that joins nothing tells nothing about who is near whom. What stays is named by its upstream port and keeps its
    order.

    Args:
        chains: Each device's switches, by their upstream ports, outermost first. All devices of the node together, as
            the rule needs to see a switch's whole subtree; SR-IOV virtual functions left out, for they have other
            device numbers than their PF though they are the same card: give a VF the chain of its PF.

    Returns:
        The same devices in the same order with what is left of their chains.
    """
    cards_below: dict[PciAddress, set[str]] = {}
    for address, chain in chains.items():
        for switch in chain:
            cards_below.setdefault(switch, set()).add(_card(address))
    return {
        address: tuple(switch for switch in chain if len(cards_below[switch]) > 1) for address, chain in chains.items()
    }


def _card(address: PciAddress) -> str:
    return address.rpartition(".")[0]
