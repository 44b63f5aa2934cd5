"""The devices of a node as its hardware describes them, whoever found them (NVML, sysfs or a topology file).

A field is None where the source does not report it: nothing here is guessed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, Final, NewType, TypeAlias

from driver.model.pci import PciAddress, PciePath

__all__ = [
    "Device",
    "DeviceName",
    "DeviceType",
    "Fpga",
    "Gpu",
    "GpuLink",
    "LinkKind",
    "LinkLayer",
    "MigInstance",
    "MigPlacement",
    "MigProfile",
    "MigSupport",
    "PciDevice",
    "RdmaFunction",
    "RdmaNetnsMode",
    "RdmaNic",
    "RdmaPort",
    "RdmaVf",
    "device_name",
]

_GIGA: Final = 10**9

DeviceName = NewType("DeviceName", str)
"""A device's name in its pool: a DNS label, stable over reboots (made from the PCI address)."""


class DeviceType(StrEnum):
    """The values of the attribute ``rootport.dev/type`` (DESIGN, the device model)."""

    GPU = "gpu"
    GPU_RATIO = "gpu-ratio"
    MIG = "mig"
    RDMA = "rdma"
    RDMA_VF = "rdma-vf"
    FPGA = "fpga"


@lru_cache(maxsize=4096)
def device_name(type_: DeviceType, address: PciAddress) -> DeviceName:
    """Return the name in the pool of a device of this type with this PCI address (:attr:`PciDevice.name`)."""
    return DeviceName(f"{type_}-{address.replace(':', '-').replace('.', '-')}")


class LinkKind(StrEnum):
    """A direct GPU interconnect."""

    NVLINK = "nvlink"
    XGMI = "xgmi"


class LinkLayer(StrEnum):
    """An RDMA port's link layer, as ``/sys/class/infiniband/<dev>/ports/<n>/link_layer`` names it, in lower case."""

    INFINIBAND = "infiniband"
    ETHERNET = "ethernet"


class RdmaNetnsMode(StrEnum):
    """Who sees a node's RDMA devices (rdma-system(8), ``rdma system show``).

    SHARED: every network namespace sees all of them. EXCLUSIVE: a device is in one network namespace, and only programs
    in that one can open it.
    """

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """Direct links from one GPU to one peer.

    Attributes:
        kind: NVLink or xGMI.
        peer: The peer GPU's address; None where the links end at an NVSwitch, which joins all GPUs on it.
        count: Number of links.
    """

    kind: LinkKind
    peer: PciAddress | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlacement:
    """A place for a MIG partition, in memory slices (NVML: nvmlGpuInstancePlacement_t)."""

    start: int
    size: int

    def overlaps(self, other: MigPlacement) -> bool:
        """Whether the two have a memory slice in common."""
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A GPU instance profile that NVML lists for a GPU (NVML: nvmlGpuInstanceProfileInfo).

    Attributes:
        name: The profile as users write it, such as ``1g.10gb``.
        profile_id: NVML's number of the profile.
        compute_slices: Compute slices (the g in the name).
        memory_bytes: Memory of one instance, in bytes.
        max_instances: How many fit on an empty GPU.
        placements: Where an instance can be placed.
        multiprocessors: Streaming multiprocessors of one instance; 0 where the source does not report it, as for the
            following.
        copy_engines: Copy engines of one instance.
        decoders: Video decoders of one instance.
        encoders: Video encoders of one instance.
        jpeg_engines: JPEG engines of one instance.
        ofa_engines: Optical flow accelerators of one instance.
    """

    name: str
    profile_id: int
    compute_slices: int
    memory_bytes: int
    max_instances: int
    placements: tuple[MigPlacement, ...]
    multiprocessors: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A MIG device that exists: a GPU instance with one compute instance that has all of it.

    Attributes:
        profile_id: NVML's number of the GPU instance's profile.
        placement: Where the GPU instance is.
        gpu_instance: NVML's id of the GPU instance on its GPU.
        compute_instance: NVML's id of the compute instance in the GPU instance.
        uuid: The MIG device's UUID, ``MIG-...``.
        gpu_instance_minor: N of ``/dev/nvidia-caps/nvidia-capN`` that gives access to the GPU instance.
        compute_instance_minor: The same for the compute instance.
    """

    profile_id: int
    placement: MigPlacement
    gpu_instance: int
    compute_instance: int
    uuid: str
    gpu_instance_minor: int
    compute_instance_minor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSupport:
    """What NVML reports about MIG.

    Attributes:
        enabled: Whether MIG mode is on.
        profiles: The profiles that NVML lists; empty where it lists none.
        instances: The MIG devices that an administrator made: a static layout. Those that Rootport makes and destroys
            itself are never among them.
    """

    enabled: bool
    profiles: tuple[MigProfile, ...] = ()
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice(ABC):
    """What every device has.

    Attributes:
        type: The value of the attribute ``type``.
        address: PCI address.
        pcie: Its path in the PCIe tree.
        index: Its order among the node's devices of its type; each type says which order.
    """

    type: ClassVar[DeviceType]

    address: PciAddress
    pcie: PciePath
    index: int

    @property
    def name(self) -> DeviceName:
        """The name in the pool.

        It is made from the PCI address and not from the index: when a GPU falls off the bus the indices of the others
        move, and a claim that was allocated before must not come to mean another device.
        """
        return device_name(self.type, self.address)

    @property
    @abstractmethod
    def device_nodes_known(self) -> bool:
        """Whether the source names the device's own device nodes, without which no container can have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(PciDevice):
    """A whole GPU.

    Attributes:
        index: NVML's index, or the order in the PCI tree where NVML is not there; GPUs of other vendors follow NVML's.
        minor: N of ``/dev/nvidiaN`` (NVIDIA) or of ``/dev/dri/renderDN`` (AMD).
        vendor: ``nvidia``, ``amd`` or the PCI vendor id such as ``0x1234``.
        memory_bytes: Memory of the card, in bytes.
        cuda_compute_capability: ``major.minor``.
        driver_version: The kernel driver's version as the driver writes it, such as ``580.159.03``.
        cuda_driver_version: The highest CUDA version of the driver, ``major.minor``.
        ecc_enabled: Whether ECC is on; None where the card has none or the source does not report it.
        mig: MIG support; None where the card has none or the source does not report it.
        links: Direct links to other GPUs or NVSwitches.
    """

    type: ClassVar[DeviceType] = DeviceType.GPU

    minor: int | None = None
    vendor: str = "nvidia"
    uuid: str | None = None
    model: str | None = None
    memory_bytes: int | None = None
    architecture: str | None = None
    cuda_compute_capability: str | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    ecc_enabled: bool | None = None
    mig: MigSupport | None = None
    links: tuple[GpuLink, ...] = ()

    @property
    def device_nodes_known(self) -> bool:
        """Whether the source reports the GPU's minor."""
        return self.minor is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort:
    """A port of an RDMA device.

    Attributes:
        number: From 1.
        link_layer: InfiniBand or Ethernet (RoCE).
        state: As sysfs writes it without the number, in lower case: ``active``, ``down``, ``init``, ``armed``.
        speed_gbps: Link speed in Gb/s.
        guid: Port GUID as 16 hexadecimal digits in groups of four, ``0002:c903:00a1:b2c3``.
    """

    number: int = 1
    link_layer: LinkLayer | None = None
    state: str | None = None
    speed_gbps: int | None = None
    guid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaFunction(PciDevice):
    """What the physical and the virtual functions of an RDMA NIC have in common.

    Attributes:
        rdma_device: Its RDMA device, such as ``mlx5_0``; None while no driver is bound, or where the source names none.
        if_names: Its network interfaces, sorted.
        ports: Its ports by number.
        verbs_minor: N of ``/dev/infiniband/uverbsN``; likewise umad_minors and issm_minors, one a port.
        rail: Its rail: which fabric plane of a rail-optimised network it is cabled to, by the convention of
            :mod:`driver.model.rails`. None where it is not of the node's compute fabric.
        default_route: Whether the node's default route goes through one of its interfaces, directly or by way of what
            stands on it, such as a bond, a VLAN or a bridge. None: no, or not known.
    """

    rdma_device: str | None = None
    if_names: tuple[str, ...] = ()
    model: str | None = None
    ports: tuple[RdmaPort, ...] = ()
    verbs_minor: int | None = None
    umad_minors: tuple[int, ...] = ()
    issm_minors: tuple[int, ...] = ()
    rail: int | None = None
    default_route: bool | None = None

    @property
    def device_nodes_known(self) -> bool:
        """Whether the source names the function's verbs node; not while it is bound to vfio-pci or to no driver."""
        return self.verbs_minor is not None

    @property
    def link_is_up(self) -> bool | None:
        """Whether any port is active; None where the source reports no port's state."""
        states = [port.state for port in self.ports if port.state is not None]
        return "active" in states if states else None

    @property
    def speed_gbps(self) -> int | None:
        """The speed of its fastest port, in Gb/s; None where the source reports none."""
        return max((port.speed_gbps for port in self.ports if port.speed_gbps), default=None)

    @property
    def bandwidth(self) -> int | None:
        """The speed of its fastest port, in bits per second; None where the source reports none."""
        return None if self.speed_gbps is None else self.speed_gbps * _GIGA


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaVf(RdmaFunction):
    """An SR-IOV virtual function of an RDMA NIC.

    Attributes:
        index: N of the PF's ``virtfnN``.
        parent: The PF's address.
    """

    type: ClassVar[DeviceType] = DeviceType.RDMA_VF

    parent: PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaNic(RdmaFunction):
    """An RDMA NIC: one physical function (PF).

    Attributes:
        index: Its order among the node's RDMA PFs.
        vendor: ``nvidia`` (Mellanox included), ``amazon``, ``broadcom``, ``intel``, ``amd`` or the PCI vendor id.
        sriov_total_vfs: How many VFs the PF can have (``sriov_totalvfs``).
        vfs: The VFs that exist now.
    """

    type: ClassVar[DeviceType] = DeviceType.RDMA

    vendor: str | None = None
    sriov_total_vfs: int = 0
    vfs: tuple[RdmaVf, ...] = ()

    @property
    def link_is_down(self) -> bool:
        """Whether neither the NIC nor a VF of it can have a link: no port of the PF is active, as far as is known.

        A VF's own ports do not count. They are down as well while its network interface is administratively down or it
        has no GUID yet, and both change when a pod has the VF.
        """
        return self.link_is_up is False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fpga(PciDevice):
    """An FPGA accelerator.

    Attributes:
        index: Its order among the node's FPGAs.
        device_paths: The character devices of its users, such as ``/dev/dfl-port.0`` or ``/dev/dri/renderD129``; the
            card's management nodes are not among them.
    """

    type: ClassVar[DeviceType] = DeviceType.FPGA

    vendor: str | None = None
    model: str | None = None
    device_paths: tuple[str, ...] = field(default=())

    @property
    def device_nodes_known(self) -> bool:
        """Whether the source names any device node of the FPGA."""
        return bool(self.device_paths)


Device: TypeAlias = Gpu | RdmaNic | RdmaVf | Fpga
