"""RDMA NICs, their ports, virtual functions, interfaces and device nodes, as sysfs tells them.

Sources: Documentation/ABI/stable/sysfs-class-infiniband and Documentation/ABI/testing/sysfs-bus-pci (physfn, virtfnN,
sriov_totalvfs) of Linux.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from driver.adapters.catalogue import nic_model, vendor_name
from driver.adapters.sysfs_pci import PciFunction
from driver.adapters.sysfs_reader import SysfsReader
from driver.model.devices import LinkLayer, RdmaNic, RdmaPort, RdmaVf
from driver.model.pci import PciAddress, PciePath
from driver.model.rails import with_rails

__all__ = ["SysfsRdmaFunction", "rdma_functions", "rdma_nics"]

# PCI Code and ID Assignment Specification: InfiniBand network controller, and the older InfiniBand serial bus.
_INFINIBAND_CLASSES: Final = frozenset({0x0207, 0x0C06})
_VIRTUAL_FUNCTION: Final = re.compile(r"virtfn(0|[1-9][0-9]{0,4})", re.ASCII)
_UVERBS: Final = re.compile(r"uverbs(0|[1-9][0-9]{0,6})", re.ASCII)
_UMAD: Final = re.compile(r"umad(0|[1-9][0-9]{0,6})", re.ASCII)
_ISSM: Final = re.compile(r"issm(0|[1-9][0-9]{0,6})", re.ASCII)
_PORT: Final = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_STATE: Final = re.compile(r"[0-9]: ([A-Z_]+)", re.ASCII)
_RATE: Final = re.compile(r"([0-9]{1,6})(?:\.[0-9]+)? Gb/sec.*", re.ASCII)
_GUID: Final = re.compile(r"(?:[0-9a-f]{4}:){3}[0-9a-f]{4}", re.ASCII)
# A GID's lower half is the port's GUID (InfiniBand Architecture Specification 1.4, 4.1.1).
_GID: Final = re.compile(r"(?:[0-9a-f]{4}:){4}((?:[0-9a-f]{4}:){3}[0-9a-f]{4})", re.ASCII)
_NO_GUID: Final = "0000:0000:0000:0000"
# A switchdev representor stands on the PF for a VF, an SF or another host's PF; a physical port's name is p<N> (Linux,
# net/devlink/port.c, __devlink_port_phys_port_name_get).
_REPRESENTOR: Final = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:[vs]f[0-9]+)?", re.ASCII)
# node_desc of the soft devices: Linux, drivers/infiniband/sw/rxe/rxe_verbs.c and include/uapi/rdma/siw-abi.h.
_SOFT_DEVICES: Final = frozenset({"rxe", "Software iWARP stack"})


class _RdmaDevice(NamedTuple):
    """An RDMA device's name and its folder, links resolved."""

    name: str
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsRdmaFunction:
    """A PCI function that is an RDMA NIC, or a virtual function of one.

    Attributes:
        function: The PCI function.
        rdma_device: Name of its RDMA device; None while no driver has made one. The fields behind it are the model's.
        vfs: A PF's virtual functions by the N of their ``virtfnN``; none for a VF.
    """

    function: PciFunction
    rdma_device: str | None
    if_names: tuple[str, ...]
    ports: tuple[RdmaPort, ...]
    verbs_minor: int | None
    umad_minors: tuple[int, ...]
    issm_minors: tuple[int, ...]
    model: str | None
    sriov_total_vfs: int
    vfs: Mapping[int, SysfsRdmaFunction]


def rdma_functions(reader: SysfsReader, functions: Mapping[PciAddress, PciFunction]) -> tuple[SysfsRdmaFunction, ...]:
    """The node's RDMA PFs in PCI order, each with its VFs.

    Raises:
        NodeError: The list of RDMA devices is there and cannot be read.
    """
    by_folder = {function.folder: function for function in functions.values()}
    devices = _rdma_devices(reader, by_folder)
    physical = []
    known: set[PciAddress] = set()
    for function in functions.values():
        device = devices.get(function.address)
        is_nic = device is not None or function.class_code in _INFINIBAND_CLASSES
        if not is_nic or reader.host.resolve(f"{function.folder}/physfn") is not None:
            continue
        if device is None:
            reader.note(f"{function.address}: it has no RDMA device: no driver is bound to this InfiniBand NIC")
        vfs = {
            index: _rdma_function(reader, vf, devices.get(vf.address), {})
            for index, vf in sorted(_virtual_functions(reader, by_folder, function).items())
        }
        known.add(function.address)
        known.update(vf.function.address for vf in vfs.values())
        physical.append(_rdma_function(reader, function, device, vfs))
    for address, device in devices.items():
        if address not in known:
            reader.note(
                f"{address} ({device.name}): a virtual function whose PF is not an RDMA NIC here; it was left out"
            )
    return tuple(physical)


def rdma_nics(physical: tuple[SysfsRdmaFunction, ...], paths: Mapping[PciAddress, PciePath]) -> tuple[RdmaNic, ...]:
    """The inventory's NICs.

    Args:
        physical: The node's RDMA PFs, in PCI order.
        paths: The PCIe path of each PF.
    """
    return with_rails(
        RdmaNic(
            address=pf.function.address,
            pcie=paths[pf.function.address],
            index=index,
            rdma_device=pf.rdma_device,
            if_names=pf.if_names,
            vendor=vendor_name(pf.function.vendor_id),
            model=pf.model,
            ports=pf.ports,
            verbs_minor=pf.verbs_minor,
            umad_minors=pf.umad_minors,
            issm_minors=pf.issm_minors,
            sriov_total_vfs=pf.sriov_total_vfs,
            vfs=tuple(_rdma_vf(vf, number, pf, paths[pf.function.address]) for number, vf in pf.vfs.items()),
        )
        for index, pf in enumerate(physical)
    )


def _rdma_vf(vf: SysfsRdmaFunction, index: int, pf: SysfsRdmaFunction, pcie: PciePath) -> RdmaVf:
    return RdmaVf(
        address=vf.function.address,
        pcie=pcie,
        index=index,
        parent=pf.function.address,
        rdma_device=vf.rdma_device,
        if_names=vf.if_names,
        # VFs of several generations share a device id: the card's model is its PF's.
        model=pf.model,
        ports=vf.ports,
        verbs_minor=vf.verbs_minor,
        umad_minors=vf.umad_minors,
        issm_minors=vf.issm_minors,
    )


def _rdma_devices(reader: SysfsReader, by_folder: Mapping[str, PciFunction]) -> dict[PciAddress, _RdmaDevice]:
    """The RDMA device of each PCI function that has one."""
    devices: dict[PciAddress, _RdmaDevice] = {}
    for name in reader.host.names(f"{reader.sysfs}class/infiniband"):
        folder = reader.host.resolve(f"{reader.sysfs}class/infiniband/{name}")
        parent = reader.host.resolve(f"{folder}/device") if folder else None
        if not name.isprintable():
            reader.note(f"RDMA device {name!r}: not a name; it was left out")
        elif reader.text(f"{folder}/node_desc") in _SOFT_DEVICES or reader.text(f"{folder}/parent") is not None:
            # Older kernels put rxe under the PCI function of the interface that it uses; its attribute "parent" names
            # that interface, whatever an administrator wrote into node_desc.
            reader.note(f"RDMA device {name}: made in software (rxe or siw); it was left out")
        elif folder is None or parent is None:
            reader.note(f"RDMA device {name}: no hardware behind it inside the tree; it was left out")
        elif (function := by_folder.get(parent)) is None:
            reader.note(f"RDMA device {name}: {parent!r} is not a PCI function of this node; it was left out")
        elif (other := devices.get(function.address)) is not None:
            reader.note(f"RDMA device {name}: {function.address} has {other.name} as well; it was left out")
        else:
            devices[function.address] = _RdmaDevice(name, folder)
    return devices


def _virtual_functions(
    reader: SysfsReader, by_folder: Mapping[str, PciFunction], physical: PciFunction
) -> dict[int, PciFunction]:
    """The PF's virtual functions, by the N of their ``virtfnN``."""
    found: dict[int, PciFunction] = {}
    seen: set[PciAddress] = set()
    for name in reader.names(physical.folder):
        match = _VIRTUAL_FUNCTION.fullmatch(name)
        if match is None:
            continue
        virtual = by_folder.get(reader.host.resolve(f"{physical.folder}/{name}") or "")
        if virtual is None or reader.host.resolve(f"{virtual.folder}/physfn") != physical.folder:
            reader.note(f"{physical.address}: {name} is not a virtual function that points back to it; it was left out")
        elif virtual.address in seen:
            reader.note(f"{physical.address}: {name} is {virtual.address} a second time; it was left out")
        else:
            seen.add(virtual.address)
            found[int(match[1])] = virtual
    return found


def _rdma_function(
    reader: SysfsReader, function: PciFunction, device: _RdmaDevice | None, vfs: Mapping[int, SysfsRdmaFunction]
) -> SysfsRdmaFunction:
    folder = function.folder
    verbs = _device_nodes(reader, f"{folder}/infiniband_verbs", _UVERBS, device)
    return SysfsRdmaFunction(
        function=function,
        rdma_device=device.name if device else None,
        if_names=_interfaces(reader, f"{folder}/net"),
        ports=_ports(reader, device.folder) if device else (),
        verbs_minor=verbs[0] if verbs else None,
        umad_minors=_device_nodes(reader, f"{folder}/infiniband_mad", _UMAD, device),
        issm_minors=_device_nodes(reader, f"{folder}/infiniband_mad", _ISSM, device),
        model=_model(reader, function, device),
        sriov_total_vfs=max(reader.decimal(f"{folder}/sriov_totalvfs") or 0, 0),
        vfs=vfs,
    )


def _model(reader: SysfsReader, function: PciFunction, device: _RdmaDevice | None) -> str | None:
    model = nic_model(f"{function.vendor_id:04x}:{function.device_id:04x}")
    # The driver's own word, such as MT4129: better than nothing where the catalogue does not know the card.
    return model or (reader.text(f"{device.folder}/hca_type") if device else None)


def _interfaces(reader: SysfsReader, folder: str) -> tuple[str, ...]:
    return tuple(
        name
        for name in reader.names(folder)
        if name.isprintable() and not _REPRESENTOR.fullmatch(reader.text(f"{folder}/{name}/phys_port_name") or "")
    )


def _device_nodes(
    reader: SysfsReader, folder: str, name_of: re.Pattern[str], device: _RdmaDevice | None
) -> tuple[int, ...]:
    """The N of the RDMA device's nodes of one kind, by port."""
    nodes = []
    for name in reader.names(folder) if device else ():
        match = name_of.fullmatch(name)
        if device and match and reader.text(f"{folder}/{name}/ibdev") == device.name:
            nodes.append((reader.decimal(f"{folder}/{name}/port") or 0, int(match[1])))
    return tuple(number for _, number in sorted(nodes))


def _ports(reader: SysfsReader, rdma_device: str) -> tuple[RdmaPort, ...]:
    numbers = sorted(int(name) for name in reader.names(f"{rdma_device}/ports") if _PORT.fullmatch(name))
    return tuple(_port(reader, rdma_device, number) for number in numbers)


def _port(reader: SysfsReader, rdma_device: str, number: int) -> RdmaPort:
    folder = f"{rdma_device}/ports/{number}"
    layer = (reader.text(f"{folder}/link_layer") or "").lower()
    state = _STATE.fullmatch(reader.text(f"{folder}/state") or "")
    rate = _RATE.fullmatch(reader.text(f"{folder}/rate") or "")
    if layer == LinkLayer.INFINIBAND:
        gid = _GID.fullmatch(reader.text(f"{folder}/gids/0") or "")
        guid = gid[1] if gid else None
    else:
        # A RoCE port's GIDs are made from its IP addresses; the device's own GUID is what identifies it.
        node_guid = _GUID.fullmatch(reader.text(f"{rdma_device}/node_guid") or "")
        guid = node_guid[0] if node_guid else None
    return RdmaPort(
        number=number,
        link_layer=LinkLayer(layer) if layer in set(LinkLayer) else None,
        state=state[1].lower() if state else None,
        # 2.5 Gb/s and the like are rounded down.
        speed_gbps=int(rate[1]) if rate else None,
        guid=None if guid == _NO_GUID else guid,
    )
