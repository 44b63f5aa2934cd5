"""Reads the PCI functions from sysfs, and each one's path through the PCIe tree.

Sources: Documentation/ABI/testing/sysfs-bus-pci and include/uapi/linux/pci_regs.h of Linux for the files; PCI Express
Base Specification 6.0, 7.5.3.2 for the port types; k8s.io/dynamic-resource-allocation v0.36.3,
deviceattribute/pci_linux.go for the name of a root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from driver.adapters.sysfs.numa import NearNumaNodes
from driver.adapters.sysfs.reader import SysfsReader
from driver.model.pci import PciAddress, PciePath, parse_pci_address, pci_order
from driver.model.pci_tree import meaningful_switches
from driver.wording import listed

__all__ = ["PciFunction", "pci_functions", "pcie_paths"]

# A host bridge's folder: pci<domain>:<bus>.
_HOST_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)
# The largest CONFIG_NODES_SHIFT of Linux is 10.
_MAX_NUMA_NODES: Final = 1024
_SHOWN: Final = 4
"""Addresses in one note."""


class _PortType(IntEnum):
    """The Device/Port Types of the PCI Express Capabilities register that belong to a switch.

    OTHER stands for all other types, and for a bridge of conventional PCI, which has no such register.
    """

    OTHER = -1
    ROOT_PORT = 0x4
    SWITCH_UPSTREAM = 0x5


_PORT_TYPES: Final = {int(port_type): port_type for port_type in _PortType}


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFunction:
    """A PCI function.

    Attributes:
        address: PCI address.
        folder: Its folder below the host's root, links resolved.
        class_code: Base class and subclass, such as 0x0302; the programming interface is cut off.
        vendor_id: PCI vendor id.
        device_id: PCI device id.
        root: The first folder below ``sys/devices`` on its path where that is a PCI host bridge, such as
            ``pci0000:00``. The standard attribute pcieRoot knows no other roots; ACPI and platform devices on the way
            (arm64, Hyper-V's VMBus) leave a function without one.
        bridges: The PCI functions between its host bridge and itself, outermost first.
    """

    address: PciAddress
    folder: str
    class_code: int
    vendor_id: int
    device_id: int
    root: str | None
    bridges: tuple[PciAddress, ...]


def pci_functions(reader: SysfsReader) -> dict[PciAddress, PciFunction]:
    """Return every PCI function, in PCI order. A malformed one is left out and noted.

    Raises:
        NodeError: The list of PCI functions exists and cannot be read.
    """
    found: dict[PciAddress, PciFunction] = {}
    unreadable: dict[str, list[PciAddress]] = {}
    any_listed = False
    for name, folder in _function_folders(reader):
        any_listed = True
        try:
            address = parse_pci_address(name)
        except ValueError:
            reader.note(f"{name!r} on the PCI bus is not a PCI address; it was left out")
            continue
        if folder is None:
            reader.note(f"{address}: its link does not lead to its folder inside the tree; it was left out")
        elif address in found:
            reader.note(f"{address}: the tree has it twice; {folder!r} was left out")
        elif isinstance(function := _function(reader, address, folder), PciFunction):
            found[address] = function
        else:
            unreadable.setdefault(function, []).append(address)
    for why, addresses in unreadable.items():
        reader.note(_left_out(why, addresses))
    if not any_listed:
        reader.note(
            f"no PCI function was found: {reader.sysfs}bus/pci/devices and {reader.sysfs}devices/pci* were looked at; "
            "an archive of sysfs may have been made without them"
        )
    return {address: found[address] for address in sorted(found, key=pci_order)}


def pcie_paths(
    reader: SysfsReader, functions: Mapping[PciAddress, PciFunction], devices: Iterable[PciAddress]
) -> dict[PciAddress, PciePath]:
    """Return the paths of a node's devices, all of them together (see ``meaningful_switches``).

    Args:
        reader: Reads sysfs, and collects the notes.
        functions: All PCI functions.
        devices: Addresses of GPUs, NICs with their Data Direct functions, and FPGAs; SR-IOV virtual functions take the
            path of their PF.
    """
    port_types: dict[PciAddress, _PortType | None] = {}
    ports: dict[PciAddress, PciAddress | None] = {}
    chains: dict[PciAddress, tuple[PciAddress, ...]] = {}
    for address in devices:
        bridges = functions[address].bridges
        for bridge in bridges:
            if bridge not in port_types:
                port_types[bridge] = _port_type(reader, functions[bridge].folder) if bridge in functions else None
        ports[address], chains[address] = _root_port_and_switches(bridges, port_types)
    near = NearNumaNodes(reader)
    paths: dict[PciAddress, PciePath] = {}
    for address, switches in meaningful_switches(chains).items():
        numa_node = _numa_node(reader, functions[address])
        paths[address] = PciePath(
            root=functions[address].root,
            root_port=ports[address],
            switches=switches,
            numa_node=numa_node,
            near_numa_nodes=() if numa_node is None else near.of(numa_node),
        )
    return paths


def _function_folders(reader: SysfsReader) -> Iterator[tuple[str, str | None]]:
    """Yield name and folder of each function; None for a folder that cannot be used."""
    bus = f"{reader.sysfs}bus/pci/devices"
    if not reader.host.is_folder(bus):
        # Some archives of /sys keep the devices and leave the bus out.
        yield from _walk(reader)
        return
    for name in reader.host.names(bus):
        folder = reader.host.resolve(f"{bus}/{name}")
        is_its_own = folder is not None and folder.rpartition("/")[2] == name and reader.host.is_folder(folder)
        yield name, folder if is_its_own else None


def _walk(reader: SysfsReader) -> Iterator[tuple[str, str]]:
    """Yield every folder named as a PCI function below the host bridges of ``sys/devices``."""
    pending = [
        f"{reader.sysfs}devices/{name}"
        for name in reader.host.names(f"{reader.sysfs}devices")
        if _HOST_BRIDGE.fullmatch(name)
    ]
    while pending:
        parent = pending.pop()
        for name in reader.names(parent):
            folder = f"{parent}/{name}"
            is_function = _is_pci_address(name)
            # A link is not where its target is, and may lead in a circle.
            if (is_function or _HOST_BRIDGE.fullmatch(name)) and reader.host.resolve(folder) == folder:
                pending.append(folder)
                if is_function:
                    yield name, folder


def _left_out(attribute: str, addresses: Sequence[PciAddress]) -> str:
    """Return one note for an attribute that many functions lack, as in a copy of sysfs made without it."""
    if len(addresses) == 1:
        return f"{addresses[0]}: its {attribute} cannot be read as a PCI {attribute}; it was left out"
    some = listed(addresses, shown=_SHOWN)
    return (
        f"{len(addresses)} PCI functions were left out: the file {attribute} of each is missing or holds no PCI "
        f"{attribute} ({some}); a copy of /sys needs class, vendor and device of every function"
    )


def _function(reader: SysfsReader, address: PciAddress, folder: str) -> PciFunction | str:
    """Return the function, or the name of the attribute that cannot be read."""
    numbers: dict[str, int] = {}
    for attribute, largest in (("class", 0xFFFFFF), ("vendor", 0xFFFF), ("device", 0xFFFF)):
        number = reader.hexadecimal(f"{folder}/{attribute}")
        if number is None or number > largest:
            return attribute
        numbers[attribute] = number
    way = folder.removeprefix(f"{reader.sysfs}devices/").split("/")[:-1]
    # A PCI domain can hang below a function of another one (Intel VMD): its bridges start at its own host bridge.
    start = max((at + 1 for at, part in enumerate(way) if _HOST_BRIDGE.fullmatch(part)), default=0)
    return PciFunction(
        address=address,
        folder=folder,
        class_code=numbers["class"] >> 8,
        vendor_id=numbers["vendor"],
        device_id=numbers["device"],
        root=way[0] if way and _HOST_BRIDGE.fullmatch(way[0]) else None,
        bridges=tuple(parse_pci_address(part) for part in way[start:] if _is_pci_address(part)),
    )


def _is_pci_address(name: str) -> bool:
    try:
        return parse_pci_address(name) == name
    except ValueError:
        return False


def _root_port_and_switches(
    bridges: tuple[PciAddress, ...], port_types: Mapping[PciAddress, _PortType | None]
) -> tuple[PciAddress | None, tuple[PciAddress, ...]]:
    if all(port_types[bridge] is not None for bridge in bridges):
        root_ports = [bridge for bridge in bridges if port_types[bridge] == _PortType.ROOT_PORT]
        upstream = tuple(bridge for bridge in bridges if port_types[bridge] == _PortType.SWITCH_UPSTREAM)
        return (root_ports[0] if root_ports else None), upstream
    # Without root's rights the kernel shows 64 bytes of the configuration space, too few for the port types. Then the
    # order decides: first the root port, then an upstream and a downstream port for each switch.
    below_root_port = bridges[1:]
    return bridges[0], below_root_port[: len(below_root_port) // 2 * 2 : 2]


def _port_type(reader: SysfsReader, folder: str) -> _PortType | None:
    """Return a bridge's port type, from its PCI Express capability; None if the file is too short."""
    config = reader.host.read_bytes(f"{folder}/config", 256) or b""
    if len(config) < 256:
        return None
    # Status register at 0x06, bit 4: there is a list of capabilities, and 0x34 points to the first one.
    at = config[0x34] & 0xFC if config[0x06] & 0x10 else 0
    # 48 capabilities of 4 bytes fill the space behind the header: more would be a circle.
    for _ in range(48):
        if at < 0x40:
            break
        if config[at] == 0x10:
            return _PORT_TYPES.get(config[at + 2] >> 4, _PortType.OTHER)
        at = config[at + 1] & 0xFC
    return _PortType.OTHER


def _numa_node(reader: SysfsReader, function: PciFunction) -> int | None:
    number = reader.decimal(f"{function.folder}/numa_node")
    if number is not None and number >= _MAX_NUMA_NODES:
        reader.note(f"{function.address}: NUMA node {number} is more than Linux can have; it was ignored")
        return None
    # -1 is the kernel's value for "the firmware does not report it".
    return number if number is not None and number >= 0 else None
