"""Makes a node's inventory from an NCCL topology file, as ``NCCL_TOPO_DUMP_FILE`` or a cloud writes it.

What such a file does not contain is left out, or assumed with a note. Models and memory sizes come from the catalogue,
or from the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.nccl.devices import gpu_number, nic_number, read_gpu, read_nics, vendor
from driver.adapters.nccl.tree import Endpoint, EndpointKind, PciTree, read_pci_tree
from driver.adapters.nccl.xml import TopologyDocument
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.inventory import Inventory, InventorySource, lacks_nvlinks
from driver.model.pci import DirectPath, PciAddress, PciePath, is_virtual_switch, pci_order
from driver.model.pci_tree import meaningful_switches
from driver.model.rails import with_rails

__all__ = ["inventory"]

_ROOT_NOTE: Final = (
    "The file records no PCIe roots: their names are made up here, and devices that share one may be kept apart, but "
    "those that do not are never put together."
)
# No machine has a tenth of it; a file that claims more would be shown and drawn device by device.
_MAX_DEVICES: Final = 512
_DIRECT: Final = "_dma"


def inventory(document: TopologyDocument, *, node: str, hardware: HardwareFacts) -> Inventory:
    """Make an inventory from an NCCL topology file.

    ``PciePath.root`` is ``pci<domain>:<bus>`` of the topmost PCI device on the way that is not a virtual switch. That
    is the root bus in the clouds' virtual machines, where each device sits on one of its own, and the bus below the
    root port on real ones: two subtrees are never merged by it unless they share that bus. ``root_port`` is not known.

    ``PciePath.switches`` leaves out switches that are part of one card (:func:`meaningful_switches`).

    Args:
        document: The file's elements.
        node: The node's name.
        hardware: The user's facts about the GPUs; they win over the file and the catalogue.

    Raises:
        InputError: The file is no topology file, or describes no device or more than 512; ``hardware`` names no known
            model. The message names the file and, where there is one, the line.
    """
    tree = read_pci_tree(document)
    paths = _paths(tree)
    notes = [_ROOT_NOTE, *tree.notes]
    gpus = _gpus(document, tree, paths, hardware, notes)
    nics = _nics(document, tree, paths, notes)
    fpgas = _fpgas(document, tree, paths)
    if not (gpus or nics or fpgas):
        raise document.error(
            document.elements[0],
            "the file describes no GPU, RDMA NIC or FPGA",
            hint="an NCCL program that runs on all GPUs of the machine dumps a complete file",
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
        node=node,
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


def _of_kind(tree: PciTree, kind: EndpointKind) -> list[Endpoint]:
    found = (endpoint for endpoint in tree.endpoints if endpoint.kind is kind)
    return sorted(found, key=lambda endpoint: pci_order(endpoint.address))


def _gpus(
    document: TopologyDocument,
    tree: PciTree,
    paths: Mapping[PciAddress, PciePath],
    hardware: HardwareFacts,
    notes: list[str],
) -> tuple[Gpu, ...]:
    endpoints = _of_kind(tree, EndpointKind.GPU)
    addresses = frozenset(endpoint.address for endpoint in endpoints)
    numbers = [gpu_number(document, endpoint) for endpoint in endpoints]
    known = [number for number in numbers if number is not None]
    if len(set(known)) < len(endpoints):
        known = list(range(len(endpoints)))
    gpus = (
        read_gpu(
            document,
            endpoint,
            pcie=paths[endpoint.address],
            index=index,
            gpus=addresses,
            hardware=hardware,
            notes=notes,
        )
        for index, endpoint in zip(known, endpoints, strict=True)
    )
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def _nics(
    document: TopologyDocument, tree: PciTree, paths: Mapping[PciAddress, PciePath], notes: list[str]
) -> tuple[RdmaNic, ...]:
    endpoints = _of_kind(tree, EndpointKind.NIC)
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
    return with_rails(replace(nic, index=index) for index, nic in enumerate(_with_direct_paths(nics, notes)))


def _with_direct_paths(nics: Sequence[RdmaNic], notes: list[str]) -> Iterator[RdmaNic]:
    """Yield the NICs, each with its Data Direct function as a second path, which NCCL writes as a NIC of its own.

    Its name is the RDMA device's with ``_dma``. By default NCCL uses that function alone and does not write the NIC's
    own (NVIDIA/nccl, src/transport/net_ib, NCCL_IB_DATA_DIRECT).
    """
    direct = {
        nic.rdma_device.removesuffix(_DIRECT): nic
        for nic in nics
        if nic.rdma_device is not None and nic.rdma_device.endswith(_DIRECT)
    }
    names = {nic.rdma_device for nic in nics}
    for nic in nics:
        if nic.rdma_device in direct:
            found = direct[nic.rdma_device]
            path = found.pcie
            second = DirectPath(address=found.address, root=path.root, switches=path.switches, numa_node=path.numa_node)
            yield replace(nic, pcie=replace(nic.pcie, direct=second))
        elif (name := next((name for name, item in direct.items() if item is nic), None)) is None:
            yield nic
        elif name not in names:
            notes.append(
                f"Of {name} the file has the Data Direct function {nic.address} alone: it is taken for the NIC, whose "
                "own place is not known; NCCL writes both with NCCL_IB_DATA_DIRECT=2."
            )
            yield replace(nic, rdma_device=name)


def _fpgas(document: TopologyDocument, tree: PciTree, paths: Mapping[PciAddress, PciePath]) -> tuple[Fpga, ...]:
    return tuple(
        Fpga(
            address=endpoint.address,
            pcie=paths[endpoint.address],
            index=index,
            vendor=vendor(document, endpoint),
        )
        for index, endpoint in enumerate(_of_kind(tree, EndpointKind.FPGA))
    )


def _notes(tree: PciTree, paths: Mapping[PciAddress, PciePath], gpus: tuple[Gpu, ...]) -> Iterator[str]:
    above = {bridge for endpoint in tree.endpoints for bridge in endpoint.bridges}
    on_cards = len(above.difference(*(path.switches for path in paths.values())))
    if on_cards:
        yield f"Taken as part of a card, for nothing else is below them: {on_cards} of {len(above)} switches."
    ignored = [endpoint.address for endpoint in tree.endpoints if endpoint.kind is EndpointKind.OTHER]
    if ignored:
        yield f"Left out, neither GPU nor NIC nor FPGA: {', '.join(ignored)}."
    if lacks_nvlinks(gpus):
        yield "The file records no NVLinks: where the GPUs have some, they look farther apart here than they are."
    if any(gpu.model is None for gpu in gpus):
        yield "The file does not tell the GPUs' model: name it with --gpu-model, or their memory with --gpu-memory."
    elif any(gpu.memory_bytes is None for gpu in gpus):
        yield "The GPUs' memory is not known: give it with --gpu-memory, or name the model with --gpu-model."
