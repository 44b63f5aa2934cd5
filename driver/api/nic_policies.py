"""``NicPolicies``: an administrator's rules for allocating RDMA NICs, per model and per node (``--nic-policies``)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, StrictBool, StrictInt, model_validator
from pydantic_core import PydanticCustomError

from driver.api import API_VERSION
from driver.api.policies import (
    AmountSteps,
    ExtraAttribute,
    Pattern,
    PoliciesDocument,
    PolicyForModels,
    PolicyObject,
    matches,
)
from driver.api.quantity import Quantity
from driver.api.validation.wording import PLAIN_ERROR

__all__ = [
    "DEFAULT_NIC_POLICIES",
    "BandwidthRatioSteps",
    "BandwidthSteps",
    "BandwidthUnit",
    "ExtraNicAttribute",
    "NicPolicies",
    "NicPolicy",
    "Rail",
    "VfMode",
]

VfMode: TypeAlias = Literal["pooled", "named"]
"""How the VFs of a NIC are published: as one device of which a claim is given any, or each as a device of its own."""


BandwidthUnit: TypeAlias = Literal["bitsPerSecond", "percent"]
"""In what bandwidth is published: capacity ``bandwidth`` or ``bandwidthRatio``."""


class BandwidthSteps(AmountSteps):
    """Which bandwidths, in bits per second, a share of a NIC may have."""

    unit: ClassVar[str] = "bits per second"
    example: ClassVar[str] = "10G"

    minimum: Quantity = Quantity("1G")
    step: Quantity = Quantity("1G")


_Percent: TypeAlias = Annotated[StrictInt, Field(ge=1, le=100)]


class BandwidthRatioSteps(PolicyObject):
    """Which percentages of a NIC's bandwidth a share may have: ``minimum``, and any number of steps above it.

    Attributes:
        minimum: The least, in percent. A claim that asks for less is given this much.
        step: In percent. Claims that ask for something in between are given the next amount above.
    """

    minimum: _Percent = 1
    step: _Percent = 1


_Patterns: TypeAlias = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=64)]


class Rail(PolicyObject):
    """Which NICs are on one rail. Of the fields that say so at least one is there, and all that are must match.

    Attributes:
        rail: The rail's number.
        if_names: Glob patterns on the names of the NIC's network interfaces, of which one must match.
        rdma_devices: Likewise on its RDMA device, such as ``mlx5_0``.
        pci_addresses: Likewise on its PCI address.
        pcie_switches: Likewise on the PCI address of the switch that its attribute ``pcieSwitch`` names.
    """

    rail: Annotated[StrictInt, Field(ge=0, le=4095)]
    if_names: _Patterns | None = None
    rdma_devices: _Patterns | None = None
    pci_addresses: _Patterns | None = None
    pcie_switches: _Patterns | None = None

    @model_validator(mode="after")
    def _names_nics(self) -> Rail:
        if not any((self.if_names, self.rdma_devices, self.pci_addresses, self.pcie_switches)):
            raise PydanticCustomError(
                PLAIN_ERROR,
                "say which NICs are on rail {rail}: with ifNames, rdmaDevices, pciAddresses or pcieSwitches",
                {"rail": self.rail},
            )
        return self

    def has(self, *, if_names: tuple[str, ...], rdma_device: str | None, address: str, switch: str | None) -> bool:
        """Whether a NIC is on this rail."""
        wishes = (
            (self.if_names, if_names or (None,)),
            (self.rdma_devices, (rdma_device,)),
            (self.pci_addresses, (address,)),
            (self.pcie_switches, (switch,)),
        )
        return all(matches(patterns, *values) for patterns, values in wishes if patterns is not None)


class ExtraNicAttribute(ExtraAttribute):
    """An attribute of NICs, VFs and pools of VFs."""

    source: Literal[
        "type", "vendor", "model", "index", "numaNode", "pcieSwitch", "rdmaDevice", "ifName", "linkType", "linkSpeed",
        "linkState", "guid", "rdmaNetns", "rail", "parent", "resource.kubernetes.io/pcieRoot",
        "resource.kubernetes.io/pciBusID",
    ] = Field(alias="from")  # fmt: skip


class NicPolicy(PolicyForModels):
    """The rules of some NICs.

    Attributes:
        vfs: How a NIC's VFs are published. VFs that are not alike are published by name whatever this says.
        sharing: Whether a NIC without VFs can be given to several claims at once, each with a part of its bandwidth. In
            RDMA's exclusive namespace mode none can, whatever this says.
        unit: In what shares ask for bandwidth. A NIC whose speed is not known is shared by percent whatever this says.
        bandwidth: The bandwidths that a share may have, in bits per second. Nothing on the node enforces them.
        bandwidth_ratio: The percentages of the NIC's bandwidth that a share may have, where it is shared by percent.
        rails: The rails that the NICs are on, the first match of each; a NIC that none matches is on no rail. None:
            they are numbered by convention (:mod:`driver.model.rails`).
        extra_attributes: What the NICs, and their VFs, publish beyond Rootport's own attributes.
    """

    vfs: VfMode = "pooled"
    sharing: StrictBool = True
    unit: BandwidthUnit = "bitsPerSecond"
    bandwidth: BandwidthSteps = BandwidthSteps()
    bandwidth_ratio: BandwidthRatioSteps = BandwidthRatioSteps()
    rails: Annotated[tuple[Rail, ...], Field(max_length=128)] | None = None
    extra_attributes: tuple[ExtraNicAttribute, ...] = ()


_DEFAULT: Final = NicPolicy()


class NicPolicies(PoliciesDocument):
    """All rules; for a NIC the first that is for it holds, and the defaults where none is.

    Attributes:
        policies: The first match wins.
    """

    KIND: ClassVar[str] = "NicPolicies"

    kind: Literal["NicPolicies"]
    policies: Annotated[tuple[NicPolicy, ...], Field(max_length=1000)] = ()

    def of(self, *, model: str | None, node: str) -> NicPolicy:
        """Return the rules for a NIC (PF) of that model on that node, which hold for its VFs too."""
        return next((policy for policy in self.policies if policy.is_for(model=model, node=node)), _DEFAULT)


DEFAULT_NIC_POLICIES: Final = NicPolicies.model_validate({"apiVersion": API_VERSION, "kind": NicPolicies.KIND})
"""VFs that are alike are pooled, whole NICs can be shared by any gigabit per second."""
