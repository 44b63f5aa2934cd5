"""A node's inventory from an NCCL topology file, as ``NCCL_TOPO_DUMP_FILE`` writes it and clouds publish it.

What such a file cannot tell is left out, or assumed and said in the inventory's notes. Models and memory sizes come
from the catalogue, or from what the user says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.nccl_devices import gpu_number, nic_number, read_gpu, read_nics, vendor
from driver.adapters.nccl_tree import Endpoint, Kind, PciTree, read_pci_tree
from driver.adapters.nccl_xml import Document, read_document
from driver.api.validation.names import subdomain
from driver.errors import InputError
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath, is_virtual_switch, pci_order
from driver.model.pci_tree import meaningful_switches
from driver.model.rails import with_rails

__all__ = ["HardwareFacts", "node_name", "read_topology"]

_ROOT_NOTE: Final = (
    "The file does not record PCIe roots: a device's root is named after the topmost PCI bus on its way, so devices "
    "that share a root may be kept apart here, but those that do not are never put together."
)
_NOTHING_SAID: Final = HardwareFacts()
# The longest DNS subdomain (RFC 1123), which a node's name is.
_MAX_NAME: Final = 253
# No machine has a tenth of it; a file that claims more would be shown and drawn device by device.
_MAX_DEVICES: Final = 512


def read_topology(path: Path, *, node: str | None = None, hardware: HardwareFacts = _NOTHING_SAID) -> Inventory:
    """Read an NCCL topology file.

    ``PciePath.root`` is ``pci<domain>:<bus>`` of the topmost PCI device on the way that is not a virtual switch. That
    is the root bus in the clouds' virtual machines, where each device sits on one of its own, and the bus below the
    root port on real ones: two subtrees are never merged by it unless they share that bus. ``root_port`` is not known.

    ``PciePath.switches`` leaves out switches that are part of one card (:func:`meaningful_switches`).

    Args:
        path: The file.
        node: The node's name; made from the file's name by default.
        hardware: What the user says about the GPUs; wins over the file and the catalogue.

    Raises:
        InputError: The file cannot be read, is no topology file, or describes no device or more than 512; ``node`` is
            no node name;
            ``hardware`` names no known model. The message names the file and, where there is one, the line.
    """
    if node is not None and any(subdomain("node", node)):
        raise InputError(f"the node name {node[:60]!r} is not a DNS name", hint="use a-z, 0-9, '-' and '.'")
    document = read_document(path)
    tree = read_pci_tree(document)
    paths = _paths(tree)
    notes = [_ROOT_NOTE, *tree.notes]
    gpus = _gpus(document, tree, paths, hardware)
    nics = _nics(document, tree, paths, notes)
    fpgas = _fpgas(document, tree, paths)
    if not (gpus or nics or fpgas):
        raise document.error(
            document.elements[0],
            "the file describes no GPU, RDMA NIC or FPGA",
            hint="dump it while an NCCL program runs on all GPUs of the machine",
        )
    if len(gpus) + len(nics) + len(fpgas) > _MAX_DEVICES:
        raise document.error(
            document.elements[0],
            f"the file describes {len(gpus)} GPUs, {len(nics)} NICs and {len(fpgas)} FPGAs, more than any machine has: "
            f"at most {_MAX_DEVICES} devices are read",
            hint="give each machine a file of its own",
        )
    notes.extend(_notes(tree, paths, gpus))
    return Inventory(
        node=node or node_name(path),
        source=InventorySource.NCCL_TOPOLOGY,
        gpus=gpus,
        nics=nics,
        fpgas=fpgas,
        notes=tuple(notes),
    )


def _paths(tree: PciTree) -> Mapping[PciAddress, PciePath]:
    switches = meaningful_switches({endpoint.address: endpoint.bridges for endpoint in tree.endpoints})
    return {
        endpoint.address: PciePath(
            root=_root(endpoint), switches=switches[endpoint.address], numa_node=endpoint.numa_node
        )
        for endpoint in tree.endpoints
    }


def _root(endpoint: Endpoint) -> str:
    topmost = next(address for address in (*endpoint.bridges, endpoint.address) if not is_virtual_switch(address))
    return "pci" + topmost.rsplit(":", 1)[0]


def _of_kind(tree: PciTree, kind: Kind) -> list[Endpoint]:
    found = (endpoint for endpoint in tree.endpoints if endpoint.kind is kind)
    return sorted(found, key=lambda endpoint: pci_order(endpoint.address))


def _gpus(
    document: Document, tree: PciTree, paths: Mapping[PciAddress, PciePath], hardware: HardwareFacts
) -> tuple[Gpu, ...]:
    endpoints = _of_kind(tree, Kind.GPU)
    addresses = frozenset(endpoint.address for endpoint in endpoints)
    numbers = [gpu_number(document, endpoint) for endpoint in endpoints]
    known = [number for number in numbers if number is not None]
    if len(set(known)) < len(endpoints):
        known = list(range(len(endpoints)))
    gpus = (
        read_gpu(document, endpoint, pcie=paths[endpoint.address], index=index, gpus=addresses, hardware=hardware)
        for index, endpoint in zip(known, endpoints, strict=True)
    )
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def _nics(
    document: Document, tree: PciTree, paths: Mapping[PciAddress, PciePath], notes: list[str]
) -> tuple[RdmaNic, ...]:
    endpoints = _of_kind(tree, Kind.NIC)
    numbers = {endpoint.address: nic_number(document, endpoint) for endpoint in endpoints}
    if None not in numbers.values():
        # NCCL's order is that of the RDMA devices' names, and so is that of nvidia-smi.
        endpoints.sort(key=lambda endpoint: numbers[endpoint.address] or 0)
    taken = set(paths)
    nics = [
        nic
        for endpoint in endpoints
        for nic in read_nics(document, endpoint, pcie=paths[endpoint.address], taken=taken, notes=notes)
    ]
    return with_rails(replace(nic, index=index) for index, nic in enumerate(nics))


def _fpgas(document: Document, tree: PciTree, paths: Mapping[PciAddress, PciePath]) -> tuple[Fpga, ...]:
    return tuple(
        Fpga(
            address=endpoint.address,
            pcie=paths[endpoint.address],
            index=index,
            vendor=vendor(document, endpoint),
        )
        for index, endpoint in enumerate(_of_kind(tree, Kind.FPGA))
    )


def _notes(tree: PciTree, paths: Mapping[PciAddress, PciePath], gpus: tuple[Gpu, ...]) -> Iterator[str]:
    above = {bridge for endpoint in tree.endpoints for bridge in endpoint.bridges}
    on_cards = len(above.difference(*(path.switches for path in paths.values())))
    if on_cards:
        yield f"Taken as part of a card, for nothing else is below them: {on_cards} of {len(above)} switches."
    ignored = [endpoint.address for endpoint in tree.endpoints if endpoint.kind is Kind.OTHER]
    if ignored:
        yield f"Left out, neither GPU nor NIC nor FPGA: {', '.join(ignored)}."
    if any(gpu.model is None for gpu in gpus):
        yield "The file does not tell the GPUs' model: name it with --gpu-model."
    if any(gpu.memory_bytes is None for gpu in gpus):
        yield "The GPUs' memory is not known: give it with --gpu-memory, or name the model with --gpu-model."


def node_name(path: Path) -> str:
    """A node's name made of a file's name: ``aws-p4d.24xlarge.xml`` gives ``aws-p4d.24xlarge``; always a DNS name."""
    labels = (label.strip("-") for label in re.sub(r"[^a-z0-9.]", "-", path.stem.lower()).split("."))
    name = ".".join(label for label in labels if label)[:_MAX_NAME].strip("-.")
    return name or "node"
