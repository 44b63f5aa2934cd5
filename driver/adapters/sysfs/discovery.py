"""Discovers a node's GPUs, RDMA NICs and FPGAs in sysfs, and their places in the PCIe tree.

The root may be a running host's ``/`` or a copy of its ``/sys``; nothing is executed and no device is opened.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.data_direct import data_direct_functions, with_direct_paths
from driver.adapters.sysfs.default_route import with_default_route
from driver.adapters.sysfs.fpga import fpga_cards, fpgas
from driver.adapters.sysfs.gpu import gpu_functions, gpus
from driver.adapters.sysfs.pci import pci_functions, pcie_paths
from driver.adapters.sysfs.rdma import rdma_functions, rdma_netns_mode, rdma_nics
from driver.adapters.sysfs.reader import SysfsReader
from driver.model.devices import RdmaNetnsMode
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath

__all__ = ["discover"]

# A broken tree can have a fault in each of its thousands of entries; these are enough to read.
_MAX_NOTES: Final = 100


def discover(host: HostRoot, *, node: str, lent: Collection[str] = ()) -> Inventory:
    """Read a node's devices from sysfs.

    An entry that is malformed, unreadable or gone is left out with a note; it never costs the others.

    Args:
        host: The folder that contains ``sys`` (and ``proc``, for what NVIDIA's driver writes there), or ``sys`` itself.
        node: The node's name.
        lent: Device names of the RDMA functions that are lent to pods. In exclusive mode sysfs may not show their RDMA
            devices, which are all that marks an Ethernet NIC as one for RDMA.

    Raises:
        InputError: There is no sysfs in that folder.
        NodeError: A list of devices cannot be read: to go on would make devices vanish.
    """
    reader = SysfsReader.open(host.fresh())
    functions = pci_functions(reader)
    gpu_list = gpu_functions(reader, functions)
    netns_mode = rdma_netns_mode(reader)
    # Where RDMA devices are shared, sysfs shows all of them: one that it does not show has lost its driver.
    hidden = lent if netns_mode is RdmaNetnsMode.EXCLUSIVE else ()
    nic_list = rdma_functions(reader, functions, hidden=hidden)
    card_list = fpga_cards(reader, functions)
    devices = [function.address for function in gpu_list]
    devices += [nic.function.address for nic in nic_list]
    devices += [card[0].address for card in card_list]
    direct = data_direct_functions(reader, functions, [nic.function.address for nic in nic_list])
    paths = with_direct_paths(pcie_paths(reader, functions, [*devices, *direct.values()]), direct)
    if functions and not devices:
        reader.note(f"no GPU, RDMA NIC or FPGA is among the {len(functions)} PCI functions below {reader.sysfs}devices")
    _note_unnamed_roots(reader, paths)
    return Inventory(
        node=node,
        source=InventorySource.SYSFS,
        gpus=gpus(reader, gpu_list, paths),
        nics=with_default_route(reader, rdma_nics(nic_list, paths)),
        fpgas=fpgas(reader, card_list, paths),
        rdma_netns_mode=netns_mode,
        notes=_limited(reader.notes),
    )


def _note_unnamed_roots(reader: SysfsReader, paths: dict[PciAddress, PciePath]) -> None:
    unnamed = [address for address, pcie in paths.items() if pcie.root is None]
    if unnamed:
        reader.note(
            f"{', '.join(unnamed)}: the PCI host bridge is not directly below sys/devices, and the standard attribute "
            "pcieRoot cannot name it"
        )


def _limited(notes: list[str]) -> tuple[str, ...]:
    different = tuple(dict.fromkeys(notes))
    left_out = len(different) - _MAX_NOTES
    return different if left_out <= 0 else (*different[:_MAX_NOTES], f"{left_out} more notes were left out")
