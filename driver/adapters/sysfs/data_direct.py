"""Finds the Data Direct functions of NICs: each belongs to the NIC whose vital product data name the same UUID.

Sources: linux-rdma/rdma-core, kernel-boot/rdma_topo, which matches the two by the keyword V3; Linux,
drivers/infiniband/hw/mlx5/data_direct.c for the device id; PCI Local Bus Specification 3.0, appendix I, for the format
of the data (VPD).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from driver.adapters.sysfs.pci import PciFunction
from driver.adapters.sysfs.reader import SysfsReader
from driver.model.pci import DirectPath, PciAddress, PciePath, pci_order

__all__ = ["data_direct_functions", "with_direct_paths"]

_MELLANOX: Final = 0x15B3
_DATA_DIRECT: Final = 0x2100
_VPD_BYTES: Final = 32768  # of 15 bits of addresses
_LARGE: Final = 0x80
_ENDS: Final = frozenset({0x78, 0x79})
_READ_ONLY: Final = 0x90
_UUID: Final = b"V3"


def data_direct_functions(
    reader: SysfsReader, functions: Mapping[PciAddress, PciFunction], nics: Iterable[PciAddress]
) -> dict[PciAddress, PciAddress]:
    """Return the address of the Data Direct function of each NIC that has one.

    Vital product data are read only where the machine has such a function: to read them takes the hardware long.

    Args:
        reader: Reads sysfs, and collects the notes.
        functions: All PCI functions.
        nics: The addresses of the RDMA NICs.
    """
    direct = [item for item in functions.values() if (item.vendor_id, item.device_id) == (_MELLANOX, _DATA_DIRECT)]
    by_uuid: dict[bytes, PciAddress] = {}
    for function in sorted(direct, key=lambda item: pci_order(item.address)):
        uuid = _uuid(reader, function)
        if uuid is None:
            reader.note(f"{function.address}: a Data Direct function whose vital product data name no NIC: left out")
        else:
            by_uuid.setdefault(uuid, function.address)
    found: dict[PciAddress, PciAddress] = {}
    for address in nics if by_uuid else ():
        uuid = _uuid(reader, functions[address])
        if uuid is not None and uuid in by_uuid:
            found[address] = by_uuid[uuid]
    return found


def with_direct_paths(
    paths: Mapping[PciAddress, PciePath], direct: Mapping[PciAddress, PciAddress]
) -> dict[PciAddress, PciePath]:
    """Return the paths, in which each NIC with a Data Direct function has that function's path as well."""
    found = dict(paths)
    for nic, address in direct.items():
        path = paths[address]
        second = DirectPath(address=address, root=path.root, switches=path.switches, numa_node=path.numa_node)
        found[nic] = replace(paths[nic], direct=second)
    return found


def _uuid(reader: SysfsReader, function: PciFunction) -> bytes | None:
    """Return the value of V3 in a function's read-only vital product data; None where it has none."""
    data = reader.host.read_bytes(f"{function.folder}/vpd", _VPD_BYTES) or b""
    values = (
        value for tag, item in _items(data) if tag == _READ_ONLY for key, value in _keywords(item) if key == _UUID
    )
    return next(values, None) or None


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data) and data[at] not in _ENDS:
        tag = data[at]
        start = at + (3 if tag & _LARGE else 1)
        length = int.from_bytes(data[at + 1 : start], "little") if tag & _LARGE else tag & 0x07
        if start + length > len(data):
            return
        yield tag, data[start : start + length]
        at = start + length


def _keywords(item: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 3 <= len(item):
        end = at + 3 + item[at + 2]
        if end > len(item):
            return
        yield item[at : at + 2], item[at + 3 : end]
        at = end
