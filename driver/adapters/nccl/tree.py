"""Reads the PCI tree of an NCCL topology file: the devices, and the bridges above each.

How NCCL writes the tree (NVIDIA/nccl, src/graph/xml.cc, ncclTopoGetXmlFromSys): ``<system>`` holds a ``<cpu>`` for each
NUMA node, which holds nested ``<pci>`` elements. A switch is written as its upstream port; downstream ports and root
ports are left out. Users and clouds cut such files down: ``<gpu>``, ``<nic>`` and even PCI classes may be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from driver.adapters import catalogue
from driver.adapters.nccl.xml import Element, TopologyDocument
from driver.model.pci import PciAddress, is_virtual_switch

__all__ = ["Endpoint", "EndpointKind", "PciTree", "read_pci_tree"]

# Linux: MAX_NUMNODES is at most 1 << 10 (NODES_SHIFT). -1 means that the platform does not report it.
_MAX_NUMA: Final = 1023
# Linux, include/rdma/ib_verbs.h: IB_DEVICE_NAME_MAX.
_MAX_DEVICE_NAME: Final = 64


class EndpointKind(Enum):
    """What kind of device a PCI device is."""

    GPU = "GPU"
    NIC = "NIC"
    FPGA = "FPGA"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A PCI device that is no bridge.

    Attributes:
        address: The bus id.
        kind: The kind of device.
        element: Its ``<pci>`` element, with the attributes that the catalogue added.
        parts: The elements inside, in document order: ``<gpu>``, ``<nvlink>``, ``<xgmi>``, ``<nic>``, ``<net>``.
        bridges: The bridges above it, outermost first.
        numa_node: The NUMA node of the ``<cpu>`` around it; None if the file has none.
    """

    address: PciAddress
    kind: EndpointKind
    element: Element
    parts: tuple[Element, ...]
    bridges: tuple[PciAddress, ...]
    numa_node: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PciTree:
    """All devices of a topology file, in document order, and the assumptions that were made."""

    endpoints: tuple[Endpoint, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an element in the tree, which its children inherit."""

    numa_node: int | None = None
    bridges: tuple[PciAddress, ...] = ()
    device: int | None = None


def read_pci_tree(document: TopologyDocument) -> PciTree:
    """Find every PCI device of a topology file.

    Raises:
        InputError: The root is not ``<system>``; a bus id, class, NUMA node or device name is invalid; a bus id
            stands for two devices; the file describes several hosts.
    """
    system = document.elements[0]
    if system.tag != "system":
        raise document.error(system, "not an NCCL topology file: the outermost element must be <system>")
    _refuse_several_hosts(document)
    walk = _Walk(document)
    places: list[_Place] = []
    for index, element in enumerate(document.elements):
        around = _Place() if element.parent is None else places[element.parent]
        places.append(walk.place(index, element, around))
    return walk.finish()


class _Walk:
    """Visits the elements once, a parent before its children."""

    def __init__(self, document: TopologyDocument) -> None:
        self._document = document
        self._has_pci_inside = {
            element.parent for element in document.elements if element.tag == "pci" and element.parent is not None
        }
        self._first: dict[PciAddress, tuple[Element, tuple[PciAddress, ...] | None]] = {}
        self._repeated: Counter[PciAddress] = Counter()
        self._devices: dict[int, tuple[PciAddress, _Place]] = {}
        self._parts: dict[int, list[Element]] = {}
        self._without_device: list[str] = []

    def place(self, index: int, element: Element, around: _Place) -> _Place:
        """Add one element; return the place of its children."""
        if element.tag == "cpu":
            numa_node = self._document.integer(element, "numaid", least=-1, most=_MAX_NUMA)
            return _Place(numa_node=None if numa_node == -1 else numa_node)
        if element.tag == "pci":
            return self._pci(index, element, around)
        if element.tag == "net":
            self._refuse_bad_name(element)
        if around.device is not None:
            self._parts[around.device].append(element)
        elif element.tag == "net":
            self._without_device.append(element.attributes.get("name", "?")[:40])
        return around

    def _pci(self, index: int, element: Element, around: _Place) -> _Place:
        address = self._document.address(element, "busid")
        class_ = self._document.hexadecimal(element, "class")
        is_bridge = (
            (class_ is not None and class_.startswith("0604"))
            or (class_ is None and index in self._has_pci_inside)
            or is_virtual_switch(address)
        )
        self._refuse_duplicate(address, element, around.bridges if is_bridge else None)
        if is_bridge:
            return replace(around, bridges=(*around.bridges, address), device=None)
        self._devices[index] = (address, around)
        self._parts[index] = []
        return replace(around, device=index)

    def _refuse_bad_name(self, net: Element) -> None:
        # NCCL joins the names of NICs that it merges with "+".
        for name in net.attributes.get("name", "").split("+"):
            if len(name) > _MAX_DEVICE_NAME or not name.isprintable() or "/" in name:
                shown = name if len(name) <= 40 else name[:37] + "..."
                raise self._document.error(
                    net,
                    f"name={shown!r} is not the name of a network device",
                    hint=f"expected at most {_MAX_DEVICE_NAME} printable characters without '/', such as mlx5_0",
                )

    def _refuse_duplicate(self, address: PciAddress, element: Element, bridges: tuple[PciAddress, ...] | None) -> None:
        first, first_bridges = self._first.setdefault(address, (element, bridges))
        if first is element:
            return
        # RCCL's own dumps write a switch once for each device below it (topo_4p4h.xml); elsewhere it is an error.
        if bridges is not None and bridges == first_bridges:
            self._repeated[address] += 1
            return
        raise self._document.error(
            element,
            f"bus id {address} stands a second time; it is in line {first.line} already",
            hint="a bus id names one device; remove one of the two",
        )

    def finish(self) -> PciTree:
        """Return the devices, classified."""
        notes = [
            f"The switch {address} stands {count + 1} times at one place of the file; it is taken as one switch."
            for address, count in self._repeated.items()
        ]
        if self._without_device:
            notes.append(
                f"Left out, for they have no PCI device of their own (sockets, or NICs that NCCL merged): "
                f"{', '.join(self._without_device)}."
            )
        added = self._attributes_left_out(notes)
        endpoints = []
        unclassified = []
        for index, (address, place) in self._devices.items():
            element = self._document.elements[index]
            element = replace(element, attributes={**added.get(address, {}), **element.attributes})
            parts = tuple(self._parts[index])
            class_ = self._document.hexadecimal(element, "class")
            if class_ is None and not parts:
                unclassified.append(address)
            endpoints.append(
                Endpoint(
                    address=address,
                    kind=_kind(
                        class_,
                        vendor=self._document.hexadecimal(element, "vendor"),
                        device=self._document.hexadecimal(element, "device"),
                        parts=parts,
                    ),
                    element=element,
                    parts=parts,
                    bridges=place.bridges,
                    numa_node=place.numa_node,
                )
            )
        if unclassified:
            notes.append(
                f'The file gives no class for {", ".join(unclassified)}: taken as GPUs. Add class="0x020000" to the '
                f"entries that are NICs."
            )
        return PciTree(endpoints=tuple(endpoints), notes=tuple(notes))

    def _attributes_left_out(self, notes: list[str]) -> Mapping[PciAddress, Mapping[str, str]]:
        bare = [
            address
            for index, (address, _) in self._devices.items()
            if "class" not in self._document.elements[index].attributes and not self._parts[index]
        ]
        found = catalogue.platform_attributes(bare) if bare else None
        if found is None:
            return {}
        name, attributes = found
        notes.append(
            f"The file has bus ids alone; they are those of {name}, and what they are comes from the catalogue."
        )
        return attributes


def _kind(class_: str | None, *, vendor: str | None, device: str | None, parts: tuple[Element, ...]) -> EndpointKind:
    tags = {part.tag for part in parts}
    if "gpu" in tags:
        return EndpointKind.GPU
    if tags & {"nic", "net"}:
        return EndpointKind.NIC
    class_code = int(class_[:4], 16) if class_ else None
    if vendor and catalogue.is_fpga(int(vendor, 16), int(device, 16) if device else None, class_code):
        return EndpointKind.FPGA
    # Without a class nothing is left but NCCL's own view: a file lists GPUs, and NICs if it lists them at all.
    if class_ is None or class_.startswith("03"):
        return EndpointKind.GPU
    if class_.startswith("02"):
        return EndpointKind.NIC
    if class_.startswith("12"):
        # AMD's MI300 series is of this class as well, and RCCL knows no other device of it (src/graph/topo.cc).
        return EndpointKind.GPU if vendor in (None, "1002") else EndpointKind.OTHER
    return EndpointKind.OTHER


def _refuse_several_hosts(document: TopologyDocument) -> None:
    # Where NVLink spans nodes (NVL72), NCCL dumps all of them into one file and tells them apart by host_hash.
    hosts = [element for element in document.elements if element.tag == "cpu" and "host_hash" in element.attributes]
    for cpu in hosts:
        if cpu.attributes["host_hash"] != hosts[0].attributes["host_hash"]:
            raise document.error(
                cpu,
                "the file describes more than one host (host_hash differs); Rootport reads one node from one file",
                hint="dump the file again with NCCL_MNNVL_ENABLE=0",
            )
