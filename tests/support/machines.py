"""Nodes built by hand, with only what the layout looks at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.api.resource_v1 import Device
from driver.layout.slices import resource_slices
from driver.model.devices import Fpga, Gpu, GpuLink, LinkKind, LinkLayer, RdmaNic, RdmaPort, RdmaVf
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath

NAMED_VFS = NicPolicies.model_validate(
    {"apiVersion": "rootport.dev/v1alpha1", "kind": "NicPolicies", "policies": [{"vfs": "named"}]}
)


def address(bus: str) -> PciAddress:
    return PciAddress(f"0000:{bus}:00.0")


def path(numa: int | None = None, switches: str = "", root: str | None = None) -> PciePath:
    """``switches``: their bus numbers from the outermost to the nearest, ``"f0/f1"``."""
    return PciePath(root=root, switches=tuple(address(bus) for bus in switches.split("/") if bus), numa_node=numa)


def gpu(
    bus: str, numa: int | None = None, switches: str = "", *, links: Iterable[str | None] = (), **fields: Any
) -> Gpu:
    """``links``: the peers' bus numbers; None for an NVSwitch."""
    kind = fields.pop("kind", LinkKind.NVLINK)
    peers = tuple(GpuLink(kind=kind, peer=None if peer is None else address(peer), count=1) for peer in links)
    defaults: dict[str, Any] = {
        "address": address(bus),
        "pcie": path(numa, switches),
        "index": int(bus, 16),
        "links": peers,
        "minor": int(bus, 16),
    }
    return Gpu(**(defaults | fields))


def nic(bus: str, numa: int | None = None, switches: str = "", *, vfs: int = 0, **fields: Any) -> RdmaNic:
    """``vfs``: how many; they follow the PF on its bus."""
    ports = (RdmaPort(link_layer=LinkLayer.INFINIBAND, speed_gbps=400),)
    functions = tuple(
        RdmaVf(
            address=PciAddress(f"0000:{bus}:{1 + index // 8:02x}.{index % 8}"),
            pcie=path(numa, switches),
            index=index,
            parent=address(bus),
            ports=ports,
            verbs_minor=index,
        )
        for index in range(vfs)
    )
    defaults: dict[str, Any] = {
        "address": address(bus),
        "pcie": path(numa, switches),
        "index": int(bus, 16),
        "ports": ports,
        "vfs": functions,
        "verbs_minor": int(bus, 16),
    }
    return RdmaNic(**(defaults | fields))


def fpga(bus: str, numa: int | None = None, **fields: Any) -> Fpga:
    defaults: dict[str, Any] = {"address": address(bus), "pcie": path(numa), "index": int(bus, 16)}
    defaults["device_paths"] = (f"/dev/dfl-port.{int(bus, 16)}",)
    return Fpga(**(defaults | fields))


def node(*devices: Gpu | RdmaNic | Fpga, name: str = "node-a") -> Inventory:
    return Inventory(
        node=name,
        source=InventorySource.LIVE,
        gpus=tuple(device for device in devices if isinstance(device, Gpu)),
        nics=tuple(device for device in devices if isinstance(device, RdmaNic)),
        fpgas=tuple(device for device in devices if isinstance(device, Fpga)),
    )


def published(
    inventory: Inventory, kind: str | None = None, *, nic_policies: NicPolicies = DEFAULT_NIC_POLICIES
) -> list[Device]:
    """What the node publishes, of one type or all, in the order of allocation."""
    slices = resource_slices(inventory, nic_policies=nic_policies)
    devices = [device for part in slices for device in part.spec.devices]
    return [device for device in devices if kind is None or value(device, "type") == kind]


def buses(devices: Iterable[Device]) -> list[str]:
    """The devices' bus numbers."""
    return [device.name.split("-")[-3] for device in devices]


def value(device: Device, name: str) -> str | int | None:
    """An attribute's value, whatever its type; None where it is absent."""
    wire = device.attributes[name].to_wire() if name in device.attributes else {}
    return next(iter(wire.values()), None)
