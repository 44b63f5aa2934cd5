"""The names of all attributes and capacities that Rootport publishes, and what each one means.

Users write these names in selectors and constraints: they are an API. A name stays what it is; docs/user/attributes.md
tells the same for users (a test holds the two together).

Names without a domain belong to the driver's domain: ``TYPE`` is ``device.attributes["rootport.dev"].type`` in a
selector and ``rootport.dev/type`` in a constraint. An attribute is absent where the node does not report the value.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ARCHITECTURE",
    "BANDWIDTH",
    "BANDWIDTH_RATIO",
    "CORE",
    "CUDA_COMPUTE_CAPABILITY",
    "CUDA_DRIVER_VERSION",
    "DRIVER_VERSION",
    "GUID",
    "IF_NAME",
    "INDEX",
    "LINK_SPEED",
    "LINK_STATE",
    "LINK_TYPE",
    "MEMORY",
    "MEMORY_RATIO",
    "MODEL",
    "MULTUS_DEVICE_ID",
    "MULTUS_RESOURCE_NAME",
    "NUMA_NODE",
    "NVLINK_DOMAIN",
    "NVLINK_OCTET",
    "NVLINK_PAIR",
    "NVLINK_QUAD",
    "PARENT",
    "PARENT_UUID",
    "PCIE_SWITCH",
    "PROFILE",
    "RAIL",
    "RDMA_DEVICE",
    "RDMA_NETNS",
    "SHARES",
    "SHARING_STRATEGY",
    "STANDARD_NUMA_NODE",
    "STANDARD_PCIE_ROOT",
    "STANDARD_PCI_BUS_ID",
    "TYPE",
    "UUID",
    "VENDOR",
    "VFS",
]

# Standard names, which other drivers publish as well: constraints on them can span drivers.

STANDARD_PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
"""String: the PCIe root complex, ``pci<domain>:<bus>`` (k8s.io/dynamic-resource-allocation, deviceattribute)."""

STANDARD_PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
"""String: the PCI address, ``dddd:bb:dd.f``. Absent where the PCI domain has more than the four digits that the
standard allows (same source); the device's name carries the whole address then."""

STANDARD_NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
"""Int: the NUMA node (KEP-6072; the library of Kubernetes 1.37 names it). Absent where the platform has none."""

MULTUS_DEVICE_ID: Final = "k8s.cni.cncf.io/deviceID"
"""String: the PCI address, of NICs and VFs: the device that Multus hands to a CNI plugin such as sriov-cni or
host-device (multus-cni pull request 1492)."""

MULTUS_RESOURCE_NAME: Final = "k8s.cni.cncf.io/resourceName"
"""String: ``rootport.dev/rdma`` or ``rootport.dev/rdma-vf``: what a NetworkAttachmentDefinition's annotation
``k8s.v1.cni.cncf.io/resourceName`` says where its network takes such a device (same source)."""

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

NVLINK_PAIR: Final = "nvlinkPair"
"""String: the same for two GPUs of a domain that are the best pair for each other, by the number of their direct links
(:func:`driver.layout.neighbours.link_groups`). Absent where all pairs are alike: behind NVSwitches, and in a larger
mesh of equal links."""

NVLINK_QUAD: Final = "nvlinkQuad"
"""String: likewise for the best four GPUs, which are two such pairs."""

NVLINK_OCTET: Final = "nvlinkOctet"
"""String: likewise for the best eight GPUs, which are two such quads."""

SHARING_STRATEGY: Final = "sharingStrategy"
"""String: of a GPU and of its percent device, how claims share it: ``timeSlicing``, ``mps`` or ``hamiCore``
(:func:`driver.layout.strategies.offered_strategy`)."""

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

PARENT_UUID: Final = "parentUUID"
"""String: of a MIG partition, the UUID of its GPU (the name that NVIDIA's DRA driver has for it). Published only where
the GpuPolicies want it (``extraAttributes``): there may be 25 partitions a GPU."""

# Of RDMA NICs, their VFs and pools of VFs. A pool has only what is the same whichever VF a claim gets.

RDMA_DEVICE: Final = "rdmaDevice"
"""String: the RDMA device, such as ``mlx5_0``."""

IF_NAME: Final = "ifName"
"""String: the network interface; the first by name where there are several."""

LINK_TYPE: Final = "linkType"
"""String: ``infiniband`` or ``ethernet`` (RoCE); absent where the ports differ."""

LINK_SPEED: Final = "linkSpeed"
"""Int: Gb/s of the fastest port."""

LINK_STATE: Final = "linkState"
"""String: as the kernel writes it, in lower case: ``active``, ``down``, ``init``, ``armed``. Of several ports
``active`` if one is, else the first port's. Of VFs, their NIC's. What has no active port is tainted as well
(:data:`driver.layout.names.LINK_DOWN`)."""

GUID: Final = "guid"
"""String: of NICs, the first port's GUID, ``0002:c903:00a1:b2c3``. A VF's may be set for a claim."""

RDMA_NETNS: Final = "rdmaNetns"
"""String: who sees the node's RDMA devices, ``shared`` or ``exclusive`` (``rdma system show``)."""

RAIL: Final = "rail"
"""Int: the rail of a rail-optimised network that the NIC is on: as the NicPolicies set it, or else by the convention of
:func:`driver.model.rails.with_rails`, which no source confirms. Absent where the NIC is on none."""

PARENT: Final = "parent"
"""String: of a VF and of a pool of VFs, the PCI address of the PF. Of a MIG partition that of its GPU, where the
GpuPolicies want it, as for :data:`PARENT_UUID`."""

BANDWIDTH: Final = "bandwidth"
"""Capacity: of a whole NIC that can be shared, and of a pool of VFs, bits per second of the NIC's fastest port. A share
takes some of it, a VF only what its request names. It keeps their sum within the NIC's; nothing on the node enforces
one share's."""

BANDWIDTH_RATIO: Final = "bandwidthRatio"
"""Capacity: the same in percent, 100, instead of :data:`BANDWIDTH`: where the NIC's speed is not known, or where the
NicPolicies say so. (Koordinator's ``rdma``.)"""

VFS: Final = "vfs"
"""Capacity: of a pool of VFs, how many there are. Each request takes 1."""
