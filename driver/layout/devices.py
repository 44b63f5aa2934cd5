"""The attributes of a device of the inventory in a ResourceSlice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from driver import DRIVER_NAME
from driver.layout import attributes
from driver.layout.neighbours import LinkGroups, link_groups
from driver.layout.values import Value, identifier, number, text, version
from driver.model.devices import (
    Device,
    DeviceType,
    Fpga,
    Gpu,
    RdmaFunction,
    RdmaNetnsMode,
    RdmaNic,
    RdmaPort,
    RdmaVf,
)
from driver.model.inventory import Inventory
from driver.model.parts import AllocatableDevice, GpuRatio, MigPartition, RdmaVfPool, named_devices
from driver.model.pci import PciAddress, is_standard_bus_id

__all__ = [
    "device_attributes",
    "fpga_attributes",
    "gpu_attributes",
    "link_state",
    "nic_attributes",
    "partition_attributes",
    "partition_gpu_attributes",
    "pool_attributes",
    "ratio_attributes",
    "vf_attributes",
]

_Attributes: TypeAlias = dict[str, Value | None]
_Present: TypeAlias = dict[str, Value]

_ACTIVE: Final = "active"


def device_attributes(inventory: Inventory, names: Collection[str]) -> dict[str, Mapping[str, Value]]:
    """Return the attributes of some devices as they are published, or would be, without laying out the whole node.

    What policies decide is not among them.

    Args:
        inventory: The node.
        names: Of devices, VF pools and GPUs' parts; those that the node does not have are passed over.
    """
    linked = link_groups(inventory.gpus)
    nics = {nic.address: nic for nic in inventory.nics}
    netns_mode = inventory.rdma_netns_mode

    def attributes(device: AllocatableDevice) -> Mapping[str, Value]:
        match device:
            case Gpu():
                return gpu_attributes(device, linked=linked)
            case GpuRatio():
                return ratio_attributes(device, linked=linked)
            case MigPartition():
                return partition_attributes(device)
            case RdmaNic():
                return nic_attributes(device, netns_mode=netns_mode)
            case RdmaVf():
                return vf_attributes(device, nic=nics[device.parent], netns_mode=netns_mode)
            case RdmaVfPool():
                return pool_attributes(device, netns_mode=netns_mode)
            case Fpga():
                return fpga_attributes(device)

    return {name: attributes(device) for name, device in named_devices(inventory, names).items()}


def gpu_attributes(gpu: Gpu, *, linked: Mapping[PciAddress, LinkGroups]) -> _Present:
    """Return the attributes of a whole GPU; ``linked`` are the groups of all GPUs of the node that are linked."""
    return _present(_common(gpu, gpu.vendor) | _gpu(gpu) | _linked(linked.get(gpu.address)))


def ratio_attributes(ratio: GpuRatio, *, linked: Mapping[PciAddress, LinkGroups]) -> _Present:
    """Return the attributes of a GPU's percent device: those of the GPU, except for the type."""
    return gpu_attributes(ratio.gpu, linked=linked) | _present({attributes.TYPE: identifier(ratio.type)})


def partition_attributes(partition: MigPartition) -> _Present:
    """Return a MIG partition's attributes: there are many partitions, so only those that a claim cannot do without."""
    path = partition.pcie
    return _present(
        {
            attributes.STANDARD_PCIE_ROOT: identifier(path.root),
            attributes.STANDARD_NUMA_NODE: number(path.numa_node),
            attributes.TYPE: identifier(DeviceType.MIG),
            attributes.PROFILE: identifier(partition.profile.name),
            attributes.PCIE_SWITCH: identifier(path.switch),
        }
    )


def partition_gpu_attributes(partition: MigPartition, *, linked: Mapping[PciAddress, LinkGroups]) -> _Present:
    """Return what a MIG partition has of its GPU, and publishes only where an administrator wants it."""
    gpu = partition.gpu
    of_gpu = (
        _gpu(gpu)
        | _linked(linked.get(gpu.address))
        | {
            attributes.UUID: None,  # a partition has one of its own once it exists
            attributes.VENDOR: identifier(gpu.vendor),
            attributes.MODEL: text(gpu.model),
            attributes.NUMA_NODE: number(gpu.pcie.numa_node),
            attributes.PARENT: identifier(gpu.address),
            attributes.PARENT_UUID: identifier(gpu.uuid),
        }
    )
    return _present(of_gpu)


def nic_attributes(nic: RdmaNic, *, netns_mode: RdmaNetnsMode | None) -> _Present:
    """Return the attributes of a whole RDMA NIC: a PF."""
    return _present(_common(nic, nic.vendor) | _function(nic, netns_mode))


def vf_attributes(vf: RdmaVf, *, nic: RdmaNic, netns_mode: RdmaNetnsMode | None) -> _Present:
    """Return the attributes of a VF of a NIC that is given by its name."""
    own: _Attributes = {
        # A VF's own come and go with its network interface, from pod to pod.
        attributes.LINK_STATE: identifier(link_state(nic)),
        attributes.LINK_SPEED: number(nic.speed_gbps or vf.speed_gbps),
        # It may be set for a claim: the slice would be written with each such pod that comes or goes.
        attributes.GUID: None,
        attributes.PARENT: identifier(vf.parent),
    }
    return _present(_common(vf, nic.vendor) | _function(vf, netns_mode) | own)


def pool_attributes(pool: RdmaVfPool, *, netns_mode: RdmaNetnsMode | None) -> _Present:
    """Return the attributes of a NIC's VFs as one device: nothing that differs from VF to VF."""
    nic, path = pool.nic, pool.pcie
    ports = [port for vf in pool.vfs for port in vf.ports]
    return _present(
        {
            attributes.STANDARD_PCIE_ROOT: identifier(path.root),
            attributes.STANDARD_NUMA_NODE: number(path.numa_node),
            attributes.TYPE: identifier(pool.type),
            attributes.VENDOR: identifier(nic.vendor),
            attributes.MODEL: text(nic.model),
            attributes.NUMA_NODE: number(path.numa_node),
            attributes.PCIE_SWITCH: identifier(path.switch),
            attributes.LINK_TYPE: identifier(_link_type(ports) or _link_type(nic.ports)),
            attributes.LINK_SPEED: number(nic.speed_gbps),
            attributes.LINK_STATE: identifier(link_state(nic)),
            attributes.RAIL: number(nic.rail),
            attributes.RDMA_NETNS: identifier(netns_mode),
            attributes.PARENT: identifier(nic.address),
        }
    )


def fpga_attributes(fpga: Fpga) -> _Present:
    """Return the attributes of an FPGA."""
    return _present(_common(fpga, fpga.vendor))


def link_state(function: RdmaFunction) -> str | None:
    """Return ``active`` where a port is, else the first port's state; None where the source names none."""
    states = [port.state for port in function.ports if port.state is not None]
    return _ACTIVE if _ACTIVE in states else next(iter(states), None)


def _present(values: _Attributes) -> _Present:
    return {name: value for name, value in values.items() if value is not None}


def _common(device: Device, vendor: str | None) -> _Attributes:
    path = device.pcie
    return {
        attributes.STANDARD_PCIE_ROOT: identifier(path.root),
        attributes.STANDARD_PCI_BUS_ID: identifier(device.address if is_standard_bus_id(device.address) else None),
        attributes.STANDARD_NUMA_NODE: number(path.numa_node),
        attributes.TYPE: identifier(device.type),
        attributes.VENDOR: identifier(vendor),
        attributes.MODEL: text(device.model),
        attributes.INDEX: number(device.index),
        attributes.NUMA_NODE: number(path.numa_node),
        attributes.PCIE_SWITCH: identifier(path.switch),
    }


def _linked(groups: LinkGroups | None) -> _Attributes:
    if groups is None:
        return {}
    return {
        attributes.NVLINK_DOMAIN: identifier(groups.domain),
        attributes.NVLINK_OCTET: identifier(groups.octet),
        attributes.NVLINK_QUAD: identifier(groups.quad),
        attributes.NVLINK_PAIR: identifier(groups.pair),
    }


def _gpu(gpu: Gpu) -> _Attributes:
    return {
        attributes.UUID: identifier(gpu.uuid),
        attributes.ARCHITECTURE: text(gpu.architecture),
        attributes.DRIVER_VERSION: version(gpu.driver_version),
        attributes.CUDA_DRIVER_VERSION: version(gpu.cuda_driver_version),
        attributes.CUDA_COMPUTE_CAPABILITY: version(gpu.cuda_compute_capability),
    }


def _function(function: RdmaFunction, netns_mode: RdmaNetnsMode | None) -> _Attributes:
    return {
        attributes.MULTUS_DEVICE_ID: identifier(function.address),
        attributes.MULTUS_RESOURCE_NAME: identifier(f"{DRIVER_NAME}/{function.type}"),
        attributes.RDMA_DEVICE: identifier(function.rdma_device),
        attributes.IF_NAME: identifier(min(function.if_names, default=None)),
        attributes.LINK_TYPE: identifier(_link_type(function.ports)),
        attributes.LINK_SPEED: number(function.speed_gbps),
        attributes.LINK_STATE: identifier(link_state(function)),
        attributes.GUID: identifier(function.ports[0].guid if function.ports else None),
        attributes.RDMA_NETNS: identifier(netns_mode),
        attributes.RAIL: number(function.rail),
    }


def _link_type(ports: Sequence[RdmaPort]) -> str | None:
    layers = {port.link_layer for port in ports}
    return layers.pop() if len(layers) == 1 else None
