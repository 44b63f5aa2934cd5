"""Rootport's own API objects, ``rootport.dev/v1alpha1``, as frozen pydantic models.

``NodeInventory`` is a node's word about its devices, ``Device`` what the controller shows of each. The CRDs in
resourceclasses/crd are made from these models, their docstrings included (tools/generate_crds.py), so a bound here is
a bound at the API server. Bounds are what the kernel, NVML and PCI allow, with room to spare: they keep the object of a
broken or hostile node small, and never turn a real node away.

Fields that this version does not know are left out when an object is read: a newer writer may be there already.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, PlainSerializer, StrictBool, StrictInt

from driver.api.bounds import (
    MAX_CLAIMS_TO_PREPARE,
    MAX_DEVICES,
    MAX_FAULTS,
    MAX_NOTE_LENGTH,
    MAX_NOTES,
    MAX_RIVAL_DEVICES,
    MAX_RIVALS,
)
from driver.api.gpu_modes import MOST_CORE
from driver.api.prepared_device import DeviceMode
from driver.api.quantity import Quantity
from driver.api.resource_v1 import ObjectMeta, Wire

__all__ = [
    "MAX_ALLOCATIONS",
    "MAX_ATTRIBUTES",
    "MAX_NEAR",
    "MAX_PODS",
    "ClaimToPrepare",
    "Condition",
    "Device",
    "DeviceAllocation",
    "DeviceAmounts",
    "DeviceCounts",
    "DeviceFault",
    "DeviceFragment",
    "DeviceIsolation",
    "DevicePartition",
    "DevicePod",
    "DeviceRival",
    "DeviceSpec",
    "DeviceStatus",
    "Fpga",
    "Gpu",
    "GpuLink",
    "MigInstance",
    "MigPlacement",
    "MigProfile",
    "MigSupport",
    "NearDevice",
    "NodeInventory",
    "NodeInventorySpec",
    "NodeInventoryStatus",
    "OwnAttribute",
    "PciePath",
    "RdmaFunction",
    "RdmaNic",
    "RdmaPort",
    "RdmaVf",
]

MAX_NEAR: Final = 32
"""How many near devices a Device names: as many GPUs as NVIDIA's driver attaches."""

MAX_ATTRIBUTES: Final = 32
"""How many attributes of policies a Device shows: as many as a device of a ResourceSlice may have in all."""

MAX_ALLOCATIONS: Final = 256
"""How many allocations a Device names."""

MAX_PODS: Final = 16
"""How many pods of one allocation a Device names."""

# NVIDIA's driver attaches 32 GPUs at most (NV_MAX_DEVICES of open-gpu-kernel-modules, nvlimits.h).
_MAX_GPUS: Final = 64
_MAX_NICS: Final = 128
_MAX_VFS: Final = 1024
_MAX_FPGAS: Final = 64
# A PCI domain has 256 buses, of which each switch takes two; machines have chains of two or three.
_MAX_SWITCHES: Final = 16
_MAX_NEAR_NUMA_NODES: Final = 15
# NVML_NVLINK_MAX_LINKS is 36; xGMI has 7.
_MAX_LINKS: Final = 64
# NVML_GPU_INSTANCE_PROFILE_COUNT is 18, and no GPU has more than 8 memory slices to place an instance at.
_MAX_PROFILES: Final = 32
_MAX_PLACEMENTS: Final = 32
_MAX_INSTANCES: Final = 32
# In switchdev mode an mlx5 device has a port for each function that it represents.
_MAX_PORTS: Final = 1024

# Rust's regex crate and Go's regexp both read these; neither has look-ahead. What isprintable() refuses, roughly: no
# controls, no bidirectional overrides, no line ends.
_PRINTABLE: Final = r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$"
_PCI_ADDRESS: Final = r"^([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$"
# Whole bytes, as :class:`driver.api.quantity.Quantity` writes them; the model itself takes every quantity.
_QUANTITY: Final = r"^[0-9]+([KMGTPE]i|[kMGTPE])?$"
_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

_MEBI: Final = 20


def _mebibytes(size: Quantity) -> str:
    """``81559Mi``; the canonical form of what is no whole number of mebibytes, as older controllers have written."""
    amount = size.ceil()
    return f"{amount >> _MEBI}Mi" if amount and size == Quantity.of(amount >> _MEBI << _MEBI) else str(size)


Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=128, pattern=_PRINTABLE)]
AttributeText: TypeAlias = Annotated[str, Field(max_length=64)]
Note: TypeAlias = Annotated[str, Field(max_length=MAX_NOTE_LENGTH, pattern=_PRINTABLE)]
Address: TypeAlias = Annotated[str, Field(max_length=16, pattern=_PCI_ADDRESS)]
Root: TypeAlias = Annotated[str, Field(max_length=16, pattern=r"^pci[0-9a-f]{4,8}:[0-9a-f]{2}$")]
# A name in /sys/class/net or /sys/class/infiniband (15 and 63 characters in Linux): one part of a path, and not "..".
KernelName: TypeAlias = Annotated[str, Field(max_length=64, pattern=r"^[^./\s\p{Cc}\p{Cf}][^/\s\p{Cc}\p{Cf}]*$")]
DevicePath: TypeAlias = Annotated[
    str, Field(max_length=128, pattern=r"^/dev(/[A-Za-z0-9_:-][A-Za-z0-9_.:-]*)+$", description="A path below /dev.")
]
KernelNames: TypeAlias = Annotated[tuple[KernelName, ...], Field(max_length=_MAX_PORTS)]
DevicePaths: TypeAlias = Annotated[tuple[DevicePath, ...], Field(max_length=64)]
LinkType: TypeAlias = Literal["infiniband", "ethernet"]
PortState: TypeAlias = Annotated[str, Field(max_length=64, pattern=r"^[a-z_]+$")]
Guid: TypeAlias = Annotated[str, Field(max_length=19, pattern=r"^([0-9a-f]{4}:){3}[0-9a-f]{4}$")]
NodeName: TypeAlias = Annotated[
    str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
]
DeviceLabel: TypeAlias = Annotated[str, Field(max_length=63, pattern=_LABEL)]
UInt16: TypeAlias = Annotated[StrictInt, Field(ge=0, le=2**16 - 1)]
UInt32: TypeAlias = Annotated[StrictInt, Field(ge=0, le=2**32 - 1)]
Bytes: TypeAlias = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]
Percent: TypeAlias = Annotated[StrictInt, Field(ge=0, le=100)]
MemorySize: TypeAlias = Annotated[
    Quantity,
    PlainSerializer(_mebibytes, return_type=str),
    Field(json_schema_extra={"maxLength": 32, "pattern": _QUANTITY}),
]
"""Memory, written in Mi where it is a whole number of them: a column of ``kubectl get`` has one unit then."""
NumaNode: TypeAlias = Annotated[StrictInt, Field(ge=0, le=1023)]
Bandwidth: TypeAlias = Annotated[Quantity, Field(json_schema_extra={"maxLength": 32, "pattern": _QUANTITY})]
"""Bits per second."""
FaultReason: TypeAlias = Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z]([A-Za-z0-9]*)$")]
# The name of an extended resource: a subdomain, a slash and a label; a DRA driver's name is a subdomain.
RivalName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=317, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")
]
Time: TypeAlias = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Minors: TypeAlias = Annotated[tuple[UInt32, ...], Field(max_length=_MAX_PORTS)]

_IMMUTABLE: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "cannot be changed"}]
}
_RIGHT_COUNTS: Final = " && ".join(
    [
        *(f"self.counts.{kind} == (has(self.{kind}) ? size(self.{kind}) : 0)" for kind in ("gpus", "nics", "fpgas")),
        "self.counts.vfs == (has(self.nics) ? self.nics.map(nic, has(nic.vfs) ? size(nic.vfs) : 0).sum() : 0)",
    ]
)
_FEW_DEVICES: Final = f"self.counts.gpus + self.counts.nics + self.counts.vfs + self.counts.fpgas <= {MAX_DEVICES}"
# A name that would be longer than an object's may be is cut (driver.objects.names).
_RIGHT_NAME: Final = (
    "size(self.spec.nodeName) + 1 + size(self.spec.deviceName) > 253"
    " || self.metadata.name == self.spec.nodeName + '.' + self.spec.deviceName"
)


class _Object(Wire):
    """What is read of a newer writer's object is what this version knows."""

    model_config = ConfigDict(extra="ignore")


class Condition(_Object):
    """A condition in the form of metav1.Condition (k8s.io/apimachinery v0.36.3, pkg/apis/meta/v1/types.go).

    Attributes:
        type: What the condition is about, in CamelCase.
        status: True, False or Unknown.
        observed_generation: The metadata.generation that the condition was set upon.
        last_transition_time: When the status changed last (RFC 3339).
        reason: Why, in one CamelCase word, for programs.
        message: Why, for a person.
    """

    type: Annotated[
        str,
        Field(max_length=316, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"),
    ]
    status: Literal["True", "False", "Unknown"]
    observed_generation: Annotated[StrictInt, Field(ge=0, le=2**63 - 1)] | None = None
    last_transition_time: Time
    reason: Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    message: Annotated[str, Field(max_length=4096)]


Conditions: TypeAlias = Annotated[
    tuple[Condition, ...],
    Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class DirectPath(_Object):
    """The path of a NIC's Data Direct function, by which it reaches a GPU's memory without the CPU.

    Attributes:
        address: The function's PCI address.
        root: The root complex, pci<domain>:<bus>.
        switches: The upstream ports of the switches on the way that join several cards, outermost first.
        numa_node: The NUMA node; absent where the platform does not report it.
    """

    address: Address
    root: Root | None = None
    switches: Annotated[tuple[Address, ...], Field(max_length=_MAX_SWITCHES)] = ()
    numa_node: NumaNode | None = None


class PciePath(_Object):
    """Where a device hangs in the PCIe tree.

    Attributes:
        root: The root complex, pci<domain>:<bus>, as the attribute resource.kubernetes.io/pcieRoot names it.
        root_port: The root port's PCI address.
        switches: The upstream ports of the switches on the way that join several cards, outermost first.
        numa_node: The NUMA node; absent where the platform does not report it.
        near_numa_nodes: The other NUMA nodes of the same socket that are nearest to that one, and equally near.
        direct: The second path of a NIC that has a Data Direct function.
    """

    root: Root | None = None
    root_port: Address | None = None
    switches: Annotated[tuple[Address, ...], Field(max_length=_MAX_SWITCHES)] = ()
    numa_node: NumaNode | None = None
    near_numa_nodes: Annotated[tuple[NumaNode, ...], Field(max_length=_MAX_NEAR_NUMA_NODES)] = ()
    direct: DirectPath | None = None


class GpuLink(_Object):
    """Direct links from a GPU to one peer.

    Attributes:
        kind: NVLink or xGMI.
        peer: The peer GPU's PCI address; absent where the links end at an NVSwitch.
        count: The number of links.
    """

    kind: Literal["nvlink", "xgmi"]
    peer: Address | None = None
    count: Annotated[StrictInt, Field(ge=1, le=2**16 - 1)]


class MigPlacement(_Object):
    """A place for a MIG partition.

    Attributes:
        start: The first memory slice.
        size: The number of memory slices.
    """

    start: UInt32
    size: UInt32


class MigProfile(_Object):
    """A GPU instance profile that NVML lists.

    Attributes:
        name: The profile as users write it, such as 1g.10gb.
        profile_id: NVML's number of the profile.
        compute_slices: How many compute slices an instance has.
        memory_bytes: The memory of an instance, in bytes.
        max_instances: How many instances fit on an empty GPU.
        placements: Where an instance can be placed.
        multiprocessors: How many streaming multiprocessors an instance has; 0 where NVML does not report it, as below.
        copy_engines: How many copy engines an instance has.
        decoders: How many video decoders an instance has.
        encoders: How many video encoders an instance has.
        jpeg_engines: How many JPEG engines an instance has.
        ofa_engines: How many optical flow accelerators an instance has.
    """

    name: Text
    profile_id: UInt32 = Field(alias="profileID")
    compute_slices: UInt32
    memory_bytes: Bytes
    max_instances: UInt32
    placements: Annotated[tuple[MigPlacement, ...], Field(max_length=_MAX_PLACEMENTS)] = ()
    multiprocessors: UInt32 = 0
    copy_engines: UInt32 = 0
    decoders: UInt32 = 0
    encoders: UInt32 = 0
    jpeg_engines: UInt32 = 0
    ofa_engines: UInt32 = 0


class MigInstance(_Object):
    """A MIG device that exists: a GPU instance with one compute instance that has all of it.

    Attributes:
        profile_id: NVML's number of the GPU instance's profile.
        placement: Where the GPU instance is.
        gpu_instance: NVML's id of the GPU instance on its GPU.
        compute_instance: NVML's id of the compute instance in the GPU instance.
        uuid: The MIG device's UUID, MIG-...
        gpu_instance_minor: N of /dev/nvidia-caps/nvidia-capN that gives access to the GPU instance.
        compute_instance_minor: The same for the compute instance.
    """

    profile_id: UInt32 = Field(alias="profileID")
    placement: MigPlacement
    gpu_instance: UInt32
    compute_instance: UInt32
    uuid: Text
    gpu_instance_minor: UInt32
    compute_instance_minor: UInt32


class MigSupport(_Object):
    """What NVML reports about MIG.

    Attributes:
        enabled: Whether MIG mode is on.
        profiles: The profiles of GPU instances.
        instances: The MIG devices that an administrator made, to which this GPU's use is then limited.
    """

    enabled: StrictBool
    profiles: Annotated[tuple[MigProfile, ...], Field(max_length=_MAX_PROFILES)] = ()
    instances: Annotated[tuple[MigInstance, ...], Field(max_length=_MAX_INSTANCES)] = ()


class Gpu(_Object):
    """A whole GPU.

    Attributes:
        address: Its PCI address, <domain>:<bus>:<device>.<function>.
        pcie: Its path in the PCIe tree.
        index: NVML's index, or the order in the PCI tree; it moves when another GPU fails.
        minor: N of /dev/nvidiaN (NVIDIA) or /dev/dri/renderDN (AMD).
        vendor: nvidia, amd, or the PCI vendor id.
        uuid: The UUID as the vendor's tools show it.
        model: The product's name.
        memory_bytes: The card's memory, in bytes.
        architecture: The architecture, such as Hopper or gfx942.
        cuda_compute_capability: The CUDA compute capability, such as 9.0.
        driver_version: The kernel driver's version.
        cuda_driver_version: The highest CUDA version of the driver.
        ecc_enabled: Whether ECC is on.
        mig: What NVML reports about MIG; absent where the card has none.
        links: Direct links to other GPUs and NVSwitches.
    """

    address: Address
    pcie: PciePath = PciePath()
    index: UInt32
    minor: UInt32 | None = None
    vendor: Text
    uuid: Text | None = None
    model: Text | None = None
    memory_bytes: Bytes | None = None
    architecture: Text | None = None
    cuda_compute_capability: Text | None = None
    driver_version: Text | None = None
    cuda_driver_version: Text | None = None
    ecc_enabled: StrictBool | None = None
    mig: MigSupport | None = None
    links: Annotated[tuple[GpuLink, ...], Field(max_length=_MAX_LINKS)] = ()


class RdmaPort(_Object):
    """A port of an RDMA device.

    Attributes:
        number: From 1.
        link_layer: The link layer; ethernet is RoCE.
        state: The state that the kernel reports, such as active or down.
        speed_gbps: The link's speed in Gb/s.
        guid: The port's GUID.
    """

    number: Annotated[StrictInt, Field(ge=1, le=2**16 - 1)]
    link_layer: LinkType | None = None
    state: PortState | None = None
    speed_gbps: UInt32 | None = None
    guid: Guid | None = None


class RdmaFunction(_Object):
    """What the physical and the virtual functions of an RDMA NIC have in common.

    Attributes:
        address: Its PCI address, <domain>:<bus>:<device>.<function>.
        index: Of a NIC its order among the node's NICs, of a VF its number at its NIC.
        rdma_device: Its RDMA device, such as mlx5_0; absent while no driver has made one.
        if_names: Its network interfaces.
        model: The product's name.
        ports: Its ports.
        verbs_minor: N of /dev/infiniband/uverbsN.
        umad_minors: N of /dev/infiniband/umadN, one a port.
        issm_minors: N of /dev/infiniband/issmN, one a port.
        rail: The rail of a rail-optimised network that it is on by convention; policies may say another.
        default_route: True where the node's default route goes through one of its interfaces, directly or by way of a
            bond, a VLAN or a bridge; absent where it does not, or where that is not known.
    """

    address: Address
    index: UInt32
    rdma_device: KernelName | None = None
    if_names: KernelNames = ()
    model: Text | None = None
    ports: Annotated[tuple[RdmaPort, ...], Field(max_length=_MAX_PORTS)] = ()
    verbs_minor: UInt32 | None = None
    umad_minors: Minors = ()
    issm_minors: Minors = ()
    rail: UInt32 | None = None
    default_route: StrictBool | None = None


class RdmaVf(RdmaFunction):
    """An SR-IOV virtual function (VF) of the NIC in whose list it stands.

    Attributes:
        pcie: Its path in the PCIe tree; absent where it is the NIC's, as it is on real hardware.
    """

    pcie: PciePath | None = None


class RdmaNic(RdmaFunction):
    """An RDMA NIC: a physical function and its VFs.

    Attributes:
        pcie: Its path in the PCIe tree.
        vendor: nvidia (Mellanox included), amazon, broadcom, intel, amd, or the PCI vendor id.
        sriov_total_vfs: How many VFs it can have.
        vfs: The VFs that exist now.
    """

    pcie: PciePath = PciePath()
    vendor: Text | None = None
    sriov_total_vfs: UInt16 = Field(default=0, alias="sriovTotalVFs")
    vfs: Annotated[tuple[RdmaVf, ...], Field(max_length=_MAX_VFS)] = ()


class Fpga(_Object):
    """An FPGA.

    Attributes:
        address: Its PCI address, <domain>:<bus>:<device>.<function>.
        pcie: Its path in the PCIe tree.
        index: Its order among the node's FPGAs.
        vendor: amd, intel, or the PCI vendor id.
        model: The product's name.
        device_paths: The character devices of its users.
    """

    address: Address
    pcie: PciePath = PciePath()
    index: UInt32
    vendor: Text | None = None
    model: Text | None = None
    device_paths: DevicePaths = ()


class DeviceCounts(_Object):
    """How many devices the lists hold.

    Attributes:
        gpus: GPUs.
        nics: RDMA NICs.
        vfs: VFs of all NICs.
        fpgas: FPGAs.
    """

    gpus: UInt32
    nics: UInt32
    vfs: UInt32
    fpgas: UInt32


class NodeInventorySpec(_Object):
    """All devices of the node and where they hang.

    Attributes:
        source: Who described the node: the plugin on it (live), its sysfs alone, or an NCCL topology file.
        counts: How many devices there are, for kubectl get.
        gpus: The GPUs.
        nics: The RDMA NICs.
        fpgas: The FPGAs.
        rdma_netns_mode: Who sees the RDMA devices: all network namespaces (shared), or one each (exclusive); absent
            where the source does not report it.
        notes: What the source could not report, or left out and why; a sentence each.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {"rule": _RIGHT_COUNTS, "message": "counts must tell the lengths of the lists"},
                {"rule": _FEW_DEVICES, "message": f"a node has at most {MAX_DEVICES} devices"},
            ]
        }
    )

    source: Literal["live", "sysfs", "nccl-topology"]
    counts: DeviceCounts
    gpus: Annotated[tuple[Gpu, ...], Field(max_length=_MAX_GPUS)] = ()
    nics: Annotated[tuple[RdmaNic, ...], Field(max_length=_MAX_NICS)] = ()
    fpgas: Annotated[tuple[Fpga, ...], Field(max_length=_MAX_FPGAS)] = ()
    rdma_netns_mode: Literal["shared", "exclusive"] | None = None
    notes: Annotated[tuple[Note, ...], Field(max_length=MAX_NOTES)] = ()


class DeviceFault(_Object):
    """One thing that is wrong with one device.

    Attributes:
        device: The device's name: a GPU, a NIC or an FPGA, whose partitions and virtual functions have its faults.
        reason: What is wrong, in one CamelCase word such as Xid79 or LinkDown.
        effect: The effect of the taint that the device gets in the ResourceSlices; with None it gets no taint.
        since: When it began (RFC 3339).
        message: What is wrong and what to do, for a person.
    """

    device: DeviceLabel
    reason: FaultReason
    effect: Literal["None", "NoSchedule", "NoExecute"]
    since: Time
    message: Note


class DeviceRival(_Object):
    """Another system that gives out some of the node's devices: these have a taint in the ResourceSlices.

    Attributes:
        name: The extended resource, such as nvidia.com/gpu, or the name of the DRA driver.
        kind: DevicePlugin or DRADriver, the value of the taint.
        devices: The devices concerned: GPUs, NICs and FPGAs with their partitions and virtual functions, and single
            virtual functions.
        message: What is known, what is not, and what to do, for a person.
    """

    name: RivalName
    kind: FaultReason
    devices: Annotated[
        tuple[DeviceLabel, ...],
        Field(max_length=MAX_RIVAL_DEVICES, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    message: Note = ""


class ClaimToPrepare(_Object):
    """A claim that has devices of the node, and whose pod is bound once these are prepared (KEP-5007).

    Attributes:
        namespace: The claim's namespace.
        name: The claim's name.
        uid: The claim's UID.
    """

    namespace: Annotated[str, Field(max_length=63)]
    name: Annotated[str, Field(max_length=253)]
    uid: Annotated[str, Field(max_length=64)]


class NodeInventoryStatus(_Object):
    """What the plugin reports about itself and the node.

    Attributes:
        conditions: Ready, and what the plugin's checks of the node found.
        plugin_version: The version of the plugin that wrote the inventory.
        observed_generation: The metadata.generation that the status is about.
        watched: The names of the GPUs, NICs and FPGAs whose health is watched; one that is here and has no fault is
            healthy.
        faults: What is wrong with them.
        rivals: Who else gives out devices of the node.
        prepares_before_binding: The types of devices that the plugin prepares before a pod is bound to the node:
            these have binding conditions in the ResourceSlices.
        claims_to_prepare: The claims that wait for that, written by the controller.
    """

    conditions: Conditions = ()
    plugin_version: Text | None = None
    observed_generation: Annotated[StrictInt, Field(ge=0, le=2**63 - 1)] | None = None
    watched: Annotated[
        tuple[DeviceLabel, ...],
        Field(max_length=_MAX_GPUS + _MAX_NICS + _MAX_FPGAS, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    faults: Annotated[
        tuple[DeviceFault, ...],
        Field(
            max_length=MAX_FAULTS,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["device", "reason"],
            },
        ),
    ] = ()
    rivals: Annotated[
        tuple[DeviceRival, ...],
        Field(
            max_length=MAX_RIVALS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "kind"]},
        ),
    ] = ()
    prepares_before_binding: Annotated[
        tuple[Literal["mig", "rdma-vf"], ...],
        Field(max_length=2, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    claims_to_prepare: Annotated[
        tuple[ClaimToPrepare, ...],
        Field(
            max_length=MAX_CLAIMS_TO_PREPARE,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
        ),
    ] = ()


class NodeInventory(_Object):
    """A node's word about its devices: complete, written by the node's plugin alone, named after the node."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeInventorySpec
    status: NodeInventoryStatus | None = None


class NearDevice(_Object):
    """A device of the other kind that is near.

    Attributes:
        name: The device's name in its pool.
        distance: What joins the two, in the terms of nvidia-smi topo -m, nearest first: PIX (one PCIe switch at most),
            PXB (several switches), PHB (the host bridge), NODE (one NUMA node), SYS (several).
    """

    name: DeviceLabel
    distance: Literal["PIX", "PXB", "PHB", "NODE", "SYS"]


class OwnAttribute(_Object):
    """An attribute that the administrator's policies give to a device, as ResourceSlices have it.

    Attributes:
        name: Its full name, such as example.com/role.
        bool_value: True or false.
        int_value: A whole number.
        string_value: Text.
        version_value: A semantic version.
    """

    name: Annotated[str, Field(max_length=128)]
    bool_value: StrictBool | None = Field(default=None, alias="bool")
    int_value: Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)] | None = Field(default=None, alias="int")
    string_value: AttributeText | None = Field(default=None, alias="string")
    version_value: AttributeText | None = Field(default=None, alias="version")


class DeviceSpec(_Object):
    """What a device is and where it hangs.

    Attributes:
        node_name: The node it is in.
        device_name: Its name in the node's pool: what allocation results call it.
        type: What it is.
        parent: Of a part of a device (a VF) the name of the whole one.
        index: Its order among the node's devices of its type; of a VF its number at its NIC.
        minor: N of its device node: /dev/nvidiaN, /dev/dri/renderDN, /dev/infiniband/uverbsN.
        uuid: A GPU's UUID.
        vendor: nvidia, amd, intel, amazon, broadcom, or the PCI vendor id.
        model: The product's name.
        memory: A GPU's memory.
        architecture: A GPU's architecture.
        device_paths: Its device nodes, such as /dev/nvidia0, /dev/infiniband/uverbs0, or the character devices of an
            FPGA's users.
        rdma_device: A NIC's RDMA device, such as mlx5_0.
        if_names: A NIC's network interfaces.
        link_type: What a NIC's ports speak; ethernet is RoCE. Absent where the ports differ, as below.
        link_state: active where any port of a NIC is, else the state of its first port.
        link_speed_gbps: The speed of a NIC's fastest port, in Gb/s.
        guid: The GUID of a NIC's first port.
        pci_bus_id: Its PCI address.
        pcie_switch: The nearest switch that it shares with another card, by its upstream port.
        pcie_root: The root complex, pci<domain>:<bus>.
        numa_node: The NUMA node.
        near: The NICs nearest to a GPU or FPGA, and the GPUs nearest to a NIC or VF: all at the least distance.
        attributes: What the administrator's DevicePolicies say of it.
        left_out: Why the device is in no ResourceSlice; absent where it is offered.
    """

    node_name: Annotated[NodeName, Field(json_schema_extra=_IMMUTABLE)]
    device_name: Annotated[DeviceLabel, Field(json_schema_extra=_IMMUTABLE)]
    type: Literal["gpu", "mig", "rdma", "rdma-vf", "fpga"]
    parent: DeviceLabel | None = None
    index: UInt32
    minor: UInt32 | None = None
    uuid: Text | None = None
    vendor: Text | None = None
    model: Text | None = None
    memory: MemorySize | None = None
    architecture: Text | None = None
    device_paths: DevicePaths = ()
    rdma_device: KernelName | None = None
    if_names: KernelNames = ()
    link_type: LinkType | None = None
    link_state: PortState | None = None
    link_speed_gbps: UInt32 | None = None
    guid: Guid | None = None
    pci_bus_id: Address = Field(alias="pciBusID")
    pcie_switch: Address | None = None
    pcie_root: Root | None = None
    numa_node: NumaNode | None = None
    near: Annotated[tuple[NearDevice, ...], Field(max_length=MAX_NEAR)] = ()
    attributes: Annotated[tuple[OwnAttribute, ...], Field(max_length=MAX_ATTRIBUTES)] = ()
    left_out: Note | None = None


class DeviceIsolation(_Object):
    """Whether the limits of a claim's share hold.

    Attributes:
        state: enforced, or advisory where nothing holds a program to its share.
        by: What enforces it, or would, such as MIG, MPS, HAMi-core, time-slicing, or device for a claim that has the
            device alone.
        version: That one's version; absent where it has none of its own.
    """

    state: Literal["enforced", "advisory"]
    by: Text
    version: Text | None = None


class DevicePod(_Object):
    """A pod that has what a claim was given; it is in the claim's namespace.

    Attributes:
        name: The pod's name.
        uid: The pod's UID.
        containers: The containers that name the claim or the request; absent before they are known.
    """

    name: Annotated[str, Field(max_length=253)]
    uid: Annotated[str, Field(max_length=64)]
    containers: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=64)] = ()


class DeviceAllocation(_Object):
    """What one claim was given of the device.

    Attributes:
        namespace: The claim's namespace.
        claim: The claim's name.
        uid: The claim's UID.
        request: The request in the claim, with the alternative of a prioritized list as request/subrequest.
        device: The allocated device's name, which of a GPU may be one of its parts (its ratio device or a partition).
        share_id: Which share of the device; empty where it is not given in shares.
        core: Percent of a GPU's core; absent for a partition.
        memory: Of a GPU's memory; absent where it is not known.
        bandwidth: Bits per second of a NIC that is given in shares, or that a VF has reserved.
        bandwidth_ratio: The same in percent of the NIC's, where it was asked for so.
        isolation: Whether the limits hold, as the node's plugin reports; absent before the claim is prepared.
        pods: The pods that the claim is reserved for; at most 16 of them.
        more_pods: How many more there are; absent for none.
        pod_groups: The PodGroups that the claim is reserved for, by name; at most 16 of them. All pods of such a group
            may use the claim, and are not among its pods here.
    """

    namespace: Annotated[str, Field(max_length=63)]
    claim: Annotated[str, Field(max_length=253)]
    uid: Annotated[str, Field(max_length=64)]
    request: Annotated[str, Field(max_length=127)]
    device: DeviceLabel
    share_id: Annotated[str, Field(max_length=64)] = Field(alias="shareID")
    core: Percent | None = None
    memory: MemorySize | None = None
    bandwidth: Bandwidth | None = None
    bandwidth_ratio: Percent | None = None
    isolation: DeviceIsolation | None = None
    pods: Annotated[
        tuple[DevicePod, ...],
        Field(
            max_length=MAX_PODS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
        ),
    ] = ()
    more_pods: UInt32 | None = None
    pod_groups: Annotated[
        tuple[Annotated[str, Field(max_length=253)], ...],
        Field(max_length=MAX_PODS, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()


class DeviceAmounts(_Object):
    """Amounts of a device; absent is what it does not have, or what is not known.

    Attributes:
        core: Percent of a GPU's core; of what is allocated in partitions, in proportion to their compute slices. What
            is allocated is above 100 where GpuPolicies promise the core more than once.
        memory: Of a GPU's memory.
        bandwidth: Bits per second of a NIC.
        bandwidth_ratio: Percent of the bandwidth of a NIC whose speed is not known.
        vfs: Virtual functions of a NIC that is given by them.
    """

    core: Annotated[StrictInt, Field(ge=0, le=MOST_CORE)] | None = None
    memory: MemorySize | None = None
    bandwidth: Bandwidth | None = None
    bandwidth_ratio: Percent | None = None
    vfs: UInt16 | None = None


class DeviceFragment(_Object):
    """The most that one more claim can get of a device.

    Attributes:
        core: Percent of a GPU's core, by a share.
        memory: Of a GPU's memory, by a share or a partition.
        profile: The largest MIG profile that a partition can still be made of; absent where there is none.
        bandwidth: Bits per second of a NIC.
        bandwidth_ratio: Percent of the bandwidth of a NIC whose speed is not known.
        vfs: Virtual functions of a NIC.
    """

    core: Percent | None = None
    memory: MemorySize | None = None
    profile: Text | None = None
    bandwidth: Bandwidth | None = None
    bandwidth_ratio: Percent | None = None
    vfs: UInt16 | None = None


class DevicePartition(_Object):
    """A MIG partition of a GPU that exists or is allocated.

    Attributes:
        device: The partition's name in the pool, as allocation results call it.
        profile: Its profile, such as 1g.10gb.
        start: The first memory slice of its placement.
        size: The number of memory slices.
        uuid: The MIG device's UUID; absent before it is made.
    """

    device: DeviceLabel
    profile: Text
    start: UInt32
    size: UInt32
    uuid: Text | None = None


class DeviceStatus(_Object):
    """How a device is.

    Attributes:
        state: Healthy, Unhealthy, or Unknown where it is not watched.
        conditions: Healthy, and Degraded where something is wrong that does not keep work away; since when, and why.
        capacity: What it has.
        allocatable: What of that can be given as things stand: nothing while it is unhealthy or not on offer, or its
            node's plugin can prepare no claim.
        mode: How the device is given now, which excludes all other ways. whole, to one claim; shared, in shares of
            bytes of memory; ratio, in shares of percent of memory; mig, in MIG partitions. Absent while it is free.
        allocated: How much of it is allocated, in all; absent while it is free.
        largest_free: The most that one more claim can get of it; absent where nothing is left.
        partitions: The MIG partitions of a GPU that exist or are allocated.
        allocations: Which claims have it, or parts of it.
    """

    state: Literal["Healthy", "Unhealthy", "Unknown"]
    conditions: Conditions = ()
    capacity: DeviceAmounts | None = None
    allocatable: DeviceAmounts | None = None
    mode: DeviceMode | None = None
    allocated: DeviceAmounts | None = None
    largest_free: DeviceFragment | None = None
    partitions: Annotated[
        tuple[DevicePartition, ...],
        Field(
            max_length=64,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["device"]},
        ),
    ] = ()
    allocations: Annotated[
        tuple[DeviceAllocation, ...],
        Field(
            max_length=MAX_ALLOCATIONS,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid", "request", "device", "shareID"],
            },
        ),
    ] = ()


class Device(_Object):
    """One GPU, RDMA NIC, VF or FPGA of a node, as the controller shows it. Named <node>.<device>."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {"rule": _RIGHT_NAME, "message": "metadata.name must be <spec.nodeName>.<spec.deviceName>"}
            ]
        }
    )

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceSpec
    status: DeviceStatus | None = None
