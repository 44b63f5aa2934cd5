"""Reads RDMA NICs, their ports, virtual functions, interfaces and device nodes from sysfs.

Sources: Documentation/ABI/stable/sysfs-class-infiniband and Documentation/ABI/testing/sysfs-bus-pci (physfn, virtfnN,
sriov_totalvfs) of Linux; drivers/infiniband/core/device.c for network namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from driver.adapters.catalogue import nic_model, vendor_name
from driver.adapters.sysfs.pci import PciFunction
from driver.adapters.sysfs.rdma_ports import rdma_ports
from driver.adapters.sysfs.reader import SysfsReader
from driver.model.devices import DeviceType, LinkLayer, RdmaNetnsMode, RdmaNic, RdmaPort, RdmaVf, device_name
from driver.model.pci import PciAddress, PciePath
from driver.model.rails import with_rails

__all__ = ["SysfsRdmaFunction", "rdma_functions", "rdma_netns_mode", "rdma_nics"]

# PCI Code and ID Assignment Specification: InfiniBand network controller, and the older InfiniBand serial bus.
_INFINIBAND_CLASSES: Final = frozenset({0x0207, 0x0C06})
# What a network controller's class means for its ports (the same specification); other classes leave it open.
_LINK_LAYERS: Final = {0x0200: LinkLayer.ETHERNET, 0x0207: LinkLayer.INFINIBAND}
_VIRTUAL_FUNCTION: Final = re.compile(r"virtfn(0|[1-9][0-9]{0,4})", re.ASCII)
_UVERBS: Final = re.compile(r"uverbs(0|[1-9][0-9]{0,6})", re.ASCII)
_UMAD: Final = re.compile(r"umad(0|[1-9][0-9]{0,6})", re.ASCII)
_ISSM: Final = re.compile(r"issm(0|[1-9][0-9]{0,6})", re.ASCII)
# A switchdev representor stands on the PF for a VF, an SF or another host's PF; a physical port's name is p<N> (Linux,
# net/devlink/port.c, __devlink_port_phys_port_name_get).
_REPRESENTOR: Final = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:[vs]f[0-9]+)?", re.ASCII)
# node_desc of the soft devices: Linux, drivers/infiniband/sw/rxe/rxe_verbs.c and include/uapi/rdma/siw-abi.h.
_SOFT_DEVICES: Final = frozenset({"rxe", "Software iWARP stack"})
# The parameter is the bool ib_devices_shared_netns, which `rdma system set netns` changes.
_NETNS_MODES: Final = {"Y": RdmaNetnsMode.SHARED, "N": RdmaNetnsMode.EXCLUSIVE}


class _RdmaDevice(NamedTuple):
    """An RDMA device's name and its folder, links resolved; None while it is in another network namespace."""

    name: str
    folder: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsRdmaFunction:
    """A PCI function that is an RDMA NIC, or a virtual function of one.

    Attributes:
        function: The PCI function.
        rdma_device: The name of its RDMA device; None while no driver has made one. The fields after it are the model's
            own.
        vfs: A PF's virtual functions by the N of their ``virtfnN``; empty for a VF.
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


def rdma_netns_mode(reader: SysfsReader) -> RdmaNetnsMode | None:
    """Return who sees the node's RDMA devices; None if ib_core is not loaded, or knows no modes yet."""
    value = reader.text(f"{reader.sysfs}module/ib_core/parameters/netns_mode")
    if value is not None and value not in _NETNS_MODES:
        reader.note(f"ib_core's parameter netns_mode is {value!r}, neither Y nor N; it was ignored")
    return _NETNS_MODES.get(value or "")


def rdma_functions(
    reader: SysfsReader, functions: Mapping[PciAddress, PciFunction], *, hidden: Collection[str] = ()
) -> tuple[SysfsRdmaFunction, ...]:
    """Return the node's RDMA PFs in PCI order, each with its VFs.

    Args:
        reader: Reads sysfs, and collects the notes.
        functions: All PCI functions, by address.
        hidden: Device names of PFs and VFs whose RDMA device may be in another network namespace, from which this
            sysfs does not show it.

    Raises:
        NodeError: The list of RDMA devices exists and cannot be read.
    """
    by_folder = {function.folder: function for function in functions.values()}
    devices = _rdma_devices(reader, by_folder)
    # Of all kinds: a software device may have nodes at a NIC whose own device is hidden.
    seen = reader.host.names(f"{reader.sysfs}class/infiniband") if hidden else ()
    for function in functions.values() if hidden else ():
        may_be_hidden = function.address not in devices and any(name in hidden for name in _names(function))
        if may_be_hidden and (device := _hidden_device(reader, function, seen)) is not None:
            devices[function.address] = device
    physical = []
    known: set[PciAddress] = set()
    for function in functions.values():
        device = devices.get(function.address)
        is_lent = device_name(DeviceType.RDMA, function.address) in hidden
        is_nic = device is not None or is_lent or function.class_code in _INFINIBAND_CLASSES
        if not is_nic or reader.host.resolve(f"{function.folder}/physfn") is not None:
            continue
        if device is None and not is_lent:
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
    """Return the inventory's NICs.

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
    """Return the RDMA device of each PCI function that has one."""
    devices: dict[PciAddress, _RdmaDevice] = {}
    for name in reader.host.names(f"{reader.sysfs}class/infiniband"):
        folder = reader.host.resolve(f"{reader.sysfs}class/infiniband/{name}")
        parent = reader.host.resolve(f"{folder}/device") if folder else None
        if not name.isprintable():
            reader.note(f"RDMA device {name!r}: not a name; it was left out")
        elif reader.text(f"{folder}/node_desc") in _SOFT_DEVICES or reader.text(f"{folder}/parent") is not None:
            # Older kernels put rxe under the PCI function of the interface that it uses; its attribute "parent" names
            # that interface, independent of what an administrator wrote into node_desc.
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


def _names(function: PciFunction) -> tuple[str, str]:
    """Return the function's name in the pool if it is a PF, and if it is a VF."""
    return device_name(DeviceType.RDMA, function.address), device_name(DeviceType.RDMA_VF, function.address)


def _hidden_device(reader: SysfsReader, function: PciFunction, seen: Collection[str]) -> _RdmaDevice | None:
    """Return an RDMA device of another network namespace: its device nodes are visible in all of them.

    Unlike the class ``infiniband``, the classes ``infiniband_verbs`` and ``infiniband_mad`` belong to no namespace.
    """
    folder = f"{function.folder}/infiniband_verbs"
    for name in reader.names(folder):
        device = reader.text(f"{folder}/{name}/ibdev") if _UVERBS.fullmatch(name) else None
        if device is not None and device not in seen:
            return _RdmaDevice(device, None)
    return None


def _hidden_ports(reader: SysfsReader, function: PciFunction, device: _RdmaDevice | None) -> tuple[RdmaPort, ...]:
    """Return what is known of the ports of a hidden RDMA device: their numbers, from its nodes, and link layer."""
    layer = _LINK_LAYERS.get(function.class_code or 0)
    numbers = sorted(dict(_nodes_by_port(reader, f"{function.folder}/infiniband_mad", _UMAD, device)))
    return tuple(RdmaPort(number=number, link_layer=layer) for number in numbers if number > 0)


def _virtual_functions(
    reader: SysfsReader, by_folder: Mapping[str, PciFunction], physical: PciFunction
) -> dict[int, PciFunction]:
    """Return the PF's virtual functions, by the N of their ``virtfnN``."""
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
        ports=rdma_ports(reader, device.folder)
        if device and device.folder
        else _hidden_ports(reader, function, device),
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
    return model or (reader.text(f"{device.folder}/hca_type") if device and device.folder else None)


def _interfaces(reader: SysfsReader, folder: str) -> tuple[str, ...]:
    return tuple(
        name
        for name in reader.names(folder)
        if name.isprintable() and not _REPRESENTOR.fullmatch(reader.text(f"{folder}/{name}/phys_port_name") or "")
    )


def _device_nodes(
    reader: SysfsReader, folder: str, name_of: re.Pattern[str], device: _RdmaDevice | None
) -> tuple[int, ...]:
    """Return the N of the RDMA device's nodes of one kind, by port."""
    return tuple(number for _, number in sorted(_nodes_by_port(reader, folder, name_of, device)))


def _nodes_by_port(
    reader: SysfsReader, folder: str, name_of: re.Pattern[str], device: _RdmaDevice | None
) -> Iterator[tuple[int, int]]:
    """Yield port (0 if unknown) and N of the RDMA device's nodes of one kind."""
    for name in reader.names(folder) if device else ():
        match = name_of.fullmatch(name)
        if device and match and reader.text(f"{folder}/{name}/ibdev") == device.name:
            yield reader.decimal(f"{folder}/{name}/port") or 0, int(match[1])
