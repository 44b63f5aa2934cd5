"""What Rootport publishes for the attributes and capacities of other DRA drivers' devices.

Sources: NVIDIA's DRA driver (kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/deviceinfo.go, mig.go and
partitions.go; ``index``, ``minor`` and ``pcieRoot`` in its own domain are of NVIDIA/k8s-dra-driver v0.1 to v25.3) and
dranet (kubernetes-sigs/dranet, pkg/apis/attributes.go and pkg/inventory/db.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from driver import DRIVER_NAME
from driver.layout import attributes as a
from driver.model.devices import DeviceType

__all__ = ["DOMAINS", "DRANET", "NAMES", "NVIDIA", "Equal", "Part", "equal_of"]

Part: TypeAlias = Literal["attributes", "capacity"]
"""The two maps of a device that selectors read."""

NVIDIA: Final = "gpu.nvidia.com"
"""The name of NVIDIA's DRA driver for GPUs, and the domain of its attributes."""

DRANET: Final = "dra.net"
"""The name of dranet, and the domain of its attributes."""

DOMAINS: Final = frozenset({NVIDIA, DRANET})
"""The domains whose attributes are translated."""

_STANDARD_DOMAIN: Final = "resource.kubernetes.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Equal:
    """What stands for an attribute or a capacity of another driver: one of the first three fields is set.

    Attributes:
        name: The full name that Rootport publishes.
        constant: The value that all devices of the class have.
        refused: Why nothing stands for it, and what to write instead.
        values: Rootport's values by the other driver's, where they differ.
        note: What is different.
        may_be_absent: Whether a device may lack it, so that a selector has to ask first whether it is there.
    """

    name: str = ""
    constant: bool | None = None
    refused: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    may_be_absent: bool = False


_MAY_BE_ABSENT: Final = frozenset(
    {
        a.UUID,
        a.MODEL,
        a.ARCHITECTURE,
        a.DRIVER_VERSION,
        a.CUDA_DRIVER_VERSION,
        a.CUDA_COMPUTE_CAPABILITY,
        a.MEMORY,
        a.IF_NAME,
        a.PARENT_UUID,
    }
)
"""What NVML does not tell of every GPU, and what not every NIC and partition has."""


def _own(name: str, note: str = "") -> Equal:
    return Equal(name=f"{DRIVER_NAME}/{name}", note=note, may_be_absent=name in _MAY_BE_ABSENT)


def _refused(text: str) -> Equal:
    return Equal(refused=text)


_NOTHING: Final = _refused("Rootport publishes nothing that stands for it")
_BY_POLICY: Final = (
    "MIG partitions publish it only where a GpuPolicy lists it in extraAttributes ({{name: {name}, from: {source}}}); "
    "then write it as it is"
)


def _by_policy(name: str, source: str) -> Equal:
    return _refused(_BY_POLICY.format(name=f"{NVIDIA}/{name}", source=source))


_GPU_INDEX: Final = "index counts the GPUs in the order of their PCI addresses, and changes when one fails"
_PARENT_UUID: Final = "partitions publish it only where a GpuPolicy lists rootport.dev/parentUUID in extraAttributes"

_GPU_ATTRIBUTES: Final[Mapping[str, Equal]] = {
    "type": _own(a.TYPE),
    "uuid": _own(a.UUID),
    "productName": _own(a.MODEL),
    "architecture": _own(a.ARCHITECTURE),
    "driverVersion": _own(a.DRIVER_VERSION),
    "cudaDriverVersion": _own(a.CUDA_DRIVER_VERSION),
    "cudaComputeCapability": _own(a.CUDA_COMPUTE_CAPABILITY),
    "index": _own(a.INDEX, _GPU_INDEX),
    "pciBusID": Equal(name=a.STANDARD_PCI_BUS_ID),
    "pcieRoot": Equal(name=a.STANDARD_PCIE_ROOT),
    "numaNode": Equal(name=a.STANDARD_NUMA_NODE),
    "brand": _refused("Rootport does not publish the brand: select by the model (rootport.dev/model)"),
    "minor": _refused("Rootport does not publish the minor number: select by rootport.dev/uuid"),
}
_MIG_ATTRIBUTES: Final[Mapping[str, Equal]] = {
    "type": _own(a.TYPE),
    "profile": _own(a.PROFILE),
    "parentUUID": _own(a.PARENT_UUID, _PARENT_UUID),
    "pcieRoot": Equal(name=a.STANDARD_PCIE_ROOT),
    "numaNode": Equal(name=a.STANDARD_NUMA_NODE),
    "productName": _by_policy("productName", a.MODEL),
    "architecture": _by_policy("architecture", a.ARCHITECTURE),
    "driverVersion": _by_policy("driverVersion", a.DRIVER_VERSION),
    "cudaDriverVersion": _by_policy("cudaDriverVersion", a.CUDA_DRIVER_VERSION),
    "cudaComputeCapability": _by_policy("cudaComputeCapability", a.CUDA_COMPUTE_CAPABILITY),
    "uuid": _refused("a partition has no UUID before it is created: select by rootport.dev/profile"),
}
_NIC_ATTRIBUTES: Final[Mapping[str, Equal]] = {
    "rdma": Equal(constant=True),
    "virtual": Equal(constant=False),
    "ifName": _own(a.IF_NAME),
    "rdmaDevice": _own(a.RDMA_DEVICE),
    "pciAddress": Equal(name=a.STANDARD_PCI_BUS_ID),
    "numaNode": Equal(name=a.STANDARD_NUMA_NODE),
    "encapsulation": Equal(
        name=f"{DRIVER_NAME}/{a.LINK_TYPE}", values={"ether": "ethernet", "infiniband": "infiniband"}
    ),
    "pciVendor": _refused("write rootport.dev/vendor, such as nvidia for Mellanox, intel, broadcom"),
    "pciDevice": _refused("select by the model (rootport.dev/model)"),
    "state": _refused("a NIC without an active port has a taint that keeps claims away: leave the selector out"),
}
_OF_A_POOL: Final = "only VFs that a NicPolicy publishes by name (vfs: named) have it; pools of VFs do not"


def _of_vfs(attributes: Mapping[str, Equal]) -> Mapping[str, Equal]:
    named = {"ifName": _own(a.IF_NAME, _OF_A_POOL), "rdmaDevice": _own(a.RDMA_DEVICE, _OF_A_POOL)}
    address = Equal(name=a.STANDARD_PCI_BUS_ID, note=_OF_A_POOL)
    return {**attributes, **named, "pciAddress": address, "isSriovVf": Equal(constant=True)}


_MEMORY: Final[Mapping[str, Equal]] = {"memory": _own(a.MEMORY)}
_GPUS: Final[Mapping[Part, Mapping[str, Equal]]] = {"attributes": _GPU_ATTRIBUTES, "capacity": _MEMORY}

NAMES: Final[Mapping[tuple[str, DeviceType], Mapping[Part, Mapping[str, Equal]]]] = {
    (NVIDIA, DeviceType.GPU): _GPUS,
    (NVIDIA, DeviceType.MIG): {"attributes": _MIG_ATTRIBUTES, "capacity": _MEMORY},
    (DRANET, DeviceType.RDMA): {
        "attributes": {**_NIC_ATTRIBUTES, "isSriovVf": Equal(constant=False)},
        "capacity": {},
    },
    (DRANET, DeviceType.RDMA_VF): {"attributes": _of_vfs(_NIC_ATTRIBUTES), "capacity": {}},
}
"""What stands for the names of a domain, by the domain and the kind of device that a request asks for."""

_STANDARD: Final[Mapping[DeviceType, frozenset[str]]] = {
    DeviceType.GPU: frozenset({a.STANDARD_PCIE_ROOT, a.STANDARD_PCI_BUS_ID, a.STANDARD_NUMA_NODE}),
    DeviceType.MIG: frozenset({a.STANDARD_PCIE_ROOT, a.STANDARD_NUMA_NODE}),
    DeviceType.RDMA: frozenset({a.STANDARD_PCIE_ROOT, a.STANDARD_PCI_BUS_ID, a.STANDARD_NUMA_NODE}),
    DeviceType.RDMA_VF: frozenset({a.STANDARD_PCIE_ROOT, a.STANDARD_PCI_BUS_ID, a.STANDARD_NUMA_NODE}),
}


def equal_of(part: Part, name: str, kind: DeviceType) -> Equal:
    """Return what stands for an attribute or a capacity.

    Args:
        part: Which of the two it is.
        name: Its full name.
        kind: The kind of Rootport's device that the request asks for.
    """
    domain, _, identifier = name.partition("/")
    if domain == DRIVER_NAME:
        return Equal(name=name)
    if domain == _STANDARD_DOMAIN:
        if part == "attributes" and name in _STANDARD[kind]:
            return Equal(name=name)
        return _refused(f"Rootport's devices of type {kind} do not publish it")
    known = NAMES.get((domain, kind))
    return _NOTHING if known is None else known[part].get(identifier, _NOTHING)
