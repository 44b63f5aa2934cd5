"""The names of all attributes and capacities that Rootport publishes, and what each one says.

Users write these names in selectors and constraints: they are an API. A name stays what it is; docs/user/attributes.md
tells the same for users (a test holds the two together).

Names without a domain belong to the driver's domain: ``TYPE`` is ``device.attributes["rootport.dev"].type`` in a
selector and ``rootport.dev/type`` in a constraint. An attribute is absent where the node does not tell the value.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ARCHITECTURE",
    "CORE",
    "CUDA_COMPUTE_CAPABILITY",
    "CUDA_DRIVER_VERSION",
    "DRIVER_VERSION",
    "IF_NAME",
    "INDEX",
    "LINK_SPEED",
    "LINK_TYPE",
    "MEMORY",
    "MEMORY_RATIO",
    "MODEL",
    "NUMA_NODE",
    "NVLINK_DOMAIN",
    "PARENT",
    "PCIE_SWITCH",
    "PROFILE",
    "RAIL",
    "RDMA_DEVICE",
    "SHARES",
    "STANDARD_NUMA_NODE",
    "STANDARD_PCIE_ROOT",
    "STANDARD_PCI_BUS_ID",
    "TYPE",
    "UUID",
    "VENDOR",
]

# Standard names, which other drivers publish as well: constraints on them can span drivers.

STANDARD_PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
"""String: the PCIe root complex, ``pci<domain>:<bus>`` (k8s.io/dynamic-resource-allocation, deviceattribute)."""

STANDARD_PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
"""String: the PCI address, ``dddd:bb:dd.f``. Absent where the PCI domain has more than the four digits that the
standard allows (same source); the device's name carries the whole address then."""

STANDARD_NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
"""Int: the NUMA node (KEP-6072; the library of Kubernetes 1.37 names it). Absent where the platform has none."""

# Of every device.

TYPE: Final = "type"
"""String: ``gpu``, ``gpu-ratio`` (a GPU whose memory is given by percent), ``mig`` (a MIG partition), ``rdma``,
``rdma-vf`` or ``fpga`` (:class:`driver.model.devices.DeviceType`)."""

VENDOR: Final = "vendor"
"""String: ``nvidia`` (Mellanox included), ``amd``, ``intel``, ``amazon``, ``broadcom``, or the PCI vendor id."""

MODEL: Final = "model"
"""String: the product's name. Cut after 64 bytes, which is what a value may have."""

INDEX: Final = "index"
"""Int: its order among the node's devices of this type; of a VF, its number at its PF. For people: it changes when
a device before it fails. Claims that need one certain device select by ``uuid`` or PCI address."""

NUMA_NODE: Final = "numaNode"
"""Int: as the standard attribute of that name, for clusters whose other drivers do not publish it."""

PCIE_SWITCH: Final = "pcieSwitch"
"""String: the PCI address of the upstream port of the nearest PCIe switch that the device shares with another card. A
switch on a card itself does not count (:func:`driver.model.pci_tree.meaningful_switches`); absent without such a
switch."""

# Of GPUs.

UUID: Final = "uuid"
"""String: the GPU's UUID as the vendor's tools show it."""

ARCHITECTURE: Final = "architecture"
"""String: the GPU's architecture, such as ``Hopper``."""

DRIVER_VERSION: Final = "driverVersion"
"""Version: of the GPU's kernel driver. Leading zeros are dropped, since semantic versions have none: 580.159.03 is
published as 580.159.3 (NVIDIA's own DRA driver does the same)."""

CUDA_DRIVER_VERSION: Final = "cudaDriverVersion"
"""Version: the highest CUDA version that the driver supports, such as 13.0.0."""

CUDA_COMPUTE_CAPABILITY: Final = "cudaComputeCapability"
"""Version: the CUDA compute capability, such as 9.0.0."""

NVLINK_DOMAIN: Final = "nvlinkDomain"
"""String: the same for all GPUs of the node that NVLink, NVSwitch or xGMI joins, directly or through others; the PCI
address of the first of them. Absent without such links."""

MEMORY: Final = "memory"
"""Capacity: of a GPU and of a MIG partition, its memory in bytes. A share of a GPU takes some of it."""

CORE: Final = "core"
"""Capacity: of a GPU and of its percent device, 100: the percentage of its compute. A share takes some of it."""

MEMORY_RATIO: Final = "memoryRatio"
"""Capacity: of a GPU's percent device, 100: the percentage of its memory. A share takes some of it. (Koordinator's
``gpu-memory-ratio``.)"""

SHARES: Final = "shares"
"""Capacity: of a GPU and of its percent device, how many shares there can be, where an administrator limits that. Each
share takes 1."""

# Of MIG partitions.

PROFILE: Final = "profile"
"""String: the MIG profile as ``nvidia-smi mig -lgip`` names it, such as ``1g.10gb``."""

# Of RDMA NICs and their VFs.

RDMA_DEVICE: Final = "rdmaDevice"
"""String: the RDMA device, such as ``mlx5_0``."""

IF_NAME: Final = "ifName"
"""String: the network interface; the first by name where there are several."""

LINK_TYPE: Final = "linkType"
"""String: ``infiniband`` or ``ethernet`` (RoCE); absent where the ports differ."""

LINK_SPEED: Final = "linkSpeed"
"""Int: Gb/s of the fastest port."""

RAIL: Final = "rail"
"""Int: the rail of a rail-optimised network that the NIC is cabled to."""

PARENT: Final = "parent"
"""String: of a VF, the PCI address of its PF."""
