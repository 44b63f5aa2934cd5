"""Reads a machine description (:class:`~driver.api.machine.Machine`), and makes the NCCL topology of it.

It makes the elements of the file that NCCL would write there, so that there is one way to interpret a machine, and what
an NCCL file cannot express stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, permutations
from pathlib import Path
from typing import Final, NoReturn

from pydantic import JsonValue

from driver.adapters.files import yaml_documents
from driver.adapters.files.input_file import path_name, read_text
from driver.adapters.files.validated import validated
from driver.adapters.nccl.xml import MAX_ELEMENTS, Element, TopologyDocument
from driver.api.machine import CLASS_CODES, DeviceKind, Machine
from driver.api.validation.errors import shown
from driver.errors import InputError
from driver.model.pci import PciAddress, parse_pci_address

__all__ = ["machine_of", "read_machine"]

# A machine of 16 GPUs and 16 NICs takes 5 kB.
_LIMIT: Final = 1024**2
_WHAT: Final = "a machine description (YAML)"
_HOW_TO_WRITE_ONE: Final = (
    "examples/machines/README.md says how to write one; any NCCL program dumps an XML file instead"
)
_CLAIMS_GO_ELSEWHERE: Final = (
    "claims and pods go behind --claims of simulate, which may be repeated: --claims a.yaml --claims b.yaml"
)
# Linux: IB_DEVICE_NAME_MAX is 64. NCCL joins the names of NICs that it merges with "+".
_RDMA_DEVICE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_MAX_FUNCTIONS: Final = 8
_MAX_SHOWN: Final = 10
_NVSWITCH_CLASS: Final = "0x068000"
# As NCCL names all NVSwitches of a machine (NVIDIA/nccl, src/graph/xml.cc).
_NVSWITCH: Final = "fffffff:ffff:ff"

_Loc = tuple[str | int, ...]


def read_machine(path: Path) -> TopologyDocument:
    """Read a machine description as the NCCL topology file of the machine.

    Raises:
        InputError: The file cannot be read, is not YAML, or is no valid description: all mistakes, each with file, line
            and field.
    """
    source = path_name(path)
    documents = list(yaml_documents.read_documents(read_text(path, _LIMIT, _WHAT), source))
    others = sorted({document.kind for document in documents if document.kind.lower() not in {"", "machine"}})
    if others:
        raise InputError(f"{source}: describes no machine: it holds {shown(others[0])}", hint=_CLAIMS_GO_ELSEWHERE)
    if len(documents) != 1:
        raise InputError(f"{source}: expected one object of kind Machine, not {len(documents)}", hint=_HOW_TO_WRITE_ONE)
    return machine_of(documents[0], path)


def machine_of(document: yaml_documents.Document, path: Path) -> TopologyDocument:
    """Read a document of kind Machine as the NCCL topology file of the machine.

    Args:
        document: The document.
        path: Its file, for messages.

    Raises:
        InputError: It is no valid description: all mistakes, each with file, line and field.
    """
    machine = validated(document, Machine)
    placed, mistakes = _Walk(machine, document).run()
    if not mistakes:  # otherwise the numbers of the GPUs may be others
        mistakes.extend(_wrong_links(machine, sum(device.kind.is_gpu for device in placed)))
    if mistakes:
        mistakes.sort(key=lambda mistake: document.line(mistake[0]))
        raise InputError.of_all([document.error(loc, message) for loc, message in mistakes])
    return _Topology(path, machine, placed).document()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A device or bridge of the tree.

    Attributes:
        line: The line that it is written on.
        numa: The index of its NUMA node in the description.
        above: The index of its bridge among all devices; None without one.
    """

    kind: DeviceKind
    address: PciAddress
    names: tuple[str, ...]
    line: int
    numa: int
    above: int | None


class _Walk:
    """Visits the tree once, and collects devices and mistakes."""

    def __init__(self, machine: Machine, document: yaml_documents.Document) -> None:
        self._machine = machine
        self._document = document
        names = sorted(machine.kinds)
        self._known = ", ".join(names[:_MAX_SHOWN] + ["..."] * (len(names) > _MAX_SHOWN))
        self._placed: list[_Placed] = []
        self._lines: dict[PciAddress, int] = {}
        self._mistakes: list[tuple[_Loc, str]] = []

    def run(self) -> tuple[list[_Placed], list[tuple[_Loc, str]]]:
        """Return everything in the tree, a bridge before what is below it; and the mistakes, with their fields."""
        for number, numa_node in enumerate(self._machine.numa_nodes):
            self._list(list(numa_node.devices), ("numaNodes", number, "devices"), number, None)
        return self._placed, self._mistakes

    def _list(self, items: JsonValue, loc: _Loc, numa: int, above: int | None) -> None:
        if not isinstance(items, list):
            self._mistakes.append((loc, "expected a list of devices"))
            return
        for index, item in enumerate(items):
            here = (*loc, index)
            if isinstance(item, str):
                self._place(item, here, numa, above)
            elif isinstance(item, dict) and item:
                for text, below in item.items():
                    bridge = self._place(text, (*here, text), numa, above, has_below=True)
                    self._list(below, (*here, text), numa, bridge)
            else:
                self._mistakes.append((here, "expected a device, such as gpu 3b:00.0, or a bridge with a list"))

    def _place(self, text: str, loc: _Loc, numa: int, above: int | None, *, has_below: bool = False) -> int | None:
        """Add a device; return its index among all, None if it is not valid."""
        try:
            kind, address, names = self._parts(text)
            self._check(kind, address, names, has_below=has_below)
        except ValueError as error:
            self._mistakes.append((loc, str(error)))
            return None
        line = self._lines[address] = self._document.line(loc)
        self._placed.append(_Placed(kind=kind, address=address, names=names, line=line, numa=numa, above=above))
        return len(self._placed) - 1

    def _parts(self, text: str) -> tuple[DeviceKind, PciAddress, tuple[str, ...]]:
        word, _, rest = text.strip().partition(" ")
        address, *names = rest.split() or [""]
        kind = self._machine.kinds.get(word)
        if kind is None:
            raise ValueError(f"no kind is named {shown(word)}; there are {self._known}")
        return kind, parse_pci_address(address), tuple(names)

    def _check(self, kind: DeviceKind, address: PciAddress, names: tuple[str, ...], *, has_below: bool) -> None:
        if address in self._lines:
            raise ValueError(f"{address} is there a second time; it is in line {self._lines[address]} already")
        if has_below and not kind.is_bridge:
            raise ValueError("only a kind of class bridge can have devices below it")
        if names and not kind.is_nic:
            raise ValueError("only NICs have RDMA devices, which are named behind the address")
        for name in names:
            if not _RDMA_DEVICE.fullmatch(name):
                raise ValueError(f"{shown(name)} is not the name of a network device")
        if len(names) > _MAX_FUNCTIONS or len(set(names)) < len(names):
            raise ValueError(f"a card has at most {_MAX_FUNCTIONS} RDMA devices, each with a name of its own")


def _wrong_links(machine: Machine, gpus: int) -> Iterator[tuple[_Loc, str]]:
    for number, links in enumerate(machine.links):
        for index, group in enumerate(links.groups):
            loc = ("links", number, "groups", index)
            if max(group) >= gpus:
                yield loc, f"there is no GPU {max(group)}: the machine has {gpus}, counted from 0"
            elif len(set(group)) < len(group):
                yield loc, "a GPU is named twice"


class _Topology:
    """Makes the elements of a machine's topology file."""

    def __init__(self, path: Path, machine: Machine, placed: Sequence[_Placed]) -> None:
        self._path = path
        self._machine = machine
        self._placed = placed
        self._links = self._links_of_gpus()
        self._nic_numbers = _nic_numbers(placed)
        self._elements: list[Element] = []

    def document(self) -> TopologyDocument:
        """Return the topology file."""
        system = self._add("system", {}, 1, None)
        indices: dict[int, int] = {}
        cpus: dict[int, int] = {}
        gpu_numbers = count()
        for place, device in enumerate(self._placed):
            if device.numa not in cpus:
                numa_id = self._machine.numa_nodes[device.numa].id
                cpus[device.numa] = self._add(
                    "cpu", {"numaid": str(-1 if numa_id is None else numa_id)}, device.line, system
                )
            parent = cpus[device.numa] if device.above is None else indices[device.above]
            indices[place] = self._add("pci", _pci(device), device.line, parent)
            if device.kind.is_gpu:
                self._gpu(device, next(gpu_numbers), indices[place])
            elif device.kind.is_nic:
                self._nic(device, indices[place])
        return TopologyDocument(self._path, tuple(self._elements), subject="Machine")

    def _add(self, tag: str, attributes: Mapping[str, str], line: int, parent: int | None) -> int:
        if len(self._elements) >= MAX_ELEMENTS:
            self._refuse(line)
        self._elements.append(Element(tag, attributes, line, parent))
        return len(self._elements) - 1

    def _refuse(self, line: int) -> NoReturn:
        raise InputError(
            f"{path_name(self._path)}:{line}: Machine: more than {MAX_ELEMENTS} devices, ports and links, the most "
            "that is read"
        )

    def _gpu(self, device: _Placed, number: int, parent: int) -> None:
        kind = device.kind
        # NCCL writes ten times the compute capability, its AMD port the number of compute units.
        sm = str(kind.compute_units or "") or (kind.compute_capability or "").replace(".", "")
        attributes = {"dev": str(number), "sm": sm, "gcn": kind.architecture or ""}
        gpu = self._add("gpu", {name: value for name, value in attributes.items() if value}, device.line, parent)
        for tag, attributes in self._links.get(number, ()):
            self._add(tag, attributes, device.line, gpu)

    def _links_of_gpus(self) -> dict[int, list[tuple[str, dict[str, str]]]]:
        """Return tag and attributes of each link, by the GPU's number."""
        gpus = [device for device in self._placed if device.kind.is_gpu]
        found: dict[int, list[tuple[str, dict[str, str]]]] = {number: [] for number in range(len(gpus))}
        of_all = 0
        for links in self._machine.links:
            of_all += sum(len(group) ** 2 for group in links.groups) + len(gpus)
            if of_all > MAX_ELEMENTS:
                self._refuse(1)
            for number in found if links.nvswitch else ():
                attributes = {"target": _NVSWITCH, "count": str(links.count), "tclass": _NVSWITCH_CLASS}
                found[number].append((links.kind, attributes))
            for number, peer in (pair for group in links.groups for pair in permutations(group, 2)):
                class_ = _class_code(gpus[peer].kind)
                attributes = {"target": gpus[peer].address, "count": str(links.count), "tclass": class_}
                found[number].append((links.kind, attributes))
        return found

    def _nic(self, device: _Placed, parent: int) -> None:
        # Without a name and a speed there is nothing that NCCL could write.
        names = device.names or (("",) if device.kind.link_speed_gbps else ())
        nic = self._add("nic", {}, device.line, parent) if names else parent
        port = 0
        for name in names:
            for _ in range(device.kind.ports):
                port += 1
                attributes = {"port": str(port if device.kind.rdma else 0)}
                if name:
                    attributes["name"] = name
                if name in self._nic_numbers:
                    attributes["dev"] = str(self._nic_numbers[name])
                if device.kind.link_speed_gbps:
                    attributes["speed"] = str(device.kind.link_speed_gbps * 1000)
                self._add("net", attributes, device.line, nic)


def _nic_numbers(placed: Sequence[_Placed]) -> dict[str, int]:
    """Return NCCL's numbers of the NICs, which follow the names; none if a NIC has no name."""
    nics = [device.names for device in placed if device.kind.is_nic]
    if not all(nics):
        return {}
    return {name: number for number, name in enumerate(sorted({n for names in nics for n in names}, key=_natural))}


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts mlx5_9 before mlx5_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _class_code(kind: DeviceKind) -> str:
    return CLASS_CODES[kind.pci_class] if kind.pci_class else ""


def _pci(device: _Placed) -> dict[str, str]:
    kind = device.kind
    vendor, _, number = (kind.id or "").partition(":")
    speed, _, width = (kind.pcie_link or "").rpartition(" x")
    attributes = {
        "busid": device.address,
        "class": _class_code(kind),
        "vendor": vendor and f"0x{vendor}",
        "device": number and f"0x{number}",
        "link_speed": speed,
        "link_width": width,
    }
    return {name: value for name, value in attributes.items() if value}
