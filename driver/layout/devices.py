"""One device of the inventory as a device of a ResourceSlice: its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from driver.api import resource_v1
from driver.layout import attributes
from driver.layout.values import identifier, number, text, version
from driver.model.devices import Device, DeviceType, Fpga, Gpu, RdmaFunction, RdmaNic, RdmaPort, RdmaVf
from driver.model.parts import GpuRatio, MigPartition
from driver.model.pci import PciAddress, is_standard_bus_id

__all__ = ["fpga_device", "gpu_attributes", "nic_device", "partition_attributes", "ratio_attributes", "vf_device"]

_Attributes: TypeAlias = dict[str, resource_v1.DeviceAttribute | None]
_Present: TypeAlias = dict[str, resource_v1.DeviceAttribute]


def gpu_attributes(gpu: Gpu, *, domains: Mapping[PciAddress, PciAddress]) -> _Present:
    """Of a whole GPU; ``domains`` are the link domains of all GPUs of the node."""
    return _present(_common(gpu, gpu.vendor) | _gpu(gpu, domains))


def ratio_attributes(ratio: GpuRatio, *, domains: Mapping[PciAddress, PciAddress]) -> _Present:
    """Of a GPU's percent device: those of the GPU, except for the type."""
    return gpu_attributes(ratio.gpu, domains=domains) | _present({attributes.TYPE: identifier(ratio.type)})


def partition_attributes(partition: MigPartition) -> _Present:
    """Of a MIG partition. There are many of them, so they have only what a claim cannot do without."""
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


def nic_device(nic: RdmaNic) -> resource_v1.Device:
    """A whole RDMA NIC: a PF."""
    return _device(nic, _common(nic, nic.vendor) | _network(nic))


def vf_device(vf: RdmaVf, *, vendor: str | None) -> resource_v1.Device:
    """A VF of an RDMA NIC; the vendor is its PF's."""
    own: _Attributes = {attributes.PARENT: identifier(vf.parent)}
    return _device(vf, _common(vf, vendor) | _network(vf) | own)


def fpga_device(fpga: Fpga) -> resource_v1.Device:
    """An FPGA."""
    return _device(fpga, _common(fpga, fpga.vendor))


def _device(device: Device, given: _Attributes) -> resource_v1.Device:
    return resource_v1.Device(name=device.name, attributes=_present(given))


def _present(given: _Attributes) -> _Present:
    return {name: value for name, value in given.items() if value is not None}


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


def _gpu(gpu: Gpu, domains: Mapping[PciAddress, PciAddress]) -> _Attributes:
    return {
        attributes.UUID: identifier(gpu.uuid),
        attributes.ARCHITECTURE: text(gpu.architecture),
        attributes.DRIVER_VERSION: version(gpu.driver_version),
        attributes.CUDA_DRIVER_VERSION: version(gpu.cuda_driver_version),
        attributes.CUDA_COMPUTE_CAPABILITY: version(gpu.cuda_compute_capability),
        attributes.NVLINK_DOMAIN: identifier(domains.get(gpu.address)),
    }


def _network(nic: RdmaFunction) -> _Attributes:
    return {
        attributes.RDMA_DEVICE: identifier(nic.rdma_device),
        attributes.IF_NAME: identifier(min(nic.if_names, default=None)),
        attributes.LINK_TYPE: identifier(_link_type(nic.ports)),
        attributes.LINK_SPEED: number(max((port.speed_gbps for port in nic.ports if port.speed_gbps), default=None)),
        attributes.RAIL: number(nic.rail),
    }


def _link_type(ports: tuple[RdmaPort, ...]) -> str | None:
    layers = {port.link_layer for port in ports}
    return layers.pop() if len(layers) == 1 else None
