"""The slices that the scheduler's bench publishes: a machine's in each layout of Rootport, and a plain driver's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.resource_v1 import ResourceSlice
from driver.layout.price import Price, price
from driver.layout.slices import resource_slices
from driver.model.devices import LinkLayer, RdmaNic, RdmaPort
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress
from driver.modes.free_node import free_node
from driver.modes.rule import Layout
from driver.ratios import SizeCounter, Sizes
from tests.support.mig_machines import dgx_h100

__all__ = ["ONE_SIZE", "PLAIN", "PUBLISHED", "THREE_SIZES", "Mixed", "Published"]

_Wire = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Published:
    """What each node publishes.

    Attributes:
        name: Its name in the bench's output.
        driver: The driver of the DeviceClass ``gpu.<driver>``.
        slices: One node's slices.
        kinds: For what else claims can be made, beside whole GPUs.
    """

    name: str
    driver: str
    slices: tuple[ResourceSlice, ...]
    kinds: tuple[str, ...] = ()

    @property
    def price(self) -> Price:
        """How much there is in a node's slices."""
        return price(self.slices)

    @property
    def gpus(self) -> list[_Wire]:
        """The devices of whole GPUs, in their order of allocation."""
        devices = [device.to_wire() for item in self.slices for device in item.spec.devices]
        return [device for device in devices if device["name"].removeprefix("gpu-")[0].isdigit()]

    def of(self, node: str) -> list[_Wire]:
        """Return the slices of a node of this name."""
        made = []
        for wire in (item.to_wire() for item in self.slices):
            spec = wire["spec"] | {"nodeName": node, "pool": wire["spec"]["pool"] | {"name": node}}
            made.append(wire | {"metadata": {"name": wire["metadata"]["name"].replace("any", node)}, "spec": spec})
        return made


@dataclass(frozen=True, slots=True)
class Mixed(Published):
    """What nodes with GPUs of several sizes publish, whole, in bytes and in percent.

    Attributes:
        machines: What the nodes publish, one after the other.
    """

    machines: tuple[Published, ...] = ()

    @property
    def sizes(self) -> Sizes:
        """The sizes of the GPUs."""
        counter = SizeCounter()
        for item in (item for machine in self.machines for item in machine.slices):
            for device in item.to_wire()["spec"].get("devices", ()):
                counter.add(device)
        return counter.sizes()

    def of(self, node: str) -> list[_Wire]:
        """Return the slices of a node of this name, which ends with its number."""
        return self.machines[int(node.rpartition("-")[2]) % len(self.machines)].of(node)


def _machine(*, nics: bool) -> Inventory:
    """Eight H100s with all that NVML and sysfs tell of them, and a NIC beside each."""
    inventory = dgx_h100("any")
    port = RdmaPort(link_layer=LinkLayer.INFINIBAND, state="active", speed_gbps=400, guid="0002:c903:00a1:b2c3")
    beside = (
        RdmaNic(
            address=PciAddress(gpu.address.replace(":00.0", ":00.1")),
            pcie=gpu.pcie,
            index=gpu.index,
            vendor="nvidia",
            model="ConnectX-7",
            rdma_device=f"mlx5_{gpu.index}",
            if_names=(f"ib{gpu.index}",),
            ports=(port,),
            verbs_minor=gpu.index,
            rail=gpu.index,
        )
        for gpu in inventory.gpus
    )
    return replace(inventory, nics=tuple(beside) if nics else ())


def _rootport(layout: Layout, *, nics: bool = False) -> Published:
    inventory = _machine(nics=nics)
    slices = resource_slices(inventory, only=free_node(layout, inventory, DEFAULT_POLICIES))
    kinds = ("share",) if layout is Layout.ONE else ("share", "mig")
    return Published(f"{layout}+nics" if nics else layout, "rootport.dev", slices, kinds)


def _mixed(name: str, *sizes_mib: int) -> Mixed:
    machines = []
    modes = GpuPolicies.model_validate(
        {
            "apiVersion": "rootport.dev/v1alpha1",
            "kind": "GpuPolicies",
            "policies": [{"modes": ["gpu", "gpu-ratio"]}],
        }
    )
    for mebibytes in sizes_mib:
        inventory = _machine(nics=False)
        gpus = tuple(replace(gpu, memory_bytes=mebibytes << 20) for gpu in inventory.gpus)
        machines.append(Published("", "rootport.dev", resource_slices(replace(inventory, gpus=gpus), policies=modes)))
    return Mixed(name, "rootport.dev", machines[0].slices, machines=tuple(machines))


def _plain() -> Published:
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
    return Published("plain", "plain.example", (ResourceSlice.model_validate(wire),))


PLAIN: Final = _plain()
PUBLISHED: Final = {
    each.name: each
    for each in (
        PLAIN,
        _rootport(Layout.ONE),
        _rootport(Layout.LEAN),
        _rootport(Layout.LEAN, nics=True),
        _rootport(Layout.FULL),
    )
}
"""By name, the cheapest first."""

ONE_SIZE: Final = _mixed("one size", 81559)
THREE_SIZES: Final = _mixed("three sizes", 23034, 46068, 81559)
"""A third of the nodes has GPUs of each size, eight to a node."""
