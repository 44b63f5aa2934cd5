"""Reads FPGA cards from sysfs.

Sources: Documentation/fpga/dfl.rst of Linux for the device feature list (dfl) devices; Xilinx Runtime (XRT), "Platform
Overview", for a card's management and user functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from driver.adapters.catalogue import is_fpga, vendor_name
from driver.adapters.sysfs.gpu import render_minor
from driver.adapters.sysfs.pci import PciFunction
from driver.adapters.sysfs.reader import SysfsReader
from driver.model.devices import Fpga
from driver.model.pci import PciAddress, PciePath
from driver.model.pci_tree import on_same_card

__all__ = ["FpgaCard", "fpga_cards", "fpgas"]

FpgaCard = tuple[PciFunction, ...]
"""The functions of one card, the one that containers use first."""

_DFL_PORT: Final = re.compile(r"dfl-port\.[0-9]{1,7}", re.ASCII)


def fpga_cards(reader: SysfsReader, functions: Mapping[PciAddress, PciFunction]) -> tuple[FpgaCard, ...]:
    """Return the node's FPGA cards in PCI order.

    Raises:
        NodeError: The list of FPGA regions exists and cannot be read.
    """
    with_region = set(_functions_with_region(reader, functions))
    cards: list[FpgaCard] = []
    for function in functions.values():
        known = is_fpga(function.vendor_id, function.device_id, function.class_code)
        # An FPGA region shows it where the ids do not.
        if not known and function.address not in with_region:
            continue
        if reader.host.resolve(f"{function.folder}/physfn") is not None:
            reader.note(f"{function.address}: a virtual function of an FPGA; it was left out")
        elif cards and on_same_card(cards[-1][0].address, function.address):
            cards[-1] = (*cards[-1], function)
        else:
            cards.append((function,))
    # A Xilinx card shows a management function and a user function; the second has the render node.
    return tuple(
        tuple(sorted(card, key=lambda function: render_minor(reader, function.folder) is None)) for card in cards
    )


def fpgas(reader: SysfsReader, cards: tuple[FpgaCard, ...], paths: Mapping[PciAddress, PciePath]) -> tuple[Fpga, ...]:
    """Return the inventory's FPGAs, one for each card.

    Args:
        reader: Reads sysfs, and collects the notes.
        cards: The node's cards, in PCI order.
        paths: The PCIe path of each card's first function.
    """
    return tuple(
        Fpga(
            address=card[0].address,
            pcie=paths[card[0].address],
            index=index,
            vendor=vendor_name(card[0].vendor_id),
            device_paths=tuple(sorted(path for function in card for path in _device_paths(reader, function))),
        )
        for index, card in enumerate(cards)
    )


def _functions_with_region(reader: SysfsReader, functions: Mapping[PciAddress, PciFunction]) -> Iterator[PciAddress]:
    """Yield the PCI functions that have an FPGA region; regions of a system on chip have no function."""
    by_folder = {function.folder: function.address for function in functions.values()}
    for name in reader.host.names(f"{reader.sysfs}class/fpga_region"):
        folder = reader.host.resolve(f"{reader.sysfs}class/fpga_region/{name}") or ""
        while folder and folder not in by_folder:
            folder = folder.rpartition("/")[0]
        if folder:
            yield by_folder[folder]


def _device_paths(reader: SysfsReader, function: PciFunction) -> Iterator[str]:
    """Yield the device nodes that a user's program opens, not those that reprogram the card (xclmgmt, dfl-fme)."""
    minor = render_minor(reader, function.folder)
    if minor is not None:
        yield f"/dev/dri/renderD{minor}"
    regions = f"{function.folder}/fpga_region"
    for region in reader.names(regions):
        for name in reader.names(f"{regions}/{region}"):
            if _DFL_PORT.fullmatch(name):
                yield f"/dev/{name}"
