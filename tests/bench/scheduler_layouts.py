"""The slices that the scheduler's bench publishes: a machine's in each layout of Rootport, and a plain driver's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from driver.layout import resource_slices
from driver.model.devices import DeviceName, LinkLayer, RdmaNic, RdmaPort
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress
from tests.support.mig_machines import dgx_h100

__all__ = ["LAYOUTS", "PLAIN", "Layout"]

_Wire = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """What each node publishes.

    Attributes:
        name: Its name in the bench's output.
        driver: The driver of the DeviceClass ``gpu.<driver>``.
        slices: One node's slices.
        kinds: For what else claims can be made, beside whole GPUs.
    """

    name: str
    driver: str
    slices: tuple[_Wire, ...]
    kinds: tuple[str, ...] = ()

    @property
    def gpus(self) -> list[_Wire]:
        """The devices of whole GPUs, in their order of allocation."""
        devices = [device for wire in self.slices for device in wire["spec"].get("devices", ())]
        return [device for device in devices if device["name"].removeprefix("gpu-")[0].isdigit()]

    def of(self, node: str) -> list[_Wire]:
        """Return the slices of a node of this name."""
        made = []
        for wire in self.slices:
            spec = wire["spec"] | {"nodeName": node, "pool": wire["spec"]["pool"] | {"name": node}}
            made.append(wire | {"metadata": {"name": wire["metadata"]["name"].replace("any", node)}, "spec": spec})
        return made

    def size(self) -> str:
        """Return what there is of it on a node, for a person."""
        devices = [device for wire in self.slices for device in wire["spec"].get("devices", ())]
        attributes = sum(len(device["attributes"]) for device in devices)
        counters = sum(len(each["counters"]) for wire in self.slices for each in wire["spec"].get("sharedCounters", ()))
        text = sum(len(json.dumps(wire, separators=(",", ":"))) for wire in self.slices)
        return (
            f"{len(devices)} devices, {attributes} attributes, {counters} counters, {len(self.slices)} slices, "
            f"{text / 1000:.1f} kB"
        )


def _machine(*, nics: bool) -> Inventory:
    """Eight H100s with all that NVML and sysfs tell of them, and a NIC beside each."""
    inventory = dgx_h100("any")
    beside = (
        RdmaNic(
            address=PciAddress(gpu.address.replace(":00.0", ":00.1")),
            pcie=gpu.pcie,
            index=gpu.index,
            vendor="nvidia",
            model="ConnectX-7",
            rdma_device=f"mlx5_{gpu.index}",
            if_names=(f"ib{gpu.index}",),
            ports=(
                RdmaPort(link_layer=LinkLayer.INFINIBAND, state="active", speed_gbps=400, guid="0002:c903:00a1:b2c3"),
            ),
            verbs_minor=gpu.index,
            rail=gpu.index,
        )
        for gpu in inventory.gpus
    )
    return replace(inventory, nics=tuple(beside) if nics else ())


def _rootport(name: str, *, modes: str, ahead: int = 8, nics: bool = False) -> Layout:
    """Publish ``modes`` of every GPU, and MIG partitions of the last ``ahead`` of them alone."""
    inventory = _machine(nics=nics)
    order = [device for part in resource_slices(inventory) for device in part.spec.devices]
    wholes = [device.name for device in order if device.name.startswith("gpu-0")]
    only = {}
    for position, whole in enumerate(wholes):
        address = whole.removeprefix("gpu-")
        names = [device.name for device in order if address in device.name and not device.name.startswith("mig")]
        if position >= len(wholes) - ahead:
            names += [device.name for device in order if address in device.name and device.name.startswith("mig")]
        if modes == "one":
            names = [whole]
        if modes == "lean3" and position >= len(wholes) - ahead:
            firsts = {}
            for each in names:
                firsts.setdefault(each.rpartition("-")[0] if each.startswith("mig") else each, each)
            names = list(firsts.values())
        if modes in ("lean2", "lean3") and position < len(wholes) - ahead:
            names = [whole]
        only[DeviceName(whole)] = frozenset(DeviceName(each) for each in names)
    wires = tuple(item.to_wire() for item in resource_slices(inventory, only=only))
    return Layout(name, "rootport.dev", wires, ("share",) if modes == "one" else ("share", "mig"))


def _plain() -> Layout:
    """Eight devices, no counters, and the attributes that a simple driver of GPUs has."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "index": {"int": index},
                "uuid": {"string": f"GPU-0b2a8c7e-55f1-4b7e-8f2f-2f0d0c9f4c1{index}"},
                "model": {"string": "NVIDIA H100 80GB HBM3"},
                "driverVersion": {"version": "580.159.3"},
            },
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for index in range(8)
    ]
    wire = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "00000-plain.example-any"},
        "spec": {
            "driver": "plain.example",
            "nodeName": "any",
            "pool": {"name": "any", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
    return Layout("plain", "plain.example", (wire,))


PLAIN: Final = _plain()
LAYOUTS: Final = {
    each.name: each
    for each in (
        PLAIN,
        _rootport("one", modes="one"),
        _rootport("lean", modes="lean", ahead=1),
        _rootport("lean2", modes="lean2", ahead=1),
        _rootport("lean3", modes="lean3", ahead=1),
        _rootport("lean+nics", modes="lean", ahead=1, nics=True),
        _rootport("full", modes="full"),
    )
}
"""By name, the cheapest first."""
