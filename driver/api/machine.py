"""A machine in a page of YAML: which devices it has, and how PCIe and the links between GPUs join them.

It says what an NCCL topology file says, in a form that people write and read: the properties of equal devices once, in
``kinds``, and the PCI tree as nested lists. examples/machines/README.md explains it to users.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, JsonValue, StrictBool, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from driver.api.policies import PolicyObject
from driver.api.validation.wording import PLAIN_ERROR

__all__ = ["CLASS_CODES", "DeviceKind", "GpuLinks", "Machine", "NumaNode"]

# PCI Code and ID Assignment Specification 1.16, with the words that lspci has for them, in short.
CLASS_CODES: Final = {
    "3d": "0x030200",
    "vga": "0x030000",
    "display": "0x038000",
    "infiniband": "0x020700",
    "ethernet": "0x020000",
    "accelerator": "0x120000",
    "memory": "0x058000",
    "bridge": "0x060400",
}
_GPU_CLASSES: Final = frozenset({"3d", "vga", "display"})
_NIC_CLASSES: Final = frozenset({"infiniband", "ethernet"})
_AMD: Final = "1002:"

_Class: TypeAlias = Literal["3d", "vga", "display", "infiniband", "ethernet", "accelerator", "memory", "bridge"]
_Text: TypeAlias = Annotated[StrictStr, Field(max_length=1000)]
_Name: TypeAlias = Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
_Number: TypeAlias = Annotated[StrictInt, Field(ge=0, le=4095)]


class DeviceKind(PolicyObject):
    """What equal devices have in common; all of it may be unknown.

    Attributes:
        pci_class: What the PCI class says.
        id: PCI vendor and device id, ``10de:20b0``.
        pcie_link: Speed and width of the PCIe link, ``16 GT/s x16``.
        architecture: An AMD GPU's, ``gfx90a``.
        compute_capability: An NVIDIA GPU's, ``9.0``.
        compute_units: An AMD GPU's number of compute units.
        link_speed_gbps: Of a NIC's port.
        ports: How many ports each RDMA device of a NIC has.
        rdma: False for a NIC that NCCL uses through sockets.
    """

    pci_class: _Class | None = Field(None, alias="class")
    id: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")] | None = None
    pcie_link: Annotated[StrictStr, Field(pattern=r"^[0-9]{1,3}(\.[0-9])? GT/s x[0-9]{1,2}$")] | None = None
    architecture: Annotated[StrictStr, Field(pattern=r"^gfx[0-9a-f]{3,5}$")] | None = None
    compute_capability: Annotated[StrictStr, Field(pattern=r"^[0-9]{1,2}\.[0-9]$")] | None = None
    compute_units: Annotated[StrictInt, Field(ge=1, le=9999)] | None = None
    link_speed_gbps: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    ports: Annotated[StrictInt, Field(ge=1, le=16)] = 1
    rdma: StrictBool = True

    @model_validator(mode="after")
    def _fields_fit_the_class(self) -> Self:
        for allowed, what, names in (
            (self.is_gpu, "a GPU", {"architecture", "compute_capability", "compute_units"}),
            (self.is_nic, "a NIC", {"link_speed_gbps", "ports", "rdma"}),
        ):
            for name in () if allowed else sorted(names & self.model_fields_set):
                field = type(self).model_fields[name].alias
                raise PydanticCustomError(PLAIN_ERROR, "{field} is for {what}", {"field": field, "what": what})
        if self.pci_class == "accelerator" and self.id is None:
            raise PydanticCustomError(PLAIN_ERROR, "an accelerator needs an id, which tells GPUs and FPGAs apart")
        return self

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU: AMD's MI300 series and later call themselves accelerators."""
        return self.pci_class in _GPU_CLASSES or (self.pci_class == "accelerator" and (self.id or "").startswith(_AMD))

    @property
    def is_nic(self) -> bool:
        """Whether it is a network controller."""
        return self.pci_class in _NIC_CLASSES

    @property
    def is_bridge(self) -> bool:
        """Whether devices can be below it."""
        return self.pci_class == "bridge"


class NumaNode(PolicyObject):
    """A NUMA node's part of the PCI tree.

    Attributes:
        id: Its number; None where the platform does not report it.
        devices: ``KIND ADDRESS [RDMA DEVICE ...]`` for a device, and ``{KIND ADDRESS: [...]}`` for a bridge with what
            is below it.
    """

    id: Annotated[StrictInt, Field(ge=0, le=1023)] | None = None
    devices: Annotated[tuple[JsonValue, ...], Field(min_length=1)]


class GpuLinks(PolicyObject):
    """Links between GPUs, which are numbered in the order of the description, from 0.

    Attributes:
        kind: NVLink or xGMI.
        count: How many links join each two GPUs of a group, or each GPU and the NVSwitches.
        groups: The GPUs of which each is linked to each.
        nvswitch: Every GPU is linked to the NVSwitches.
    """

    kind: Literal["nvlink", "xgmi"]
    count: Annotated[StrictInt, Field(ge=1, le=1000)] = 1
    groups: tuple[Annotated[tuple[_Number, ...], Field(min_length=2)], ...] = ()
    nvswitch: StrictBool = False

    @model_validator(mode="after")
    def _goes_one_way(self) -> Self:
        if bool(self.groups) == self.nvswitch:
            raise PydanticCustomError(PLAIN_ERROR, "give either groups of GPUs or nvswitch: true")
        return self


class Machine(PolicyObject):
    """A machine.

    Attributes:
        description: What it is, in a sentence.
        source: Where the facts come from.
        kinds: By the name that the tree uses.
        numa_nodes: The PCI tree.
        links: The links between GPUs.
    """

    api_version: Literal["rootport.dev/v1alpha1"]
    kind: Literal["Machine"]
    description: _Text = ""
    source: _Text = ""
    kinds: Annotated[dict[_Name, DeviceKind], Field(max_length=100)]
    numa_nodes: Annotated[tuple[NumaNode, ...], Field(min_length=1)]
    links: tuple[GpuLinks, ...] = ()
