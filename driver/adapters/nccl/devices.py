"""Makes GPUs and NICs from the elements that NCCL writes inside a ``<pci>`` element.

Sources: NVIDIA/nccl src/graph/xml.cc (ncclTopoGetXmlFromGpu, ncclTopoFillNet) and src/transport/net_ib.cc,
net_socket.cc; ROCm/rccl src/graph/xml.cc for ``gcn`` and ``<xgmi>``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableSet
from typing import Final

from driver.adapters import catalogue
from driver.adapters.nccl.tree import Endpoint
from driver.adapters.nccl.xml import Element, TopologyDocument
from driver.model.devices import Gpu, GpuLink, LinkKind, LinkLayer, MigSupport, RdmaNic, RdmaPort
from driver.model.pci import PciAddress, PciePath

__all__ = ["gpu_number", "nic_number", "pci_id", "read_gpu", "read_nics", "vendor"]

_MAX_DEV: Final = 4095
_MAX_SHOWN: Final = 64
_LINK_TAGS: Final = {kind.value: kind for kind in LinkKind}
_NVSWITCH_CLASS: Final = "068000"
_GPU_CLASSES: Final = ("03", "12")
# hipDeviceProp_t.gcnArch is a number that cannot hold the letter of gfx90a; newer RCCL writes gcnArchName.
_GCN_NUMBERS: Final[Mapping[str, str]] = {
    "900": "gfx900",
    "906": "gfx906",
    "908": "gfx908",
    "910": "gfx90a",
    "940": "gfx940",
    "941": "gfx941",
    "942": "gfx942",
}
_GCN_NAME: Final = re.compile(r"(gfx[0-9a-f]{3,5})(?::.*)?", re.ASCII)


def vendor(document: TopologyDocument, endpoint: Endpoint) -> str | None:
    """Return the vendor's name, or its PCI id (``0x1d94``); None if the file has none."""
    number = document.hexadecimal(endpoint.element, "vendor")
    return None if number is None else catalogue.vendor_name(int(number, 16))


def pci_id(document: TopologyDocument, endpoint: Endpoint) -> str | None:
    """Return ``vendor:device`` as the catalogue writes it; None if the file has none."""
    numbers = [document.hexadecimal(endpoint.element, name) for name in ("vendor", "device")]
    return None if None in numbers else ":".join(number.zfill(4) for number in numbers if number)


def gpu_number(document: TopologyDocument, endpoint: Endpoint) -> int | None:
    """Return the GPU's NVML (or AMD SMI) index, ``<gpu dev>``; None if the file has none."""
    gpu = _first(endpoint, "gpu")
    return None if gpu is None else document.integer(gpu, "dev", least=0, most=_MAX_DEV)


def nic_number(document: TopologyDocument, endpoint: Endpoint) -> int | None:
    """Return the lowest number of the NIC's ports among those NCCL uses, ``<net dev>``; None if there is none."""
    numbers = [document.integer(net, "dev", least=0, most=_MAX_DEV) for net in _all(endpoint, "net")]
    return min((number for number in numbers if number is not None), default=None)


def read_gpu(
    document: TopologyDocument,
    endpoint: Endpoint,
    *,
    pcie: PciePath,
    index: int,
    gpus: Collection[PciAddress],
    hardware: catalogue.HardwareFacts,
    notes: list[str],
) -> Gpu:
    """Read a GPU.

    Args:
        document: The file, for messages.
        endpoint: The GPU.
        pcie: The GPU's path.
        index: The GPU's index.
        gpus: All GPUs of the file: a link to any other address is not a link between GPUs.
        hardware: The user's facts about the GPUs.
        notes: Gets the assumptions; each sentence once.

    Raises:
        InputError: A number, a class or a link's target is invalid; ``hardware`` names no model.
    """
    gpu = _first(endpoint, "gpu")
    gcn = gpu.attributes.get("gcn") if gpu else None
    # RCCL writes the number of compute units as sm, NCCL ten times the compute capability.
    sm = document.integer(gpu, "sm", least=1, most=9999) if gpu else None
    class_ = document.hexadecimal(endpoint.element, "class") or ""
    is_amd = gcn is not None or class_.startswith(("0380", "12"))
    facts = catalogue.gpu_facts(
        pci_id=pci_id(document, endpoint),
        architecture=_amd_architecture(gcn) if gcn else None,
        compute_capability=f"{sm // 10}.{sm % 10}" if sm and not is_amd else None,
        compute_units=sm if is_amd else None,
        hardware=hardware,
    )
    note = facts.memory_note and f"{facts.memory_note}; give what it reports with --gpu-memory."
    if note and note not in notes:
        notes.append(note)
    return Gpu(
        address=endpoint.address,
        pcie=pcie,
        index=index,
        vendor=vendor(document, endpoint) or ("amd" if is_amd else "nvidia"),
        model=facts.model,
        memory_bytes=facts.memory_bytes,
        architecture=facts.architecture,
        cuda_compute_capability=facts.cuda_compute_capability,
        mig=MigSupport(enabled=False, profiles=facts.mig_profiles) if facts.mig_profiles else None,
        links=tuple(_links(document, endpoint, gpus)),
    )


def _amd_architecture(gcn: str) -> str | None:
    match = _GCN_NAME.fullmatch(gcn)
    return match[1] if match else _GCN_NUMBERS.get(gcn)


def _links(document: TopologyDocument, endpoint: Endpoint, gpus: Collection[PciAddress]) -> Iterator[GpuLink]:
    counts: Counter[tuple[LinkKind, PciAddress | None]] = Counter()
    for element in endpoint.parts:
        kind = _LINK_TAGS.get(element.tag)
        if kind is None:
            continue
        count = document.integer(element, "count", least=0, most=1024)
        target_class = document.hexadecimal(element, "tclass") or _GPU_CLASSES[0]
        if target_class == _NVSWITCH_CLASS:
            # Not an address where the switch is not seen in a virtual machine: NCCL then writes fffffff:ffff:ff.
            peer = None
        elif target_class.startswith(_GPU_CLASSES):
            peer = document.address(element, "target")
            if peer not in gpus or peer == endpoint.address:
                continue  # a GPU that the dumping process did not see; or none, as in Azure's file for the NC v4 series
        else:
            continue  # NVLink to a POWER CPU (0x068001)
        counts[kind, peer] += 1 if count is None else count
    for (kind, peer), count in sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        if count:
            yield GpuLink(kind=kind, peer=peer, count=count)


def read_nics(
    document: TopologyDocument, endpoint: Endpoint, *, pcie: PciePath, taken: MutableSet[PciAddress], notes: list[str]
) -> Iterator[RdmaNic]:
    """Yield the RDMA NICs of one PCI device: none, one, or several functions.

    A NIC of the file is an RDMA NIC unless NCCL uses it through sockets, which have no port number (net_socket.cc: port
    0); verbs count ports from 1. NCCL writes the functions of one card as one PCI device (net_ib.cc cuts the function
    off): each RDMA device beyond the first is taken as the next function. The ``guid`` is not read: it is the card's
    system image GUID in memory order, not a port's.

    Args:
        document: The file, for messages.
        endpoint: The PCI device.
        pcie: Its path.
        taken: The addresses of all devices so far; no further function gets one of them, and new ones are added.
        notes: Gets what was left out or assumed.

    Raises:
        InputError: A number is invalid.
    """
    ports = _rdma_ports(document, endpoint, notes)
    model_id = pci_id(document, endpoint)
    model = catalogue.nic_model(model_id) if model_id else None
    addresses = _functions(endpoint.address, taken)
    for rdma_device, its_ports in ports.items():
        address = next(addresses, None)
        if address is None:
            notes.append(f"Left out: {rdma_device} of {endpoint.address}, a card with more than 8 RDMA devices.")
            return
        if address != endpoint.address:
            notes.append(f"{rdma_device} is taken as function {address}: NCCL writes a card's functions as one device.")
        yield RdmaNic(
            address=address,
            pcie=pcie,
            index=0,
            rdma_device=rdma_device,
            vendor=vendor(document, endpoint),
            model=model,
            ports=tuple(its_ports),
        )


def _rdma_ports(document: TopologyDocument, endpoint: Endpoint, notes: list[str]) -> dict[str | None, list[RdmaPort]]:
    """Return the ports by RDMA device."""
    link_layer = _link_layer(document, endpoint)
    ports: dict[str | None, list[RdmaPort]] = {}
    sockets, merged = [], []
    for net in _all(endpoint, "net"):
        name = net.attributes.get("name") or None
        if document.integer(net, "port", least=0, most=255) == 0:
            sockets.append((name or "?")[:_MAX_SHOWN])
        elif name and "+" in name:
            merged.append(name[:_MAX_SHOWN])
        else:
            speed = document.integer(net, "speed", least=-1, most=10**9) or 0
            of_device = ports.setdefault(name, [])
            of_device.append(
                RdmaPort(
                    number=len(of_device) + 1, link_layer=link_layer, speed_gbps=speed // 1000 if speed > 0 else None
                )
            )
    if sockets:
        notes.append(f"Left out, for NCCL uses it through sockets: {', '.join(sockets)} of {endpoint.address}.")
    if merged:
        notes.append(f"Left out, for NCCL made it of other NICs: {', '.join(merged)} of {endpoint.address}.")
    if not ports and (merged or not sockets):
        ports[None] = [RdmaPort(link_layer=link_layer)]
    return ports


def _link_layer(document: TopologyDocument, endpoint: Endpoint) -> LinkLayer | None:
    class_ = document.hexadecimal(endpoint.element, "class") or ""
    if class_.startswith("0207"):
        return LinkLayer.INFINIBAND
    if vendor(document, endpoint) == "amazon":
        return None  # EFA calls itself Ethernet on PCI, and to verbs its link layer is unspecified (Linux, efa_verbs.c)
    return LinkLayer.ETHERNET if class_.startswith("0200") else None


def _functions(first: PciAddress, taken: MutableSet[PciAddress]) -> Iterator[PciAddress]:
    yield first
    for function in range(8):
        address = PciAddress(f"{first[:-1]}{function}")
        if address not in taken:
            taken.add(address)
            yield address


def _all(endpoint: Endpoint, tag: str) -> list[Element]:
    return [part for part in endpoint.parts if part.tag == tag]


def _first(endpoint: Endpoint, tag: str) -> Element | None:
    return next((part for part in endpoint.parts if part.tag == tag), None)
